"""The TAB key: the options of a command, and the values that this checkout has for them.

A shell waits for the answer, and importing a command takes most of a second. So what a command line may have is kept in
.cache/completion, beside the times of the files that it was read from; the first TAB in a command writes it. Nothing is
printed and nothing fails, whatever state the checkout is in.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ctk.core.paths import workspace

VARIABLE = "_CTK_COMPLETE"
_HERE = Path(__file__).parents[1]
_SHARED = ("cli/options.py", "cli/request.py", "cli/completion.py")


@dataclass(frozen=True)
class Sketch:
    """What a shell has to know of one option or argument.

    Attributes:
        name: Of the argument; of an option the longest spelling.
        options: Every spelling; none for an argument.
        flag: Whether it stands alone.
        many: Whether it takes several values, or may be repeated.
        choices: The values, where the command has a list of its own.
        help: A sentence.
    """

    name: str
    options: tuple[str, ...]
    flag: bool
    many: bool
    choices: tuple[str, ...]
    help: str


def asked() -> bool:
    """Whether a shell asks, and not a user."""
    return VARIABLE in os.environ


def sketch(params: Iterable[Any]) -> list[Sketch]:
    """What a command line may have, of typer's parameters."""
    found = []
    for param in params:
        is_option = param.param_type_name == "option"
        options = tuple(param.opts) if is_option else ()
        choices = getattr(param.type_descriptor, "choices", None) or ()
        many = bool(getattr(param, "multiple", False)) or param.nargs == -1
        name = max(options, key=len) if options else param.name
        flag = bool(getattr(param, "is_flag", False))
        found.append(Sketch(name, options, flag, many, tuple(map(str, choices)), param.help or ""))
    return found


def kept(entry: str) -> list[Sketch] | None:
    """The sketch of a command (``module:function``), if its files are the same as when it was kept."""
    try:
        held = json.loads(_place(entry).read_text(encoding="utf-8"))
        if held["files"] != _times(entry):
            return None
        return [
            Sketch(p["name"], tuple(p["options"]), p["flag"], p["many"], tuple(p["choices"]), p["help"])
            for p in held["params"]
        ]
    except (OSError, ValueError, TypeError, KeyError):
        return None


def keep(entry: str, params: Sequence[Sketch]) -> None:
    """Keeps a sketch, if the disk lets it."""
    with contextlib.suppress(OSError):
        place = _place(entry)
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_name(f".{place.name}.{os.getpid()}")
        temporary.write_text(json.dumps({"files": _times(entry), "params": [asdict(p) for p in params]}))
        temporary.replace(place)


def function(entry: str, params: Sequence[Sketch]) -> Callable[..., None]:
    """A function that typer makes a command of which takes that command line; it is never called."""
    made = []
    for number, param in enumerate(params):
        values = _values(entry, param)
        info: Any = (
            typer.Option(*param.options, help=param.help, autocompletion=values)
            if param.options
            else typer.Argument(help=param.help, autocompletion=values)
        )
        kind: Any = bool if param.flag else list[str] | None if param.many else str | None
        default = False if param.flag else None
        made.append(
            inspect.Parameter(
                f"value_{number}",
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=Annotated[kind, info],
            )
        )

    def nothing(**values: object) -> None:
        pass

    nothing.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
    nothing.__annotations__ = {one.name: one.annotation for one in made}
    return nothing


def _place(entry: str) -> Path:
    return workspace().cache / "completion" / f"{entry.replace(':', '.')}.json"


def _times(entry: str) -> list[int]:
    files = [_HERE / "cli" / f"{entry.partition(':')[0]}.py", *(_HERE / name for name in _SHARED)]
    return [file.stat().st_mtime_ns for file in files]


def _values(entry: str, param: Sketch) -> Callable[[str], list[str]] | None:
    keys = (f"{entry} {param.name}", f"{entry.partition(':')[0]} {param.name}", param.name)
    known = next((VALUES[key] for key in keys if key in VALUES), None)
    if param.choices:
        known = lambda: param.choices  # noqa: E731
    if known is None:
        return None

    def values(incomplete: str) -> list[str]:
        try:
            return sorted({value for value in known() if value.startswith(incomplete)})
        except Exception:  # a checkout that is broken; whoever runs the command hears of it
            return []

    return values


