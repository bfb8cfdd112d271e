"""Measures how strong the tests are: which small faults in the tool do they notice?

Each mutant is one change of one expression in a copy of the checkout: a comparison is turned, an
`if` always or never holds, `and` becomes `or`, `native` becomes `compat`. First the suites run once
to see which tests evaluate which expression (`reached.py`). Then each mutant is given the quickest
of its tests until one fails; then it has died. The seed decides which mutants are made, so that a
change of the tests can be measured: what died before must die again. Results go to a file, a line
each, and a mutant that has a line there is not run again. Examples:
.venv/bin/python benchmarks/mutants.py --room lock --suite unit
.venv/bin/python benchmarks/mutants.py --again died
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

import pytest
from reached import Reached

from ctk.core.checkout import git, workspace

# Files of a checkout that tests read and that are too large to copy, or made by tools.
_LINKED = (".venv", ".cache", "output", ".git")
_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_SWAPPED = {"native": "compat", "compat": "native"}
Place = tuple[int, int, int, int]
_TIMED_OUT = "timed out"
_SUITES = ("unit", "channel")


@dataclass(frozen=True)
class Mutant:
    """A changed expression.

    Attributes:
        file: Relative to the checkout.
        line: Of the expression, from 1.
        start: Of the expression in the file, in bytes.
        end: Where it ends.
        place: Its lines and columns, as `ast` counts them.
        before: The expression as it stands.
        after: What replaces it.
    """

    file: str
    line: int
    start: int
    end: int
    place: Place
    before: str
    after: str

    @property
    def name(self) -> str:
        """What stays the same while the lines above it change."""
        return f"{self.file}: {' '.join(self.before.split())} -> {' '.join(self.after.split())}"


def mutated(node: ast.expr, parent: ast.AST) -> Iterator[ast.expr]:
    """The expressions that may replace one."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        turned = _TURNED[type(node.ops[0])]()
        yield ast.Compare(node.left, [turned], node.comparators)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield ast.BoolOp(other, node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant) and node.value in _SWAPPED:
        yield ast.Constant(_SWAPPED[str(node.value)])
    is_condition = isinstance(parent, ast.If | ast.IfExp | ast.comprehension)
    if is_condition and node in _conditions(parent):
        yield ast.Constant(True)
        yield ast.Constant(False)


def _conditions(parent: ast.AST) -> Sequence[ast.expr]:
    if isinstance(parent, ast.comprehension):
        return parent.ifs
    return [parent.test] if isinstance(parent, ast.If | ast.IfExp) else []


def mutants_of(root: Path, file: Path) -> Iterator[Mutant]:
    """All mutants of a file, in the order of its expressions."""
    text = file.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for parent in ast.walk(ast.parse(text)):
        if isinstance(parent, ast.If) and _is_for_types(parent.test):
            continue
        for node in ast.iter_child_nodes(parent):
            if not isinstance(node, ast.expr) or isinstance(parent, ast.JoinedStr):
                continue
            end_line, end_column = node.end_lineno or 0, node.end_col_offset or 0
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[end_line - 1] + end_column
            before = text[start:end].decode()
            for other in mutated(node, parent):
                after = f"({ast.unparse(ast.fix_missing_locations(other))})"
                name = file.relative_to(root).as_posix()
                place = (node.lineno, node.col_offset, end_line, end_column)
                yield Mutant(name, node.lineno, start, end, place, before, after)


class _Marking(ast.NodeTransformer):
    """Makes `(hit(number), expression)[1]` of the expressions at some places of a module."""

    def __init__(self, numbers: Mapping[Place, int]) -> None:
        self.numbers = numbers

    def visit(self, node: ast.AST) -> ast.AST:
        """The node; an expression that is no mutant's stays as it is."""
        place = _place(node)
        # A pattern of `match` and a part of an f-string cannot be calls.
        changed = (
            node if isinstance(node, ast.pattern | ast.JoinedStr) else self.generic_visit(node)
        )
        number = self.numbers.get(place) if place and isinstance(changed, ast.expr) else None
        if number is None or not isinstance(changed, ast.expr):
            return changed
        call = ast.Call(ast.Name("hit", ast.Load()), [ast.Constant(number)], [])
        both = ast.Tuple([call, changed], ast.Load())
        return ast.Subscript(both, ast.Constant(1), ast.Load())


