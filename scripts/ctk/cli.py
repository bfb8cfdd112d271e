"""The `ctk` command."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from rich.console import Console

from ctk.commands import (
    audit,
    build,
    channel,
    difference,
    environment,
    feedstock,
    publish,
    rebuild,
    release,
    use,
    verify,
)
from ctk.disk import disk_errors
from ctk.errors import CtkError, printable
from ctk.paths import workspace

app = typer.Typer(
    help="Builds, audits and verifies a conda channel of NVIDIA's CUDA Toolkit from its published artefacts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("plan")(build.plan_command)
app.command("fetch")(build.fetch_command)
app.command("build")(build.build_command)
app.command("audit")(audit.audit_command)
app.command("solve")(use.solve_command)
app.command("prove")(use.prove_command)
app.command("verify")(verify.verify_command)
app.command("rebuild")(rebuild.rebuild_command)
app.command("publish")(publish.publish_command)
app.add_typer(channel.app, name="channel")
app.add_typer(environment.app, name="env")
app.add_typer(feedstock.app, name="feedstock")
release.app.command("diff")(difference.diff_command)
app.add_typer(release.app, name="release")

_debug = False


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
) -> None:
    global _debug
    _debug = debug


def main() -> None:
    """Runs the command line; errors become two lines and an exit code."""
    # Nothing outside the checkout: rattler keeps its own caches here as well.
    os.environ.setdefault("RATTLER_CACHE_DIR", str(workspace().cache / "rattler"))
    try:
        with disk_errors(workspace().root):
            app()
    except CtkError as error:
        if _debug:
            raise
        console = Console(stderr=True, highlight=False)
        console.print(f"error: {printable(error.cause)}", style="bold red", markup=False, soft_wrap=True)
        if error.step:
            console.print(f"next: {printable(error.step)}", markup=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("\nstopped; what was finished is kept", file=sys.stderr)
        sys.exit(130)
