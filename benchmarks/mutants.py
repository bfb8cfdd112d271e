"""Measures how strong the tests are: which small faults in the tool do they notice?

Each mutant is one change of one expression in a copy of the checkout: a comparison is turned, an
`if` always or never holds, `and` becomes `or`, `native` becomes `compat`. The tests of the room run
until one fails; then the mutant has died. The seed decides which mutants are made, so that a change
of the tests can be measured: what died before must die again. Results go to a file, a line each,
and a mutant that has a line there is not run again. Examples:
.venv/bin/python benchmarks/mutants.py --room lock --room plan
.venv/bin/python benchmarks/mutants.py --results benchmarks/mutants.jsonl --again-survivors
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    elif isinstance(node, ast.Constant) and node.value in _SWAPPED and node.value is not True:
        yield ast.Constant(_SWAPPED[node.value])
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
    folders = (root / "scripts" / "ctk").iterdir()
    return sorted(f.name for f in folders if list((root / "tests" / f.name).glob("test_*.py")))


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


def outcome(clone: Path, mutant: Mutant, room: str, limit: float) -> str:
    """What the tests of a room say of a mutant: the first test that fails, or "" if none does."""
    file = clone / mutant.file
    text = file.read_bytes()
    file.write_bytes(text[: mutant.start] + mutant.after.encode() + text[mutant.end :])
    try:
        return first_failure(clone, room, limit)
    finally:
        file.write_bytes(text)


def first_failure(clone: Path, room: str, limit: float) -> str:
    """The first test of a room that fails, or "" if none does."""
    command = [sys.executable, "-m", "pytest", f"tests/{room}", "-x", "-q", "--no-header"]
    command += ["-p", "no:cacheprovider", "-o", "addopts=--strict-markers -m 'not sweep'"]
    variables = {**os.environ, "PYTHONPATH": f"{clone}/scripts:{clone}/tests"}
    try:
        done = subprocess.run(
            command, cwd=clone, env=variables, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return _TIMED_OUT
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode and not failed:
        return done.stdout[-200:].strip() or "pytest did not start"
    return failed[0] if failed else ""


def known(results: Path) -> dict[str, dict[str, Any]]:
    """Name of a mutant -> its line in the results."""
    if not results.exists():
        return {}
    lines = map(json.loads, results.read_text(encoding="utf-8").splitlines())
    return {line["mutant"]: line for line in lines}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--room", action="append", help="may be repeated; all without it")
    parser.add_argument("--number", type=int, default=10, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=65)
    parser.add_argument("--limit", type=float, default=1800, help="seconds for one mutant")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/mutants.jsonl"))
    parser.add_argument(
        "--again-survivors", action="store_true", help="run those again that no test noticed"
    )
    given = parser.parse_args()
    root = workspace().root
    before = known(given.results)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        clone = copied(root, Path(folder))
        for room in given.room or rooms(root):
            mutants = chosen(root, room, given.number, given.seed)
            if any(mutant.name not in before for mutant in mutants):
                failed = first_failure(clone, room, given.limit)
                if failed:
                    raise SystemExit(
                        f"error: without a mutant, too, a test of {room} fails: {failed}"
                    )
            for mutant in mutants:
                line = before.get(mutant.name)
                is_settled = line and (line["died"] or not given.again_survivors)
                if not is_settled:
                    by = outcome(clone, mutant, room, given.limit)
                    line = {"room": room, "mutant": mutant.name, "died": bool(by), "by": by}
                    before[mutant.name] = line
                    write(given.results, before)
                    print(f"{room}:{mutant.line}: {'died' if by else 'SURVIVED'}: {mutant.name}")
                counts["died" if before[mutant.name]["died"] else "survived"] += 1
    print(f"{counts['died']} of {counts.total()} mutants died")


def write(results: Path, lines: dict[str, dict[str, Any]]) -> None:
    """Writes all results, sorted, so that a diff shows what changed."""
    texts = [json.dumps(lines[name], ensure_ascii=False) for name in sorted(lines)]
    new = results.with_suffix(".new")
    new.write_text("\n".join(texts) + "\n", encoding="utf-8")
    shutil.move(new, results)


if __name__ == "__main__":
    main()
