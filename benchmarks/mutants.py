"""Measures how strong the tests are: which small faults in the tool do they notice?

Each mutant is one change of one expression in a copy of the checkout: a comparison is turned, an
`if` always or never holds, `and` becomes `or`, `native` becomes `compat`. The tests of the room
run, those of the suite `unit` first, until one fails; then the mutant has died. The seed decides
which mutants are made, so that a change of the tests can be measured: what died before must die
again. Results go to a file, a line each, and a mutant that has a line there is not run again.
Examples:
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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

import pytest

from ctk.core.checkout import workspace

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
        before: The expression as it stands.
        after: What replaces it.
    """

    file: str
    line: int
    start: int
    end: int
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
                place = file.relative_to(root).as_posix()
                yield Mutant(place, node.lineno, start, end, before, after)


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


def outcome(clone: Path, mutant: Mutant, where: Sequence[str], limit: float) -> str:
    """What tests say of a mutant: the first one that fails, or "" if none does."""
    file = clone / mutant.file
    text = file.read_bytes()
    _replace(file, text[: mutant.start] + mutant.after.encode() + text[mutant.end :])
    try:
        for place in where:
            if failed := first_failure(clone, place, limit):
                return failed
    finally:
        _replace(file, text)
    return ""


def _replace(file: Path, text: bytes) -> None:
    """Writes a module with a later time than before, so that no old bytecode is taken for it."""
    seconds = file.stat().st_mtime + 2
    file.write_bytes(text)
    os.utime(file, (seconds, seconds))


def first_failure(clone: Path, place: str, limit: float) -> str:
    """The first test of a folder, a file or a test that fails, or "" if none does."""
    command = [sys.executable, "-m", "pytest", place, "-x", "-q", "--no-header"]
    command += ["-p", "no:cacheprovider", "-o", "addopts=--strict-markers -m 'not sweep'"]
    variables = {**os.environ, "PYTHONPATH": f"{clone}/scripts:{clone}/tests"}
    try:
        done = subprocess.run(
            command, cwd=clone, env=variables, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return _TIMED_OUT
    is_gone = done.returncode == pytest.ExitCode.USAGE_ERROR  # a test that was moved or renamed
    if done.returncode == 0 or is_gone:
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else (done.stdout[-200:].strip() or "pytest did not start")


def test_of(line: dict[str, Any]) -> list[str]:
    """The test that noticed a mutant before, to be tried first; [] if that is not known."""
    words = line["by"].split(" - ")[0].split(" ", 1)
    return [words[1]] if len(words) == 2 and words[0] in ("FAILED", "ERROR") else []


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
    parser.add_argument("--limit", type=float, default=1800, help="seconds for a folder of tests")
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
    with tempfile.TemporaryDirectory() as folder:
        free: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.jobs):
            (Path(folder) / str(number)).mkdir()
            free.put(copied(root, Path(folder) / str(number)))

        def refuse_failing(place: str) -> None:
            """Ends the run if a test fails without a mutant, too: each would seem to die."""
            clone = free.get()
            failed = first_failure(clone, place, given.limit)
            free.put(clone)
            if failed:
                raise SystemExit(f"error: without a mutant, too, a test fails: {failed}")

        def run(one: tuple[str, Mutant]) -> None:
            room, mutant = one
            line = results.lines.get(mutant.name)
            clone = free.get()
            first = test_of(line) if line else []
            where = [*first, *places(clone, room, suites)]
            by = outcome(clone, mutant, where, given.limit)
            free.put(clone)
            results.add({"room": room, "mutant": mutant.name, "died": bool(by), "by": by})
            print(f"{room}: {'died' if by else 'SURVIVED'}: {mutant.name}", flush=True)

        of_rooms = {place for room, _ in to_run for place in places(root, room, suites)}
        with ThreadPoolExecutor(given.jobs) as pool:
            list(pool.map(refuse_failing, sorted(of_rooms)))
            list(pool.map(run, to_run))
    states = [results.lines[mutant.name]["died"] for _, mutant in order]
    counts = Counter(states)
    print(f"{counts[True]} of {counts.total()} mutants died")


if __name__ == "__main__":
    main()
