"""The `ctk` command: its subcommands, the options that all of them have, and what an error becomes.

A command's module is imported when the command is called, and not for a list of commands: its imports take most of a
second.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import re
import sys
import traceback
from collections import UserDict
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import typer
from typer.core import TyperCommand, TyperGroup

from ctk.cli import interrupt
from ctk.core import console
from ctk.core.address import take
from ctk.core.checkout import remember_environment, workspace
from ctk.core.errors import BadValue, CtkError, NoSpace, ReaderGone, without_credentials
from ctk.core.files import disk_errors, use_temporary_folder
from ctk.core.process import hard_exit

Table = Mapping[str, str | tuple[str, Mapping[str, str]]]

COMMANDS: Table = {
    "doctor": "doctor:doctor_command",
    "plan": "build:plan_command",
    "fetch": "build:fetch_command",
    "build": "build:build_command",
    "lint": "checks:lint_command",
    "audit": "checks:audit_command",
    "gpu-code": "gpu_code:gpu_code_command",
    "solve": "solve:solve_command",
    "installable": "installable:installable_command",
    "build-recipe": "build_recipe:build_recipe_command",
    "prove": "solve:prove_command",
    "verify": "solve:verify_command",
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
    "clean": "clean:clean_command",
    "site": ("The channel's site.", {"build": "channel:site_command"}),
    "feedstock": ("Recipes as feedstocks of their own.", {"export": "build:export_command"}),
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

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
VERBATIM = "-- COMMAND [ARG]..."
"""An argument of that name is another program's command line: its words may be empty."""


def summary(entry: str | tuple[str, Mapping[str, str]]) -> str:
    """The first sentence of a command's help, read from its source: importing the module would take a while."""
    if isinstance(entry, tuple):
        return entry[0]
    module, _, function = entry.partition(":")
    return (ast.get_docstring(_functions(module)[function]) or "").partition("\n")[0]


@cache
def _functions(module: str) -> dict[str, ast.FunctionDef]:
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


class LazyCommands(UserDict[str, Any]):
    """The commands of a table, each imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        entry = self.data[name]
        if isinstance(entry, str):
            module, _, function = entry.partition(":")
            app = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=SETTINGS)
            app.command(name, cls=Command)(getattr(importlib.import_module(f"ctk.cli.{module}"), function))
            self.data[name] = typer.main.get_command(app)
        elif isinstance(entry, tuple):
            self.data[name] = Group(name=name, help=entry[0], table=entry[1])
        return self.data[name]


class Command(TyperCommand):
    """A command whose docstring ends with ``Example:`` and a line for each."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        _share_options(self)
        text, *rest = re.split(r"^Examples?: *", self.help or "", flags=re.M)
        self.help = text.strip()
        self.examples = [line.strip() for part in rest for line in part.splitlines() if line.strip()]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuses an empty value: of a script's unset variable, `Path` would make the current folder."""
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except typer.TyperException as error:
            raise usage_error(error, ctx) from None
        if not ctx.resilient_parsing:
            verbatim = {param.name for param in self.params if param.metavar == VERBATIM}
            ctx.params = {name: value if name in verbatim else _public(value) for name, value in ctx.params.items()}
            given, _, _ = self.make_parser(ctx).parse_args(args=words)
            for param in self.get_params(ctx):
                if param.metavar != VERBATIM and _is_empty(given.get(param.name)):
                    is_option = param.param_type_name == "option"
                    name = max(param.opts, key=len) if is_option else (param.metavar or param.name.upper()).strip("[]")
                    raise BadValue(f"{name} is empty", f"leave it out, or see {ctx.command_path} --help")
        return rest

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes each example as a line that can be copied, however long it is."""
        with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
            for line in self.examples:
                formatter.write(f"  {line}\n")


def _public(value: Any) -> Any:
    """What was typed, without secrets, whatever it is for: no option that takes an address can be forgotten."""
    if isinstance(value, list | tuple):
        return type(value)(map(_public, value))
    return take(value) if type(value) is str else value


def _is_empty(value: Any) -> bool:
    return any(map(_is_empty, value)) if isinstance(value, list | tuple) else value == ""


class Group(TyperGroup):
    """A group of commands that are imported when they are called."""

    def __init__(self, *, table: Table = COMMANDS, **settings: Any) -> None:
        super().__init__(**{"context_settings": SETTINGS, **settings, "rich_markup_mode": None})
        self.entries = table
        self.commands = cast(Any, LazyCommands(table))
        _share_options(self)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.entries)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary(entry)) for name, entry in self.entries.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Names and options, without importing the commands."""
        from typer._click.shell_completion import CompletionItem  # typer keeps its click to itself

        named = [name for name in self.entries if name.startswith(incomplete)]
        options = super(TyperGroup, self).shell_complete(ctx, incomplete)
        return [*(CompletionItem(name, help=summary(self.entries[name])) for name in named), *options]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.entries and not name.startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(name, self.entries, n=3, cutoff=0.5)
            step = f"did you mean {' or '.join(near)}?" if near else f"see {ctx.command_path} --help"
            raise BadValue(f"there is no command {ctx.command_path} {name}", step)
        return super().resolve_command(ctx, args)


