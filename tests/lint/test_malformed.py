"""What is no recipe, no lock and no variant file gets findings, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_tree import release_lock

from ctk.check.lint import lint
from ctk.check.lint.tree import Tree
from ctk.core.checkout import Workspace
from ctk.lock.lock import dump, variant_config

TEXTS = {
    "nothing": "",
    "a comment": "# nothing\n",
    "a list": "- a\n- b\n",
    "a scalar": "recipe\n",
    "no YAML": "a: [\n",
    "an alias": "a: &a [*a]\n",
    "a tag": "a: !!python/object:os.system x\n",
    "a number as a key": "1: {2: 3}\n",
    "null everywhere": "context:\npackage:\noutputs:\nbuild:\nrequirements:\ntests:\nabout:\nextra:\nsource:\n",
    "scalars everywhere": "context: 1\npackage: 2\noutputs: 3\nbuild: 4\nrequirements: 5\nabout: 6\nextra: 7\n",
    "lists everywhere": "context: [1]\npackage: [2]\noutputs: [3, [4]]\nbuild: [5]\nabout: [6]\nsource: [[8]]\n",
    "strange outputs": (
        "outputs:\n  - package: {name: 1, version: [2]}\n    build: {number: {}, script: [1], skip: {a: b}, files: 3}\n"
        "    requirements: {run: 1, run_exports: {weak: {a: b}}, host: [[1]]}\n    about: {license: [1], summary: 2}\n"
    ),
    "strange conditions": (
        "build: {skip: ['((', 1, null]}\nrequirements:\n  run:\n    - {if: 'a b c', then: [x, {if: [], then: y}]}\n"
        f"    - {{if: '{'not ' * 3000}a', then: x}}\n"
        "    - if: match(1, 2) or 1 in 2 or match('x', '??')\n      then: z\n"
    ),
    "an expression without an end": "context: {a: '${{ b'}\nabout: {homepage: 'https://[', license: 'A AND'}\n",
    "nested": f"a: {'[' * 200}{']' * 200}\n",
    "signs": 'a: "\\u0000\\u202e\\ud800"\n',
    "variants of nothing": "zip_keys: 3\npython: {a: b}\npython_tag: 1.10\n",
    "zips of nothing": "zip_keys: [[a, [b]], 3, null]\na: null\n",
}
# What is broken together: rules that look at other files as well find those sound.
PLACES = (
    ("recipes/thing/recipe.yaml",),
    ("variants/cuda-13.4.lock",),
    ("variants/cuda-13.4.yaml", "variants/exclusions.yaml", "conda_build_config.yaml"),
)
EVERY = [place for places in PLACES for place in places]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small checkout that is sound."""
    monkeypatch.setenv("CTK_ROOT", str(tmp_path))
    for name in ("recipes/thing", "base/thing", "variants"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "recipes" / "thing" / "recipe.yaml").write_text("schema_version: 1\ncontext: {}\n")
    (tmp_path / "conda_build_config.yaml").write_text("python_tag: [cp312]\n")
    lock = release_lock("13.4.3", {"cudart": "13.4.92"})
    (tmp_path / "variants" / "cuda-13.4.lock").write_text(dump(lock))
    (tmp_path / "variants" / "cuda-13.4.yaml").write_text(variant_config(lock))
    return tmp_path


@pytest.mark.parametrize("places", PLACES, ids=("recipes", "lock", "variants"))
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_not_understood_is_a_finding(checkout: Path, places: tuple[str, ...], text: str) -> None:
    for place in places:
        (checkout / place).write_text(text)
    findings = lint(Tree(Workspace(checkout))).findings
    assert {finding.where for finding in findings} >= set(places) - {"variants/exclusions.yaml"}
    assert all(f.line > 0 and f.column > 0 and f.message and f.fix for f in findings)


def test_bytes_that_are_no_text_are_a_finding(checkout: Path) -> None:
    for place in EVERY:
        (checkout / place).write_bytes(b"\xff\xfe\x00")
    unreadable = [f.where for f in lint(Tree(Workspace(checkout))).findings if f.message == "it is not UTF-8 text"]
    assert unreadable == sorted(EVERY)


def test_what_cannot_be_opened_is_a_finding(checkout: Path) -> None:
    (checkout / "recipes" / "thing" / "recipe.yaml").unlink()
    (checkout / "recipes" / "thing" / "recipe.yaml").mkdir()
    found = lint(Tree(Workspace(checkout))).findings
    assert [f.message for f in found if f.check == "FileIsYaml"] == ["it cannot be read: Is a directory"]


def test_an_empty_checkout_has_nothing_to_find(tmp_path: Path) -> None:
    assert lint(Tree(Workspace(tmp_path))).findings == ()
