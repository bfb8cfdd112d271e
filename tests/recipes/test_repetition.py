"""Few lines of the recipes stand verbatim in many of them: what is shared belongs into the variants or the scripts.

``python tests/recipes/test_repetition.py`` shows each such line, how often it stands and in how many recipes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from ctk.core.checkout import Workspace, workspace

_MANY = 8  # recipes
_ALLOWED = 33  # for each recipe, in the mean; one of them is the build string, which the format cannot share


def repeated(texts: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Every line, stripped and not empty, of eight or more recipes -> how often it stands, and in how many recipes."""
    lines: Counter[str] = Counter()
    recipes: dict[str, set[str]] = defaultdict(set)
    for name, text in texts.items():
        for line in filter(None, map(str.strip, text.splitlines())):
            lines[line] += 1
            recipes[line].add(name)
    return {line: (n, len(recipes[line])) for line, n in lines.most_common() if len(recipes[line]) >= _MANY}


def read(recipes: Iterable[Path]) -> dict[str, str]:
    return {path.parent.name: path.read_text(encoding="utf-8") for path in recipes}


def test_recipes_repeat_few_lines(project: Workspace) -> None:
    texts = read(project.recipes.glob("*/recipe.yaml"))
    found = repeated(texts)
    assert sum(times for times, _ in found.values()) <= _ALLOWED * len(texts)


if __name__ == "__main__":
    texts = read(workspace().recipes.glob("*/recipe.yaml"))
    found = repeated(texts)
    for line, (times, recipes) in found.items():
        print(f"{times:5} lines in {recipes:2} recipes: {line}")
    total = sum(len(text.splitlines()) for text in texts.values())
    print(
        f"{sum(times for times, _ in found.values())} of {total} lines stand in {_MANY} or more of {len(texts)} recipes"
    )
