"""What all commands have in common: options for the output, examples below their help, names that are nearly right.

A command's module is imported when the command is called, and not for a list of commands or a completion: with all that
they need, the modules take most of a second. `commands.table` names them.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from ctk.cli import completion, interrupt
from ctk.core import output
from ctk.core.errors import BadValue, CtkError

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
VERBATIM = "-- COMMAND [ARG]..."
"""An argument of that name is another program's command line: its words may be empty."""
_EXAMPLES = re.compile(r"^Examples?: *", re.M)


@dataclass(frozen=True)
class Folder:
    """A group of commands.

    Attributes:
        help: What they are about, one sentence.
        commands: Its table.
    """

    help: str
    commands: Mapping[str, str | Folder]


Table = Mapping[str, str | Folder]
"""Name of a command -> ``module:function`` below `ctk.cli`, or a group."""


def summary(entry: str | Folder) -> str:
    """The first sentence of a command's help, read from its source: importing the module would take a while."""
    if isinstance(entry, Folder):
        return entry.help
    module, _, function = entry.partition(":")
    spec = importlib.util.find_spec(f"ctk.cli.{module}")
    source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    found = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == function]
    return (ast.get_docstring(found[0]) or "").partition("\n")[0] if found else ""


def load(name: str, entry: str | Folder) -> TyperCommand | Group:
    """A command or a group, with the options that all of them have."""
    if isinstance(entry, Folder):
        return Group(name=name, table=entry.commands, help=entry.help)
    if not completion.asked():
        return _made(name, _function(entry))
    params = completion.kept(entry)
    if params is None:
        params = completion.sketch(p for p in _made(name, _function(entry)).params if p.expose_value)
        completion.keep(entry, params)
    return _made(name, completion.function(entry, params))


def _function(entry: str) -> Callable[..., None]:
    module, _, function = entry.partition(":")
    return cast(Callable[..., None], getattr(importlib.import_module(f"ctk.cli.{module}"), function))


def _made(name: str, function: Callable[..., None]) -> TyperCommand:
    app = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=SETTINGS)
    app.command(name, cls=Command)(function)
    return cast(TyperCommand, typer.main.get_command(app))


class Command(TyperCommand):
    """A command whose docstring ends with ``Example:`` and a line for each."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.params += _shared_options()
        _name_values(self)
        self.help, *self.examples = _split(self.help or "")

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
    """Commands by their names; each is made when it is asked for."""

    def __init__(self, *, table: Table | None = None, **settings: Any) -> None:
        settings = {"context_settings": SETTINGS, **settings, "rich_markup_mode": None}
        super().__init__(**settings)
        self.table: Table = table or self.own_table()
        self.commands = cast(Any, _Made(self.table))
        self.params += _shared_options()
        _name_values(self)

    def own_table(self) -> Table:
        """The commands of a group that nobody gives any."""
        return {}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.table)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary(entry)) for name, entry in self.table.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        from typer._click.shell_completion import CompletionItem  # typer keeps its click to itself

        named = [n for n in self.table if n.startswith(incomplete)]
        options = super(TyperGroup, self).shell_complete(ctx, incomplete)
        return [*(CompletionItem(name, help=summary(self.table[name])) for name in named), *options]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.table and not name.startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(name, self.table, n=3, cutoff=0.5)
            step = f"did you mean {' or '.join(near)}?" if near else f"see {ctx.command_path} --help"
            raise BadValue(f"there is no command {ctx.command_path} {name}", step)
        return super().resolve_command(ctx, args)


class Root(Group):
    """The outermost group: a run begins and ends with it."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        output.begin()
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        try:
            value = super().invoke(ctx)
        except CtkError as error:
            if not interrupt.came():
                output.finish(error)
            raise
        output.finish()
        return value


class _Made(Mapping[str, Any]):
    """The commands of a table, each made once."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = load(name, self._table[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def _set(change: Callable[[output.Mode], None]) -> Callable[[bool], bool]:
    def callback(value: bool) -> bool:
        if value:
            change(output.mode())
        return value

    return callback


def _option(change: Callable[[output.Mode], None], help_: str, *names: str) -> Any:
    return typer.Option(*names, callback=_set(change), expose_value=False, show_default=False, help=help_)


def _json(mode: output.Mode) -> None:
    mode.json = True


def _quiet(mode: output.Mode) -> None:
    mode.level = -1


def _verbose(mode: output.Mode) -> None:
    mode.level = 1


def _debug(mode: output.Mode) -> None:
    mode.debug = True


_JSON = "Print the result as one JSON document on stdout, errors too."


def _shared(
    json: Annotated[bool, _option(_json, _JSON, "--json")] = False,
    quiet: Annotated[bool, _option(_quiet, "Print results and errors only.", "--quiet", "-q")] = False,
    verbose: Annotated[bool, _option(_verbose, "Say more of what happens.", "--verbose", "-v")] = False,
    debug: Annotated[bool, _option(_debug, "Show a traceback when something fails.", "--debug")] = False,
) -> None:
    """Has the options that every command has, behind its name as well as before it."""


def _shared_options() -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_shared)
    return list(typer.main.get_command(app).params)


def _name_values(command: TyperCommand | TyperGroup) -> None:
    """Gives values a name in the help where the command has none: its Python type would say little to most."""
    for param in command.params:
        if param.param_type_name == "option" and not param.metavar and not getattr(param, "is_flag", False):
            described = getattr(param, "type_descriptor", None)
            if described is not None and not described.is_choice:
                long = max(param.opts, key=len).lstrip("-")
                param.metavar = "N" if described.is_ranged else long.rpartition("-")[2].upper()


def _split(text: str) -> list[str]:
    """The help without its examples, and the examples."""
    text, *rest = _EXAMPLES.split(text)
    return [text.strip(), *(line.strip() for part in rest for line in part.splitlines() if line.strip())]