def _releases() -> list[str]:
    names = [file.stem for file in workspace().variants.glob("*.lock")]
    return [name.removeprefix("cuda-") for name in names]


def _minors() -> list[str]:
    return [file.stem.removeprefix("cuda-") for file in workspace().variants.glob("cuda-*.lock")]


def _recipes() -> list[str]:
    return [file.parent.name for file in workspace().recipes.glob("*/recipe.yaml")]


def _platforms() -> Iterable[str]:
    from ctk.core.platforms import PLATFORMS

    return PLATFORMS


def _pythons() -> list[str]:
    return _tagged(workspace().build_config)


def _asked_pythons() -> list[str]:
    """Those of `ctk verify`: it also asks for Pythons that the channel must refuse."""
    return [*_pythons(), *_tagged(_HERE / "verify" / "universe.yaml")]


def _tagged(file: Path) -> list[str]:
    return [f"3.{minor}" for minor in re.findall(r"\bcp3(\d+t?)\b", file.read_text(encoding="utf-8"))]


def _packages() -> list[str]:
    """The packages of the channel, and before it is built those of the recipes by their folders."""
    found: set[str] = set()
    for index in workspace().channel.glob("*/repodata.json"):
        found |= {name.rsplit("-", 2)[0] for name in json.loads(index.read_bytes())["packages.conda"]}
    return sorted(found or _recipes())


def _components() -> list[str]:
    """Those of every release, as their locks have them: a name for itself, two spaces in, below ``components:``."""
    texts = [file.read_text(encoding="utf-8") for file in workspace().variants.glob("*.lock")]
    blocks = [block for text in texts for block in re.findall(r"^components:\n((?: .*\n)*)", text, re.M)]
    return sorted({name for block in blocks for name in re.findall(r"^  ([\w-]+):$", block, re.M)})


def _checks() -> list[str]:
    return _words(_HERE / "check" / "audit" / "checks.py", ("PACKAGE_CHECKS", "SET_CHECKS"))


def _lints() -> list[str]:
    """The functions that a decorator makes checks."""
    nodes = [n for file in (_HERE / "check" / "lint").glob("*.py") for n in ast.parse(file.read_text("utf-8")).body]
    return [n.name for n in nodes if isinstance(n, ast.FunctionDef) and n.decorator_list and n.name[0].isupper()]


def _solvers() -> list[str]:
    return ["rattler", *_words(_HERE / "verify" / "clients" / "__init__.py", ("_MAKERS",))]


def _words(source: Path, names: Sequence[str]) -> list[str]:
    """The names in a tuple, or the keys of a dictionary, that a module defines: importing it would take a while."""
    found: list[str] = []
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id in names:
            if isinstance(node.value, ast.Tuple):
                found += [item.id for item in node.value.elts if isinstance(item, ast.Name)]
            elif isinstance(node.value, ast.Dict):
                found += [str(ast.literal_eval(key)) for key in node.value.keys if key is not None]
    return found


VALUES: dict[str, Callable[[], Iterable[str]]] = {
    "--release": _releases,
    "releases": _releases,
    "old": _releases,
    "new": _releases,
    "--recipe": _recipes,
    "recipe": _recipes,
    "--platform": _platforms,
    "--python": _pythons,
    "specs": _packages,
    "packages": _packages,
    "verify --request": lambda: _words(_HERE / "verify" / "oracle.py", ("_COMPONENTS",)),
    "verify --python": _asked_pythons,
    "release:add_command releases": lambda: [*_releases(), "base"],
    "release:measure_command releases": _minors,
    "--component": _components,
    "audit --check": _checks,
    "audit --skip": _checks,
    "lint --check": _lints,
    "lint --explain": _lints,
    "lint --base": list,
    "audit --base": list,
    "verify --solver": _solvers,
    "--base": lambda: ["local", "conda-forge"],
    "--driver": lambda: ["none", *_minors()],
}
"""Name of an option or argument, behind a module or module:function if it is not the same in all -> what it can be."""
