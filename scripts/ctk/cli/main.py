"""The `ctk` command: its subcommands, the options that all have, and the exit code of an error."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shlex
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from ctk.cli import authors, build, channel, check, doctor, env, gpu_code, release, solve, verify
from ctk.cli.idle import refuse_idle
from ctk.cli.options import ADDRESSES, CHANNELS, CHECKED, VERBATIM
from ctk.core import console
from ctk.core.address import bucket_address, hide_logins, refuse_schemes, refuse_secrets
from ctk.core.checkout import given_environment, refuse_without_recipes, workspace
from ctk.core.children import TOLD_TO_END, end_children
from ctk.core.console import listing
from ctk.core.disk import disk_errors
from ctk.core.errors import (
    BadValue,
    ChannelBroken,
    CtkError,
    NoSpace,
    ReaderGone,
    Stopped,
    describe,
    printable,
)
from ctk.core.locks import use_temporary_folder
from ctk.core.process import hard_exit
from ctk.core.secrets import has_secret, hide_address, hide_environment, without_credentials

_LONGEST = 4095  # bytes: PATH_MAX of linux/limits.h, without the end
_NAME = re.compile(r"[A-Za-z][\w.+-]*")
"""The name of a package, as somebody may type it."""
_FEWEST_FILES = 64
"""Files that a run must be able to open at once; with fewer, rattler ends with a panic."""


class Command(TyperCommand):
    """A command whose docstring is its help.

    It ends with ``Example:``, a line for each, and ``JSON:``, what its document has.
    """

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.params += _shared_options()
        for param in self.params:
            param.metavar = param.metavar or _value_name(param)
        text, _, self.document = (self.help or "").partition("\nJSON:\n")
        text, *rest = re.split(r"^Examples?: *", text, flags=re.M)
        self.help = text.strip()
        self.examples = [
            line.strip() for part in rest for line in part.splitlines() if line.strip()
        ]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the words of a command line, and refuses those that cannot be meant."""
        # A copy, since the parser takes words out of args.
        own = args[: args.index("--")] if "--" in args else [*args]
        if not ctx.resilient_parsing:
            _refuse_empty(own, ctx)
        _refuse_long(own, ctx)
        verbatim = {param.name for param in self.params if param.metavar == VERBATIM}
        if not verbatim:
            self._refuse_single_dash(own, ctx)
        try:
            rest = super().parse_args(ctx, args)
        except typer.TyperException as error:
            # An option without its value does not know whose it is.
            vars(error).update(ctx=ctx, given=own)
            raise
        for name, value in ctx.params.items():
            if name in verbatim:
                continue
            for word in _words(value):
                refuse_secrets(word, of_address=name in ADDRESSES)
                if name in CHANNELS and not (name in CHECKED and bucket_address(Path(word))):
                    refuse_schemes(word)
        if not ctx.resilient_parsing:
            refuse_idle(ctx)
        return rest

    def _refuse_single_dash(self, words: list[str], context: Any) -> None:
        """Refuses -platform, of which -p would take the rest as its value."""
        options = {name for param in self.params for name in param.opts}
        for word in words:
            option = word.partition("=")[0]
            if option.startswith("-") and f"-{option}" in options:
                raise BadValue(
                    f"no such option: {option}. Did you mean -{option}?",
                    f"see {context.command_path} --help",
                )

    def invoke(self, ctx: Any) -> Any:
        """Runs the command.

        What the index of a named channel does to our code is an error of that channel.
        """
        if ctx.command_path.split()[1] in OF_RECIPES:
            refuse_without_recipes(workspace())
        try:
            return super().invoke(ctx)
        except (CtkError, OSError, typer.Exit, typer.Abort, typer.TyperException):
            raise
        except Exception as error:
            named = _named_channels(ctx.params)
            if not named:
                raise
            raise ChannelBroken(
                f"an index has something that cannot be read, of {listing(named, 'or')}:"
                f" {describe(error)}",
                "ask its keeper to publish it again; --debug shows where the reading stopped",
            ) from error

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line, such as [OPTIONS] PREFIX SPEC..."""
        pieces = ["[OPTIONS]"]
        for param in self.get_params(ctx):
            name = str(param.metavar)
            if param.param_type_name == "argument":
                pieces.append(name if param.required else f"[{name}]")
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes what arguments and options are, without Python's names of their types."""
        arguments, options = [], []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:  # a hidden one
                continue
            if param.param_type_name == "argument":
                arguments.append((str(param.metavar), record[1]))
            else:
                options.append(record)
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        with formatter.section("Options"):
            formatter.write_dl(options)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes each example as a line that can be copied, however long it is."""
        with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
            for line in self.examples:
                formatter.write(f"  {line}\n")


def _value_name(param: Any) -> str | None:
    """What help shows in the place of a value: DRIVER for --driver, N for a number.

    None for typer's own choice: nothing for a flag, and the values of a choice.
    """
    if param.param_type_name == "argument":
        name = param.name.upper()
        return f"{name}..." if param.nargs == -1 else name
    kind = param.type_descriptor.annotation
    if param.is_flag or get_origin(kind) is Literal:
        return None
    if kind is int:
        return "N"
    option: str = max(param.opts, key=len)
    return option.strip("-").upper()


def _named_channels(params: dict[str, Any]) -> list[str]:
    """The channels of other people that a command was told to solve from.

    Without --base, a command solves nothing.
    """
    if "base" not in params:
        return []
    channel, base = params.get("channel") or (), params["base"]
    named = [channel] if isinstance(channel, str) else list(channel)
    return named if base == "local" else [*named, base]


def _refuse_empty(words: list[str], context: Any) -> None:
    """Refuses an empty value, of which `Path` would make the current folder."""
    for word in words:
        is_empty_option = word.startswith("--") and word.endswith("=")
        if not word or is_empty_option:
            step = f"leave it out, or see {context.command_path} --help"
            raise BadValue("a value is empty", step)


def _refuse_long(words: list[str], context: Any) -> None:
    """Refuses a word that is longer than a name or a path can be, before anything looks it up."""
    if any(param.metavar == VERBATIM for param in context.command.params):
        return
    for word in words:
        if len(os.fsencode(word)) > _LONGEST:
            raise BadValue(
                f"a value has {len(word)} characters: {printable(word[:40])}...",
                f"a name or a path has at most {_LONGEST} bytes; see {context.command_path} --help",
            )


def _words(value: Any) -> Iterator[str]:
    """The texts that an option was given."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _words(part)
    elif value is not None:
        yield str(value)