def _place(node: ast.AST) -> Place | None:
    """The lines and columns of an expression."""
    if not isinstance(node, ast.expr):
        return None
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def numbered(mutants: Sequence[Mutant]) -> dict[tuple[str, Place], int]:
    """A number for each expression: two mutants may be of one."""
    expressions = dict.fromkeys((mutant.file, mutant.place) for mutant in mutants)
    return {expression: number for number, expression in enumerate(expressions)}


def mark(clone: Path, expressions: Mapping[tuple[str, Place], int]) -> None:
    """Lets each expression write its number when it is evaluated."""
    files: dict[str, dict[Place, int]] = {}
    for (file, place), number in expressions.items():
        files.setdefault(file, {})[place] = number
    for file, numbers in files.items():
        tree = ast.parse((clone / file).read_bytes())
        _Marking(numbers).visit(tree)
        first = sum(1 for _ in takewhile(_is_first, tree.body))
        tree.body.insert(first, ast.parse("from reached import hit").body[0])
        (clone / file).write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")


def _is_first(node: ast.stmt) -> bool:
    """Whether a statement has to stand before all imports."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _is_for_types(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def rooms(root: Path) -> list[str]:
    """The rooms that have tests of their own."""
    folders = sorted((root / "scripts" / "ctk").iterdir())
    return [folder.name for folder in folders if places(root, folder.name, _SUITES)]


def places(root: Path, room: str, suites: Sequence[str]) -> list[str]:
    """The folders with the tests of a room, relative to the checkout."""
    folders = [f"tests/{suite}/{room}" for suite in suites]
    return [folder for folder in folders if list((root / folder).glob("test_*.py"))]


def chosen(root: Path, room: str, number: int, seed: int) -> list[Mutant]:
    """Some mutants of a room, the same ones for a seed and the same code."""
    files = sorted((root / "scripts" / "ctk" / room).rglob("*.py"))
    every = [mutant for file in files for mutant in mutants_of(root, file)]
    source = random.Random(f"{seed} {room}")
    return source.sample(every, min(number, len(every)))


def copied(root: Path, folder: Path) -> Path:
    """A checkout with the tracked files of this one; the rest is linked."""
    clone = folder / "checkout"
    subprocess.run(["git", "clone", "--quiet", root, clone], check=True)
    for name in _LINKED:
        if name != ".git" and (root / name).exists():
            (clone / name).symlink_to(root / name)
    return clone


def outcome(clone: Path, mutant: Mutant, tests: Sequence[str], limit: float) -> str:
    """What tests say of a mutant: the first one that fails, or "" if none does."""
    file = clone / mutant.file
    text = file.read_bytes()
    _replace(file, text[: mutant.start] + mutant.after.encode() + text[mutant.end :])
    try:
        return first_failure(clone, tests, limit)
    finally:
        _replace(file, text)


def _replace(file: Path, text: bytes) -> None:
    """Writes a module with a later time than before, so that no old bytecode is taken for it."""
    seconds = file.stat().st_mtime + 2
    file.write_bytes(text)
    os.utime(file, (seconds, seconds))


def first_failure(clone: Path, tests: Sequence[str], limit: float) -> str:
    """The first of some tests that fails, or "" if none does."""
    try:
        done = run_tests(clone, [*tests, "-x"], limit)
    except subprocess.TimeoutExpired:
        return _TIMED_OUT
    if done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else (done.stdout[-200:].strip() or "pytest did not start")


def run_tests(
    clone: Path, words: Sequence[str], limit: float | None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs pytest in a copy of the checkout, with the tool of the copy."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]
    command += ["-o", "addopts=--strict-markers -m 'not sweep'", *words]
    path = ":".join(str(clone / name) for name in ("scripts", "tests", "benchmarks"))
    return subprocess.run(
        command,
        cwd=clone,
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=limit,
    )


def measured(
    root: Path, expressions: Mapping[tuple[str, Place], int], suites: Sequence[str], jobs: int
) -> Reached:
    """Which tests evaluate expressions. The suites run once for a commit and these expressions."""
    commit = git(root, "rev-parse", "HEAD")
    asked = repr((commit, sorted(expressions.items()), suites))
    kept = root / ".cache" / f"reached-{sha256(asked.encode()).hexdigest()[:16]}.jsonl"
    if kept.exists():
        return Reached.read(kept)
    with tempfile.TemporaryDirectory() as folder:
        clone = copied(root, Path(folder))
        mark(clone, expressions)
        file = Path(folder) / "reached.jsonl"
        words = ["-p", "reached", "-n", str(jobs), *(f"tests/{suite}" for suite in suites)]
        done = run_tests(clone, words, None, REACHED=str(file))
        print(done.stdout.rstrip().rpartition("\n")[2], flush=True)
        if not file.exists():
            raise SystemExit(f"error: no test ran:\n{done.stdout}{done.stderr}")
        shutil.move(file, kept)
    return Reached.read(kept)


def known(results: Path) -> dict[str, dict[str, Any]]:
    """Name of a mutant -> its line in the results."""
    if not results.exists():
        return {}
    lines = map(json.loads, results.read_text(encoding="utf-8").splitlines())
    return {line["mutant"]: line for line in lines}


@dataclass
class Results:
    """The file of results, written after each mutant."""

    file: Path
    lines: dict[str, dict[str, Any]]
    lock: Lock

    def add(self, line: dict[str, Any]) -> None:
        with self.lock:
            self.lines[line["mutant"]] = line
            write(self.file, self.lines)


def write(results: Path, lines: dict[str, dict[str, Any]]) -> None:
    """Writes all results, sorted, so that a diff shows what changed."""
    texts = [json.dumps(lines[name], ensure_ascii=False) for name in sorted(lines)]
    new = results.with_suffix(".new")
    new.write_text("\n".join(texts) + "\n", encoding="utf-8")
    shutil.move(new, results)


def is_to_run(line: dict[str, Any] | None, again: str | None) -> bool:
    """Whether a mutant has no result yet, or one that `again` asks for."""
    if line is None:
        return True
    if again is None:
        return False
    return bool(line["died"]) == (again == "died")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--room", action="append", help="may be repeated; all without it")
    parser.add_argument("--suite", action="append", choices=_SUITES, help="both without it")
    parser.add_argument("--number", type=int, default=10, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=65)
    parser.add_argument("--most", type=float, default=60, help="seconds of tests for a mutant")
    parser.add_argument("--limit", type=float, default=900, help="after these seconds it has died")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/mutants.jsonl"))
    parser.add_argument("--again", choices=("died", "survived"), help="run these once more")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    root = workspace().root
    suites = given.suite or _SUITES
    results = Results(given.results, known(given.results), Lock())
    order = [
        (room, mutant)
        for room in given.room or rooms(root)
        for mutant in chosen(root, room, given.number, given.seed)
    ]
    to_run = [one for one in order if is_to_run(results.lines.get(one[1].name), given.again)]
    expressions = numbered([mutant for _, mutant in order])
    reached = measured(root, expressions, suites, given.jobs)
    with tempfile.TemporaryDirectory() as folder:
        free: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.jobs):
            (Path(folder) / str(number)).mkdir()
            free.put(copied(root, Path(folder) / str(number)))

        def run(one: tuple[str, Mutant]) -> None:
            room, mutant = one
            number = expressions[mutant.file, mutant.place]
            tests = reached.quickest(number, given.most)
            clone = free.get()
            by = outcome(clone, mutant, tests, given.limit) if tests else ""
            free.put(clone)
            line = {"room": room, "mutant": mutant.name, "died": bool(by), "by": by}
            results.add({**line, "tests": len(tests)})
            print(f"{room}: {'died' if by else 'SURVIVED'}: {mutant.name}", flush=True)

        with ThreadPoolExecutor(given.jobs) as pool:
            list(pool.map(run, to_run))
    states = [results.lines[mutant.name]["died"] for _, mutant in order]
    counts = Counter(states)
    print(f"{counts[True]} of {counts.total()} mutants died")


if __name__ == "__main__":
    main()
