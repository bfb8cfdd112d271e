"""The `ctk` command."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from difflib import get_close_matches
from typing import Annotated, NoReturn

import typer

from ctk.cli import completion, interrupt
from ctk.cli.command_line import SETTINGS, Root, Table
from ctk.cli.table import COMMANDS
from ctk.core import output, scratch
from ctk.core.disk import disk_errors
from ctk.core.errors import BadValue, CtkError, ReaderGone, printable
from ctk.core.paths import remember_environment, workspace


class _Commands(Root):
    def own_table(self) -> Table:
        return COMMANDS


app = typer.Typer(
    cls=_Commands,
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
    output.guard()
    _forget_useless_width()
    if completion.asked():
        _complete()
    _forget_what_is_no_text()
    scratch.use(workspace())
    try:
        interrupt.install()
        with disk_errors(workspace().root):
            code = app(prog_name="ctk", standalone_mode=False)
            sys.stdout.flush()
    except BaseException as error:
        if interrupt.came():
            interrupt.wait_for_end()
        if isinstance(error, typer.TyperException):
            _fail(_misused(error))
        if isinstance(error, CtkError):
            _fail(error)
        if isinstance(error, Exception):
            output.finish(CtkError(f"{type(error).__name__}: {error}", "report it, with the traceback on stderr"))
        raise
    interrupt.ignore()  # all is done
    if interrupt.came():
        interrupt.wait_for_end()
    sys.exit(code)


def _complete() -> NoReturn:
    """Answers a shell; of a checkout that is broken nothing is said, for the line that is being typed would suffer."""
    os.environ["COLUMNS"] = "1000"  # typer folds the help of each word, and zsh would show the pieces as words
    with contextlib.suppress(Exception):
        sys.exit(app(prog_name="ctk", standalone_mode=False))
    sys.exit(0)


def _forget_useless_width() -> None:
    """A width of no columns, which some terminals and CI services state, would leave nothing of a result."""
    stated = os.environ.get("COLUMNS")
    if stated is not None and not (stated.isdecimal() and int(stated) > 0):
        del os.environ["COLUMNS"]


def _forget_what_is_no_text() -> None:
    """Variables that are no UTF-8: rattler-build panics at the sight of one."""
    for name, value in list(os.environ.items()):
        try:
            f"{name}{value}".encode()
        except UnicodeEncodeError:
            del os.environ[name]


def _fail(error: CtkError) -> NoReturn:
    """Ends the run with what is known of an error; called where it is caught."""
    if isinstance(error, ReaderGone):
        sys.exit(error.exit_code)
    if output.mode().debug:
        traceback.print_exc()
    output.finish(error)
    if not output.mode().printed:
        _say(error)
    with contextlib.suppress(CtkError):  # that of the command matters more
        sys.stdout.flush()
    sys.exit(error.exit_code)


def _say(error: CtkError) -> None:
    from rich.console import Console

    from ctk.core.report import write

    console = Console(stderr=True, highlight=False)
    write(console, f"error: {printable(error.cause)}", "bold red")
    if error.step:
        write(console, f"next: {printable(error.step)}")


def _misused(error: typer.TyperException) -> CtkError:
    """What typer says of a command line that it cannot read, as an error of ours."""
    context = getattr(error, "ctx", None)
    asked = getattr(error, "option_name", "")
    near = get_close_matches(asked, getattr(error, "possibilities", None) or (), n=2, cutoff=0)  # the nearest first
    see = f"see {context.command_path} --help" if context else ""
    text = error.message if near else error.format_message()
    text = text[:1].lower() + text[1:].rstrip(".").replace("\n", " ")
    return BadValue(text, f"did you mean {' or '.join(near)}? {see}" if near else see)
