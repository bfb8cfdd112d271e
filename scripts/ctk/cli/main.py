"""The `ctk` command: its subcommands, and what an error becomes."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from difflib import get_close_matches
from typing import Annotated, Any, NoReturn

import typer

from ctk.cli import interrupt
from ctk.cli.command_line import SETTINGS, Group, Table
from ctk.core import console
from ctk.core.checkout import remember_environment, workspace
from ctk.core.errors import BadValue, CtkError, ReaderGone
from ctk.core.files import disk_errors, use_temporary_folder

COMMANDS: Table = {
    "doctor": "doctor:doctor_command",
    "plan": "build:plan_command",
    "fetch": "build:fetch_command",
    "build": "build:build_command",
    "lint": "checks:lint_command",
    "audit": "checks:audit_command",
    "solve": "solve:solve_command",
    "prove": "solve:prove_command",
    "verify": "verify:verify_command",
    "rebuild": "build:rebuild_command",
    "publish": "channel:publish_command",
    "channel": (
        "Check a channel, and return to an older state of it.",
        {
            "check": "channel:check_command",
            "history": "channel:history_command",
            "rollback": "channel:rollback_command",
        },
    ),
    "env": (
        "Environments made from the channel.",
        {
            "create": "env:create_command",
            "run": "env:run_command",
            "check": "env:check_command",
            "pack": "env:pack_command",
        },
    ),
    "site": ("The channel's site.", {"build": "site:build_command"}),
    "feedstock": ("Recipes as feedstocks of their own.", {"export": "feedstock:export_command"}),
    "release": (
        "Release locks: add, check, list, measure, compare.",
        {
            "add": "release:add_command",
            "measure": "release:measure_command",
            "check": "release:check_command",
            "list": "release:list_command",
            "diff": "release:diff_command",
        },
    ),
}
"""Name of a command -> ``module:function`` in this folder, whose docstring is the help and ends with ``Example:`` and
a line for each; or the help of a group, and its commands."""


class Root(Group):
    """The outermost group: a run begins and ends with it."""

    table = COMMANDS

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        console.begin()
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        try:
            value = super().invoke(ctx)
        except CtkError as error:
            if not interrupt.came():
                console.finish(error)
            raise
        console.finish()
        return value


app = typer.Typer(
    cls=Root,
    help="Builds, audits and verifies a conda channel of NVIDIA's CUDA Toolkit from its published artefacts.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"ctk {version('ctk')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line; errors become two lines and an exit code, or a part of the JSON document."""
    remember_environment()
    # Nothing outside the checkout: rattler keeps its own caches here as well.
    os.environ.setdefault("RATTLER_CACHE_DIR", str(workspace().cache / "rattler"))
    console.guard()
    _clean_environment()
    if "_CTK_COMPLETE" in os.environ:
        _complete()
    use_temporary_folder(workspace())
    try:
        interrupt.install()
        with disk_errors(workspace().root):
            code = app(prog_name="ctk", standalone_mode=False)
            sys.stdout.flush()
    except BaseException as error:
        if interrupt.came():
            interrupt.wait_for_end()
        if isinstance(error, typer.TyperException):
            _fail(usage_error(error))
        if isinstance(error, CtkError):
            _fail(error)
        if isinstance(error, Exception):
            console.finish(CtkError(f"{type(error).__name__}: {error}", "report it, with the traceback on stderr"))
        raise
    interrupt.ignore()
    if interrupt.came():
        interrupt.wait_for_end()
    sys.exit(code)


def _clean_environment() -> None:
    """Removes variables that do harm: a width of no columns, and text that is not UTF-8, at which rattler panics."""
    width = os.environ.get("COLUMNS")
    if width is not None and not (width.isdecimal() and int(width) > 0):
        del os.environ["COLUMNS"]
    for name, value in list(os.environ.items()):
        try:
            f"{name}{value}".encode()
        except UnicodeEncodeError:
            del os.environ[name]


def _complete() -> NoReturn:
    """Answers a shell's TAB; errors of a broken checkout are not printed, they would land in the line being typed."""
    os.environ["COLUMNS"] = "1000"  # typer folds the help of each word, and zsh would show the pieces as words
    with contextlib.suppress(Exception):
        sys.exit(app(prog_name="ctk", standalone_mode=False))
    sys.exit(0)


def _fail(error: CtkError) -> NoReturn:
    """Prints an error and ends the run with its exit code; called where the error is caught."""
    if isinstance(error, ReaderGone):
        sys.exit(error.exit_code)
    if console.mode().debug:
        traceback.print_exc()
    console.finish(error)
    if not console.mode().printed:
        console.print_error(error)
    with contextlib.suppress(CtkError):  # the command's own error matters more
        sys.stdout.flush()
    sys.exit(error.exit_code)


def usage_error(error: typer.TyperException) -> CtkError:
    """Typer's error about a command line that it cannot read, as one of ours."""
    context = getattr(error, "ctx", None)
    option = getattr(error, "option_name", "")
    near = get_close_matches(option, getattr(error, "possibilities", None) or (), n=2, cutoff=0)  # the nearest first
    see = f"see {context.command_path} --help" if context else ""
    text = error.message if near else error.format_message()
    text = text[:1].lower() + text[1:].rstrip(".").replace("\n", " ")
    return BadValue(text, f"did you mean {' or '.join(near)}? {see}" if near else see)