class Group(TyperGroup):
    """A group of commands.

    It has the options that all commands have; without a command it prints its help.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.params += _shared_options()

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        if parent is None:  # a run begins
            console.begin()
        return super().make_context(info_name, args or ["--help"], parent, **extra)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the words name.

        A command that conda, pip, pixi or conda-smithy has is an error with what does it here.
        """
        step = OF_OTHERS.get(ctx.command_path, {}).get(args[0])
        if step and not ctx.resilient_parsing:
            cause = f"there is no `{ctx.command_path} {args[0]}`"
            raise BadValue(cause, _with_names(step, args[1:]))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands of ctk, grouped by who uses them."""
        listed = {"Commands": self.commands} if ctx.parent else GROUPS
        width = max(map(len, self.commands))
        for heading, names in listed.items():
            with formatter.section(heading):
                limit = formatter.width - 6 - width
                formatter.write_dl(
                    [
                        (f"{name:{width}}", self.commands[name].get_short_help_str(limit))
                        for name in names
                    ]
                )


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
    verbose: Annotated[bool, _flag("--verbose", "-v", help_="Print more details.")] = False,
    debug: Annotated[
        bool, _flag("--debug", help_="Show a traceback when something fails.")
    ] = False,
) -> None:
    """The options of every command, which may stand before its name or after it."""


@cache
def _shared_options() -> list[Any]:
    options = typer.Typer(add_completion=False)
    options.command()(_shared)
    return typer.main.get_command(options).params


def help_command(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(help="The words of a command, such as env create.", metavar="COMMAND..."),
    ] = None,
) -> None:
    """Show the help of a command, or the list of all commands.

    Example: ctk help env create

    JSON:
    - `help`: the text
    """
    shown: Any = context.find_root()
    for word in words or ():
        if not isinstance(shown.command, Group):
            raise BadValue(
                f"{shown.command_path} has no subcommands", f"see {shown.command_path} --help"
            )
        name, command, _ = shown.command.resolve_command(shown, [word])
        shown = command.context_class(command, info_name=name, parent=shown)
    report, text = console.Reporter(), shown.command.get_help(shown)
    report.result(help=text)
    report.line(text)


def version_command() -> None:
    """Show the version of ctk.

    Example: ctk version

    JSON:
    - `version`
    """
    from importlib.metadata import version  # late: no other command needs it

    report, number = console.Reporter(), version("ctk")
    report.result(version=number)
    report.line(f"ctk {number}")


GROUPS: dict[str, dict[str, Any]] = {
    "Install": {
        "doctor": doctor.doctor_command,
        "solve": solve.solve_command,
        "env": (
            "Create, extend, run and pack environments of the channel, and write module files.",
            {
                "create": env.create_command,
                "add": env.add_command,
                "run": env.run_command,
                "pack": env.pack_command,
                "module": env.module_command,
            },
        ),
        "gpu-code": gpu_code.gpu_code_command,
    },
    "Write recipes": {
        "build-recipe": authors.build_recipe_command,
        "lint": authors.lint_command,
        "feedstock": build.export_command,
    },
    "Keep a channel": {
        "build": build.build_command,
        "check": check.check_command,
        "publish": channel.publish_command,
        "rollback": channel.rollback_command,
        "site": channel.site_command,
        "clean": channel.clean_command,
    },
    "Develop": {
        "release": (
            "Release locks: add, check, list, measure, compare.",
            {
                "add": release.add_command,
                "remove": release.remove_command,
                "measure": release.measure_command,
                "check": release.check_command,
                "list": release.list_command,
                "diff": release.diff_command,
            },
        ),
        "verify": verify.verify_command,
    },
    "About ctk": {"help": help_command, "version": version_command},
}
"""Heading in `ctk --help` -> name of a command -> its function.

