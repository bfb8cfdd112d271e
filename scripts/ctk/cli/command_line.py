"""What all commands have in common: shared options, examples below their help, suggestions for misspelled names.

A command's module is imported when the command is called, and not for a list of commands: its imports take most of a
second. `cli.main` has the table of commands.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from collections import UserDict
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

import typer
from typer.core import TyperCommand, TyperGroup

from ctk.core import console
from ctk.core.errors import BadValue

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
VERBATIM = "-- COMMAND [ARG]..."
"""An argument of that name is another program's command line: its words may be empty."""

Table = Mapping[str, str | tuple[str, Mapping[str, str]]]
"""Name of a command -> ``module:function`` below `ctk.cli`, or the help of a group and its table."""


def summary(entry: str | tuple[str, Mapping[str, str]]) -> str:
    """The first sentence of a command's help, read from its source: importing the module would take a while."""
    if isinstance(entry, tuple):
        return entry[0]
    module, _, function = entry.partition(":")
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    (node,) = (n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == function)
    return (ast.get_docstring(node) or "").partition("\n")[0]


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
        self.params += _shared_options()
        _name_values(self)
        text, *rest = re.split(r"^Examples?: *", self.help or "", flags=re.M)
        self.help = text.strip()
        self.examples = [line.strip() for part in rest for line in part.splitlines() if line.strip()]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuses an empty value: of a script's unset variable, `Path` would make the current folder.

        Raises:
            BadValue: An option or argument is given, and empty.
        """
        words = list(args)
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
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


def _is_empty(value: Any) -> bool:
    return any(map(_is_empty, value)) if isinstance(value, list | tuple) else value == ""


class Group(TyperGroup):
    """A group of commands that are imported when they are called; the outermost one has its table as an attribute."""

    table: ClassVar[Table] = {}

    def __init__(self, *, table: Table | None = None, **settings: Any) -> None:
        super().__init__(**{"context_settings": SETTINGS, **settings, "rich_markup_mode": None})
        self.entries = table or self.table
        self.commands = cast(Any, LazyCommands(self.entries))
        self.params += _shared_options()
        _name_values(self)

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


def _shared_options() -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_shared)
    return list(typer.main.get_command(app).params)


def _name_values(command: TyperCommand | TyperGroup) -> None:
    """Gives values a name in the help where the command has none: their Python type would say little to most."""
    for param in command.params:
        if param.param_type_name == "option" and not param.metavar and not getattr(param, "is_flag", False):
            described = getattr(param, "type_descriptor", None)
            if described is not None and not described.is_choice:
                long = max(param.opts, key=len).lstrip("-")
                param.metavar = "N" if described.is_ranged else long.rpartition("-")[2].upper()