class Root(Group):
    """The outermost group: a run begins and ends with it."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        console.begin()
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        try:
            value = super().invoke(ctx)
        except CtkError as error:
            with contextlib.suppress(OSError):  # the command's own error matters more
                console.finish(error)
            raise
        console.finish()
        return value


def _set(param: typer.CallbackParam, value: bool) -> bool:
    if value:
        setattr(console.mode(), str(param.name), True)
    return value


def _flag(*names: str, help_: str) -> Any:
    return typer.Option(*names, callback=_set, expose_value=False, show_default=False, help=help_)


def _shared(
    json: Annotated[
        bool, _flag("--json", help_="Print the result as one JSON document on stdout, errors too.")
    ] = False,
    quiet: Annotated[bool, _flag("--quiet", "-q", help_="Print results and errors only.")] = False,
    verbose: Annotated[bool, _flag("--verbose", "-v", help_="Say more of what happens.")] = False,
    debug: Annotated[bool, _flag("--debug", help_="Show a traceback when something fails.")] = False,
) -> None:
    """Has the options that every command has, behind its name as well as before it."""


def _share_options(command: TyperCommand | TyperGroup) -> None:
    """Adds them, and names each value in the help after its option: a Python type would say little to most."""
    app = typer.Typer(add_completion=False)
    app.command()(_shared)
    command.params += typer.main.get_command(app).params
    for param in command.params:
        if param.param_type_name == "option" and not param.metavar and not getattr(param, "is_flag", False):
            described = getattr(param, "type_descriptor", None)
            if described is not None and not described.is_choice:
                long = max(param.opts, key=len).lstrip("-")
                param.metavar = "N" if described.is_ranged else long.rpartition("-")[2].upper()


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
    _open_streams()
    _clean_environment()
    if "_CTK_COMPLETE" in os.environ:
        _complete()
    interrupt.install()
    use_temporary_folder(workspace())
    hard_exit(_code())


def _code() -> int:
    """The exit code of the command, whose error is printed."""
    try:
        with disk_errors():
            code = app(prog_name="ctk", standalone_mode=False)
            sys.stdout.flush()
        return int(code or 0)
    except BrokenPipeError:
        return ReaderGone.exit_code
    except SystemExit as error:  # of rich where nobody reads, and of typer's completion
        return ReaderGone.exit_code if error.code else 0
    except KeyboardInterrupt:
        interrupt.stop()
    except typer.TyperException as error:
        return _failed(usage_error(error))
    except CtkError as error:
        return _failed(error)
    except Exception as error:
        if isinstance(error, OSError) and not error.filename:
            cause = f"standard output or error cannot be written: {error.strerror}"
            return _failed(NoSpace(cause, "look at where it goes, and run the command again"))
        console.mode().debug = True
        return _failed(CtkError(f"{type(error).__name__}: {error}", "report it, with the traceback"))


def _open_streams() -> None:
    """Opens closed standard streams (``>&-``) on nothing: the next opened file would have their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")


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


def _failed(error: CtkError) -> int:
    """Prints an error as far as that is possible, and gives its exit code; called where the error is caught."""
    with contextlib.suppress(OSError):
        if console.mode().debug:
            sys.stderr.write(without_credentials(traceback.format_exc()))
    with contextlib.suppress(OSError):
        console.finish(error)
    with contextlib.suppress(OSError, SystemExit):
        if not console.mode().printed:
            console.print_error(error)
    return error.exit_code


def usage_error(error: typer.TyperException, context: Any = None) -> CtkError:
    """Typer's error about a command line that it cannot read, as one of ours; `context` is that of the command."""
    context = getattr(error, "ctx", None) or context
    option = getattr(error, "option_name", "")
    near = get_close_matches(option, getattr(error, "possibilities", None) or (), n=2, cutoff=0)  # the nearest first
    see = f"see {context.command_path} --help" if context else ""
    text = error.message if near else error.format_message()
    text = text[:1].lower() + text[1:].rstrip(".").replace("\n", " ").replace("Value error, ", "")
    return BadValue(text, f"did you mean {' or '.join(near)}? {see}" if near else see)