Or the help of a group of commands, and the commands. The docstring of a function is the help of its
command. It ends with ``Example:`` and a line for each example, and ``JSON:`` and the keys of its
document, in Markdown. `scripts/write-docs` makes pages of them.
"""
OF_RECIPES = ("build", "feedstock", "lint", "release", "site", "verify")
"""Commands that a checkout is for.

Without one they are refused before they import what only a checkout has installed.
"""
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
_CHANGE = (
    "`ctk env create cuda-core --prefix ./my-env` makes an environment, `ctk env add ./my-env"
    " numba-cuda` adds to it"
)
_LOOK = (
    "`ctk solve cuda-core` shows a package and what comes with it, `ctk release list` the toolkits"
    " that are locked"
)
_DELETE = (
    "to delete an environment, delete its folder, as in `rm -r ./my-env`; to take packages out of"
    " it, type `ctk env create cuda-core --prefix ./my-env` with those that stay; it lists"
    " what goes, and wants --yes"
)
_MAKING = ("install", "update", "upgrade", "init", "sync")
_DELETING = ("uninstall", "remove", "rm", "delete")
_IN_ENV = {
    **dict.fromkeys((*_MAKING, "new"), _CHANGE),
    **dict.fromkeys(_DELETING, _DELETE),
    "list": "an environment is the folder that you named; `ctk doctor ./my-env` checks it",
}
_FIRST = {
    **dict.fromkeys((*_MAKING, "add", "create"), _CHANGE),
    **dict.fromkeys(_DELETING, _DELETE),
    **dict.fromkeys(("list", "search", "show", "ls", "repoquery", "freeze", "tree"), _LOOK),
    **dict.fromkeys(
        ("activate", "shell"), "`. ./my-env/bin/activate`, or `ctk env run ./my-env -- python`"
    ),
    "deactivate": "`deactivate` or a new shell",
    "run": "`ctk env run ./my-env -- python`",
    "pack": "`ctk env pack cuda-core --driver 13.0 -o cuda-core.run`",
    "info": "`ctk doctor` shows the driver, the channel and the clients",
    "audit": "`ctk check` audits packages, a folder of them, or a channel",
    "test": "`ctk build` and `ctk build-recipe FOLDER` run the tests of packages",
    "index": "`ctk build` writes the index of its channel",
    "upload": "`ctk publish --help` says how to publish a channel",
    "prune": "`ctk clean` shows what nothing needs in the caches, and removes it",
    "rerender": "`ctk feedstock cuda-core ../cuda-core-feedstock` writes a folder for conda-smithy",
}
OF_OTHERS = {"ctk": _FIRST, "ctk env": _IN_ENV}
"""A group here -> name of a command that conda, pip, pixi or conda-smithy has -> what does it."""


def _with_names(step: str, words: Sequence[str]) -> str:
    """`_CHANGE` or `_LOOK` with the packages that were typed, if options do not come first.

    Of `create -n gpu numba-cuda` nobody here knows which words are packages.
    """
    names = [*takewhile(_NAME.fullmatch, words)]
    if not names or step not in (_CHANGE, _LOOK):
        return step
    typed = shlex.join(names)
    return re.sub("(?<= )(cuda-core|numba-cuda)(?=[ `])", typed, step)


def _app(help_: str, commands: dict[str, Any], **settings: Any) -> typer.Typer:
    """A group of commands."""
    shared: Any = {"context_settings": {"help_option_names": ["-h", "--help"]}}
    made = typer.Typer(cls=Group, help=help_, rich_markup_mode=None, **shared, **settings)
    for name, entry in commands.items():
        if isinstance(entry, tuple):
            made.add_typer(_app(*entry), name=name)
        else:
            summary = " ".join(entry.__doc__.partition("\n\n")[0].split())
            made.command(name, cls=Command, short_help=summary, **shared)(entry)
    return made


app = _app(
    "Builds, audits and verifies a conda channel of NVIDIA's CUDA Toolkit from its published"
    " artefacts.",
    COMMANDS,
    pretty_exceptions_enable=False,
    result_callback=lambda *_, **__: console.finish(),
)


def _version(value: bool) -> None:
    if value:
        version_command()
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line.

    Errors become two lines and an exit code, or a part of the JSON document.
    """
    console.use_streams()
    _hide_secrets()
    if error := _unfit():
        hard_exit(_failed(error))
    given_environment()
    # Nothing outside the checkout: rattler keeps its own caches here as well.
    os.environ.setdefault("RATTLER_CACHE_DIR", str(workspace().rattler))
    # pydantic would read the entry points of every installed package.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    for name, value in list(os.environ.items()):
        is_utf8 = not any("\udc80" <= character <= "\udcff" for character in name + value)
        if not is_utf8:  # rattler panics at it
            del os.environ[name]
    if "_CTK_COMPLETE" in os.environ:  # an error would land in the line that is being typed
        # Typer folds the help of each word, and zsh would show the pieces as words.
        os.environ["COLUMNS"] = "1000"
        with contextlib.suppress(Exception):
            app(prog_name="ctk")
        sys.exit()
    for number in TOLD_TO_END:
        # Where a signal is switched off it stays so: interrupts in a background job, SIGHUP below
        # nohup.
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, stop)
    use_temporary_folder(workspace())
    hard_exit(_code())


