"""What build numbers are compared with: what was published, else what may be."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_tree import LOCKS, git, release_lock

from ctk.check.lint import lint, tree_of
from ctk.check.lint.history import changes, revision
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue
from ctk.lock.lock import dump, variant_config

RECIPE = """schema_version: 1
package: {name: thing, version: "${{ cudart }}"}
build: {number: 0}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two commits on its main branch, of which the second one changed the recipe."""
    monkeypatch.setenv("CTK_ROOT", str(tmp_path))
    (tmp_path / "recipes" / "thing").mkdir(parents=True)
    (tmp_path / "variants").mkdir()
    (tmp_path / ".gitignore").write_text(".cache\n")
    (tmp_path / "conda_build_config.yaml").write_text("python_tag: [cp312]\n")
    for release, components in LOCKS.items():
        lock = release_lock(release, components)
        (tmp_path / "variants" / f"{lock.name}.lock").write_text(dump(lock))
        (tmp_path / "variants" / f"{lock.name}.yaml").write_text(variant_config(lock))
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, RECIPE)
    commit(tmp_path, f"{RECIPE}about: {{summary: Things}}\n")
    return tmp_path


def commit(root: Path, text: str) -> str:
    write(root, text)
    git(root, "add", "--all")
    git(root, "commit", "-qm", "x")
    return git(root, "rev-parse", "HEAD")


def write(root: Path, text: str) -> None:
    (root / "recipes" / "thing" / "recipe.yaml").write_text(text)


def compared(root: Path) -> tuple[str, str, bool]:
    """The revision that build numbers are compared with: its commit and name, and whether it is certain."""
    known = revision(root, None)
    assert known is not None
    return known.commit, known.name, known.certain


def found(root: Path, base: str | None = None) -> list[tuple[str, str]]:
    report = lint(tree_of(Workspace(root), (), base), ["BuildNumberIsRaised"])
    return [(finding.severity, finding.message) for finding in report.findings]


def severities(root: Path, base: str | None = None) -> list[str]:
    return [severity for severity, _ in found(root, base)]


def test_on_the_main_branch_the_commit_before_may_be_published(root: Path) -> None:
    commit = git(root, "rev-parse", "HEAD~1")
    assert compared(root) == (commit, commit[:9], False)
    ((severity, message),) = found(root)
    assert severity == "hint"
    assert message.startswith(f"since {commit[:9]} its recipe or script changed, and 8 packages would keep")


def test_what_is_not_committed_is_compared_with_what_is(root: Path) -> None:
    write(root, f"{RECIPE}about: {{summary: Other things}}\n")
    assert (compared(root)[0], severities(root)) == (git(root, "rev-parse", "HEAD"), ["hint"])


def test_a_branch_is_compared_with_where_it_left_main(root: Path) -> None:
    start = git(root, "rev-parse", "HEAD")
    git(root, "switch", "-qc", "mine")
    commit(root, RECIPE.replace("number: 0", "number: 1"))
    commit(root, RECIPE.replace("number: 0", "number: 1") + "about: {summary: More}\n")
    assert compared(root)[0] == start
    assert found(root) == []  # the number was raised on this branch, if not in its last commit


def test_what_a_tag_says_was_published_blocks(root: Path) -> None:
    git(root, "tag", "published/1", "HEAD~1")
    assert compared(root)[1:] == ("published/1", True)
    assert severities(root) == ["error"]
    git(root, "tag", "-d", "published/1")
    git(root, "tag", "published/2", "HEAD")
    assert found(root) == []


def test_the_revision_that_is_named_blocks(root: Path) -> None:
    assert severities(root, "HEAD~1") == ["error"]
    assert found(root, "HEAD") == []
    with pytest.raises(BadValue, match="git knows no revision 'nowhere'"):
        found(root, "nowhere")


def test_a_comment_changes_a_package_too(root: Path) -> None:
    """The recipe is in the package, and the SBOM names the commit that touched it."""
    write(root, (root / "recipes" / "thing" / "recipe.yaml").read_text() + "# The end.\n")
    assert severities(root, "HEAD") == ["error"]


@pytest.mark.parametrize("script", ["recipes/thing/activate.sh", "recipes/common/part.sh"])
def test_a_file_that_was_removed_changes_a_package(root: Path, script: str) -> None:
    (root / "recipes" / "common").mkdir()
    for name in {script, "recipes/common/layout.sh"}:
        (root / name).write_text("true\n")
    commit(root, RECIPE.replace("0}", "0, script: {file: ../common/layout.sh}}"))
    (root / script).unlink()
    assert severities(root, "HEAD") == ["error"]


def test_a_recipe_in_another_folder_is_compared(root: Path) -> None:
    (root / "recipes" / "thing").rename(root / "recipes" / "other")
    git(root, "add", "--all")
    assert found(root, "HEAD") == []  # all that decides the bytes is as it was
    (root / "recipes" / "other" / "recipe.yaml").write_text(RECIPE)
    ((_, message),) = found(root, "HEAD")
    assert "8 packages would keep the file name" in message


def test_what_cannot_be_planned_of_that_revision_is_said_of_its_recipe(root: Path) -> None:
    (root / "recipes" / "other").mkdir()
    other = root / "recipes" / "other" / "recipe.yaml"
    other.write_text(RECIPE.replace("thing", "other").replace("schema_version: 1", "schema_version: 99"))
    commit(root, RECIPE)
    other.write_text(RECIPE.replace("thing", "other"))
    write(root, f"{RECIPE}about: {{summary: Other things}}\n")
    messages = [message for _, message in found(root, "HEAD")]
    assert [m.split(": ")[0] for m in messages if "compared" in m] == ["HEAD cannot be compared with"]
    assert [m for m in messages if "8 packages would keep the file name" in m]
    assert len(messages) == 2


def test_a_new_recipe_and_a_new_version_take_no_name(root: Path) -> None:
    (root / "recipes" / "other").mkdir()
    (root / "recipes" / "other" / "recipe.yaml").write_text(RECIPE.replace("thing", "other"))
    lock = release_lock("13.5.0", {"cudart": "13.5.1"})
    (root / "variants" / "cuda-13.5.lock").write_text(dump(lock))
    (root / "variants" / "cuda-13.5.yaml").write_text(variant_config(lock))
    new = {"recipes/other/recipe.yaml", "variants/cuda-13.5.lock", "variants/cuda-13.5.yaml"}
    assert changes(root, "HEAD") == new
    assert found(root, "HEAD") == []


@pytest.mark.parametrize("commits", [0, 1], ids=("outside of git", "the first commit"))
def test_there_may_be_nothing_to_compare_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: int) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    if commits:
        git(tmp_path, "init", "-q", "-b", "main")
        git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    assert revision(tmp_path, None) is None
    assert found(tmp_path) == []