def _unfit() -> CtkError | None:
    """Why no command can work where this process was started; None if one can."""
    try:
        os.getcwd()
    except OSError as error:
        return NoSpace(
            f"the working directory cannot be used: {error.strerror}", "`cd` to another one"
        )
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= most < _FEWEST_FILES:  # RLIM_INFINITY is -1
        return NoSpace(
            f"a process may open {most} files at once here",
            "raise `ulimit -n`, as in `ulimit -n 1024`",
        )
    return None


def _hide_secrets() -> None:
    """Registers secrets before anything is read that may fail, and guards both streams."""
    hide_environment(os.environ)
    hide_logins()
    for word in sys.argv[1:]:
        for part in (word, word.partition("=")[2]):
            if has_secret(part):
                hide_address(part)
    console.guard_streams()


def stop(number: int = signal.SIGINT, *_: object) -> NoReturn:
    """Ends the process and its children at once, with one sentence.

    An exception would wait for pools and downloads.
    Readers never see half of anything, even when a run is killed.
    """
    for other in TOLD_TO_END:
        signal.signal(other, signal.SIG_IGN)
    error = Stopped.by(number)
    try:
        end_children()
        with contextlib.suppress(Exception):  # it may have interrupted a print
            console.finish(error)
        print(f"\n{error.cause}\nnext: {error.step}", file=sys.stderr)
    finally:
        hard_exit(error.exit_code)


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
        stop()
    except typer.TyperException as error:
        return _failed(usage_error(error))
    except CtkError as error:
        return _failed(error)
    except UnicodeEncodeError:  # a value, or the name of a file, of which rattler makes text
        return _failed(BadValue("a value is not UTF-8 text", "write it in UTF-8"))
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of Rust
            raise
        console.mode().debug = True
        return _failed(
            CtkError(f"{type(error).__name__}: {error}", "report it, with the traceback")
        )


def _failed(error: CtkError) -> int:
    """Prints an error as far as possible, and returns its exit code.

    Called where the error is caught.
    """
    with contextlib.suppress(OSError):
        if console.mode().debug:
            sys.stderr.write(printable(without_credentials(traceback.format_exc())))
        with contextlib.suppress(NoSpace):  # of standard output; the error may be about it
            console.finish(error)
        if not console.mode().printed:
            console.print_error(error)
    return error.exit_code


_WORDS_OF_PYDANTIC = {
    r"Value error, ": "",
    r"Input should be a valid integer.*": "it is not a whole number",
    r"Input should be a valid number.*": "it is not a number",
    r"Input should be greater than or equal to (\S+)": r"it is less than \1",
    r"Input should be less than or equal to (\S+)": r"it is more than \1",
}
"""What the library that reads values says of a wrong one -> what we say."""


def _in_our_words(text: str) -> str:
    """Typer's text of an error."""
    for pattern, words in _WORDS_OF_PYDANTIC.items():
        text = re.sub(pattern, words, text)
    return text


def _instead_of_words_of_lint(text: str) -> str:
    """The step after words that `ctk lint` does not take: names of checks, or of recipes."""
    checks = re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", text)
    if checks:
        words = ["ctk", "lint"]
        for name in checks:
            words += ["--check", name]
        return f"name a check as in `{shlex.join(words)}`; ctk lint --list shows all"
    return (
        "`ctk lint` reads all recipes, and its lines name the file; for one of your own: ctk"
        " build-recipe FOLDER"
    )


def usage_error(error: typer.TyperException) -> CtkError:
    """Typer's error about a command line, as a BadValue."""
    context, text = getattr(error, "ctx", None), _in_our_words(error.format_message())
    program = context.command_path if context else "ctk"
    text, step = text[:1].lower() + text[1:].rstrip("."), f"see {program} --help"
    command, missing = getattr(context, "command", None), getattr(error, "param", None)
    if not isinstance(command, Command):
        return BadValue(text, step)
    if program == "ctk lint" and "extra argument" in text:
        step = _instead_of_words_of_lint(text)
    takes_command_line = any(param.metavar == VERBATIM for param in command.params)
    if missing and text.startswith("missing "):
        text = re.sub("^missing argument '.*'", "an argument is missing", text)
        text = f"{text}: {missing.help[:1].lower()}{missing.help[1:].rstrip('.')}"
        given = [*program.split(), *vars(error).get("given", ())]
        step = f"as in `{_example_with(missing, command, given)}`; {step}"
    elif takes_command_line and text.startswith("no such option"):
        step = f"write -- before the command and its options, as in `{command.examples[0]}`"
    return BadValue(text, step)


def _example_with(missing: Any, command: Command, given: list[str]) -> str:
    """What was given with the option that lacks, as an example has it; else that example."""
    example = command.examples[0].partition("  #")[0]
    words = example.split()
    for at, word in enumerate(words):
        if word.startswith("-") and word in missing.opts:
            value = words[at + 1].replace(*_first_names(words, given))
            return without_credentials(shlex.join([*given, word, value]))
    return example


def _first_names(example: Sequence[str], given: Sequence[str]) -> tuple[str, str]:
    """The first package of an example, and the one that was typed there; else twice the same."""
    for shown, typed in zip(example, given, strict=False):
        if shown != typed:
            return shown, typed if _NAME.fullmatch(typed) else shown
    return "", ""
