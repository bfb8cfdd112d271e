"""The origin of a package: its commit, its SBOM, and metadata without folders of a machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from conftest import ROOT
from ctk.build import sbom
from ctk.build.bundled import Bundled
from ctk.build.finished import tools
from ctk.build.originals import Changed, PackageFiles
from ctk.build.reproducible import portable
from ctk.build.sbom import Input, Provenance, provenance
from ctk.core.checkout import Workspace
from ctk.core.errors import AuditFailed, BuildFailed
from ctk.lock.model import release_locks
from ctk.plan import commits
from ctk.plan.commits import forget
from ctk.plan.recipes import Recipe, recipe_commit, recipe_digest
from kit.tiny import UPLOADED, artefact, tiny_checkout, tiny_plan
from kit.tiny_checkout import commit, git

pytest_plugins = ["kit.tiny_fixtures"]

INDEX = {
    "name": "hello",
    "version": "13.4.92",
    "build": "h0_0",
    "subdir": "linux-64",
    "license": "MIT",
}


@pytest.fixture
def origin() -> Provenance:
    return Provenance(
        recipe="hello",
        digest="0" * 64,
        commit="1" * 40,
        place="linux-64",
        timestamp=1_750_000_000,
        inputs=(Input(replace(artefact(), uploaded=1_749_999_999), "LicenseRef-Proprietary"),),
        variant={"cuda_version": ("13.4",), "cuda_fit": ("compat", "native")},
        level=3,
        tools={"rattler-build": "0.73.0", "zstd": "1.5.7"},
    )


def recipe(where: Workspace, name: str = "hello") -> Recipe:
    return Recipe(name, where.recipes / name)


def test_the_commit_is_the_last_that_touched_the_recipe(repository: Workspace) -> None:
    first = git(repository.root, "rev-parse", "HEAD")
    (repository.recipes / "follower" / "LICENSE").write_text("Or not.\n")
    second = commit(repository.root)
    assert recipe_commit(recipe(repository)) == first
    assert recipe_commit(recipe(repository, "follower")) == second


def test_a_shared_script_belongs_to_the_recipe(repository: Workspace) -> None:
    file = repository.recipes / "hello" / "recipe.yaml"
    file.write_text(
        file.read_text().replace("  number: 0\n", "  number: 0\n  # file: ../common/x.sh\n")
    )
    (repository.recipes / "common").mkdir()
    states = []
    for text in ("true\n", "false\n"):
        (repository.recipes / "common" / "x.sh").write_text(text)
        states.append((commit(repository.root), recipe_digest(recipe(repository))))
        assert recipe_commit(recipe(repository)) == states[-1][0]
    assert states[0][1] != states[1][1]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The subcommands of git that are run for commits."""
    found: list[str] = []

    def noted(folder: Path, *words: str) -> str:
        found.append(words[0])
        return run(folder, *words)

    run = commits.git
    monkeypatch.setattr(commits, "git", noted)
    return found


def test_sources_in_many_folders_of_the_checkout_are_one_question_to_git(
    repository: Workspace, asked: list[str]
) -> None:
    file = repository.recipes / "hello" / "recipe.yaml"
    sources = "# path: ../../tool\n# path: ../../LICENSE\n"
    file.write_text(file.read_text() + sources)
    for name in ("tool/a.py", "tool/one/b.py", "tool/two/c.py", "LICENSE"):
        place = repository.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x\n")
    first = commit(repository.root)
    assert recipe_commit(recipe(repository)) == first
    forget()
    asked.clear()
    assert recipe_commit(recipe(repository)) == first
    assert asked == ["rev-parse", "status"]
    (repository.root / "tool" / "two" / "c.py").write_text("y\n")
    forget()
    assert recipe_commit(recipe(repository)) == ""


def test_two_processes_of_git_say_the_commits_of_all_recipes_until_the_next_commit(
    repository: Workspace, asked: list[str]
) -> None:
    names = ("hello", "follower")
    first = {name: recipe_commit(recipe(repository, name)) for name in names}
    forget()
    asked.clear()
    assert {name: recipe_commit(recipe(repository, name)) for name in names} == first
    assert asked == ["rev-parse", "status"]
    (repository.recipes / "hello" / "new.txt").write_text("new")
    newest = commit(repository.root)
    assert recipe_commit(recipe(repository)) == newest
    assert recipe_commit(recipe(repository, "follower")) == first["follower"]


def test_a_file_that_is_renamed_or_in_the_index_alone_is_not_committed(
    repository: Workspace,
) -> None:
    folder = repository.recipes / "follower"
    git(repository.root, "mv", str(folder / "LICENSE"), str(folder / "a licence"))
    forget()
    assert recipe_commit(recipe(repository, "follower")) == ""
    assert recipe_commit(recipe(repository)), "of the others, it is known"


def test_without_a_known_commit_the_sbom_names_none(repository: Workspace, tmp_path: Path) -> None:
    (repository.recipes / "follower" / "LICENSE").write_text("Or not.\n")
    newest = commit(repository.root)
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{repository.root}", "shallow")
    outside = tiny_checkout(tmp_path / "outside")
    (repository.recipes / "hello" / "new.txt").write_text("new")
    forget()
    assert recipe_commit(recipe(repository)) == "", "not committed"
    assert recipe_commit(recipe(repository, "follower")) == newest
    assert recipe_commit(recipe(outside)) == "", "no git"
    # To git, hello appears in the commit at which the shallow clone ends too.
    assert git(tmp_path / "shallow", "log", "-1", "--format=%H", "--", "recipes/hello") == newest
    assert recipe_commit(recipe(Workspace(tmp_path / "shallow"))) == "", (
        "beyond the end of a shallow clone"
    )


def test_a_build_without_artefacts_has_a_time_and_one_with_them_that_of_the_newest(
    tmp_path: Path,
) -> None:
    follower, hello = tiny_plan(tiny_checkout(tmp_path)).builds
    assert provenance(hello, tools()).timestamp == artefact().uploaded
    assert provenance(follower, tools()).timestamp == UPLOADED
    assert (provenance(follower, tools()).inputs, provenance(follower, tools()).place) == (
        (),
        "noarch",
    )


def test_an_sbom_has_the_whole_provenance_and_is_valid(origin: Provenance) -> None:
    text = sbom.write(INDEX, origin)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text.decode()) is None
    assert sbom.read(text) == sbom.Sbom("hello", "13.4.92", "h0_0", "linux-64", origin)
    raw = json.loads(text)
    # Of a conda package it must name the channel (CEP 49), which no package knows.
    purls = [
        PackageURL.from_string(c["purl"])
        for c in (raw["metadata"]["component"], *raw["components"])
        if "purl" in c
    ]
    assert [purl.type for purl in purls] == ["pypi"]
    assert raw["metadata"]["component"]["pedigree"]["commits"] == [{"uid": "1" * 40}]
    (component,) = raw["components"]
    assert component["hashes"] == [{"alg": "SHA-256", "content": artefact().sha256}]
    assert component["licenses"] == [{"license": {"name": "LicenseRef-Proprietary"}}]


FILES = PackageFiles(
    3,
    (
        Changed("bin/nvcc.profile", "edited", "2" * 64, "not-named"),
        Changed("lib/libthing.so.1", "RPATH $ORIGIN", "3" * 64, "attachment-a"),
    ),
    ("CUDA EULA",),
    {"attachment-a": 1, "clause-2.3": 3, "not-named": 1},
    ("bin/nvcc.profile",),
    bundled=(
        Bundled("lib/x.libs/libpng16.0a1b2c3d.so.16", "libpng", "1.6.58", "libpng-2.0"),
        Bundled("lib/x.libs/libwebp.0a1b2c3d.so.7", "libwebp", "", "BSD-3-Clause"),
    ),
)


def test_an_sbom_says_which_files_are_changed_and_what_their_licence_says(
    origin: Provenance,
) -> None:
    text = sbom.write(INDEX, origin, FILES)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text.decode()) is None
    assert sbom.read(text).files == FILES
    assert text == sbom.write(INDEX, origin, FILES), "no reference in it is made up"
    assert sbom.read(sbom.write(INDEX, origin)).files == PackageFiles()


LOCKED = {
    c.license for lock in release_locks(Workspace(ROOT)).values() for c in lock.components.values()
}


@pytest.mark.parametrize(
    "licence",
    sorted(
        LOCKED | {"Apache 2.0", "The licence of it (text 0123)", "A | B", "Apache-2.0 OR MIT", ""}
    ),
)
def test_a_licence_comes_out_of_an_sbom_as_it_is_locked(origin: Provenance, licence: str) -> None:
    """`ctk check --rebuild` makes the package again from it.

    Names that are no SPDX expression are among them.
    """
    text = sbom.write(INDEX, replace(origin, inputs=(Input(artefact(), licence),)))
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text.decode()) is None
    assert [i.license for i in sbom.read(text).provenance.inputs] == [licence]


def test_an_sbom_changes_with_its_inputs_and_with_nothing_else(origin: Provenance) -> None:
    texts = [
        sbom.write(INDEX, origin),
        sbom.write({**INDEX, "build": "h1_0"}, origin),
        *(
            sbom.write(INDEX, replace(origin, **other))
            for other in ({"commit": ""}, {"inputs": ()}, {"timestamp": 1}, {"variant": {}})
        ),
    ]
    assert sbom.write(INDEX, origin) == texts[0]
    assert len({json.loads(text)["serialNumber"] for text in texts}) == 6


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"\xff", b"[" * 100_000, b'{"metadata": {"component": 1}}']
)
def test_a_text_that_is_no_sbom_is_refused(text: bytes) -> None:
    with pytest.raises(AuditFailed, match="its SBOM cannot be read"):
        sbom.read(text)


RENDERED = """recipe:
  package:
    name: hello
  about:
    description: |
      timestamp: 2020
build_configuration:
  target_platform: linux-64
  host_platform:
    platform: linux-64
    virtual_packages:
    - __linux=6.1.0=0
    - __cuda=13.0=0
  build_platform:
    platform: linux-aarch64
    virtual_packages: []
  directories:
    host_prefix: /scratch/.tmp-1/bld/host_env_placehold_placehold_placeho
  timestamp: 2026-11-21T16:05:42.166226554Z
  packaging_settings:
    archive_type: conda
    compression_level: 1
finalized_sources: []
"""


def test_metadata_names_no_machine(origin: Provenance) -> None:
    files = {
        "info/index.json": json.dumps({**INDEX, "timestamp": 1}).encode(),
        "info/recipe/rendered_recipe.yaml": RENDERED.encode(),
        "info/paths.json": b'{"paths": []}',
        "info/about.json": b'{"channels": ["file:///scratch/.tmp-1/channel"]}',
        "info/tests/tests.yaml": b"- script: /scratch/.tmp-1\n",
    }
    found = portable(
        files, origin, {"/scratch/.tmp-1": "/build", "file:///scratch/.tmp-1": "file:///build"}
    )
    text = found["info/recipe/rendered_recipe.yaml"].decode()
    assert (
        "2026-11" not in text
        and "__linux" not in text
        and "__cuda" not in text
        and "aarch64" not in text
    )
    assert "  timestamp: 2025-06-15T15:06:40Z\n" in text
    assert "      timestamp: 2020\n" in text, "the recipe's own words stay"
    assert "    compression_level: 3\n" in text
    assert "    host_prefix: /build/bld/host_env\n" in text
    assert json.loads(found["info/index.json"])["timestamp"] == 1_750_000_000_000
    assert found["info/about.json"] == b'{"channels": ["file:///build/channel"]}'
    assert found["info/tests/tests.yaml"] == files["info/tests/tests.yaml"], (
        "from the recipe: not the machine's"
    )
    assert sbom.read(found["info/sboms/hello.cdx.json"]).provenance == origin


@pytest.mark.parametrize(
    "line", ["  timestamp: 2026-11-21T16:05:42.166226554Z\n", "build_configuration:\n"]
)
def test_metadata_of_another_shape_is_not_guessed_at(origin: Provenance, line: str) -> None:
    files = {
        "info/index.json": json.dumps(INDEX).encode(),
        "info/paths.json": b'{"paths": []}',
        "info/recipe/rendered_recipe.yaml": RENDERED.replace(line, "").encode(),
    }
    with pytest.raises(
        BuildFailed, match=r"rattler-build 0\.73\.0 writes rendered recipes in another way"
    ):
        portable(files, origin, {})


@pytest.mark.parametrize(
    "text", ["../../x", "/x", "--output=x", "x\0y", "$(touch x)", "..", "a\nb"]
)
def test_no_text_of_an_sbom_leads_out_of_a_rebuild(origin: Provenance, text: str) -> None:
    """A rebuild makes paths, and words of git and of scripts, of what other people wrote."""
    (given,) = origin.inputs
    forms = [replace(origin, **{field: text}) for field in ("recipe", "digest", "commit", "place")]
    forms += [
        replace(origin, variant={"cuda_version": (text,)}),
        replace(origin, variant={text: ("1",)}),
    ]
    for field in ("component", "target", "file", "sha256"):
        changed = replace(given.artefact, **{field: text})
        forms.append(replace(origin, inputs=(Input(changed, given.license),)))
    for form in forms:
        written = sbom.write(INDEX, origin)
        for old, new in _texts(origin, form):
            written = written.replace(json.dumps(old).encode(), json.dumps(new).encode())
        with pytest.raises(AuditFailed, match="its SBOM cannot be read"):
            sbom.read(written)


def _texts(old: Provenance, new: Provenance) -> list[tuple[str, str]]:
    """The texts in which two origins differ, as an SBOM has them."""
    pairs = [(getattr(old, f), getattr(new, f)) for f in ("recipe", "digest", "commit", "place")]
    before, after = vars(old.inputs[0].artefact), vars(new.inputs[0].artefact)
    pairs += [(before[field], after[field]) for field in ("component", "target", "file", "sha256")]
    if old.variant != new.variant:
        ((key, (value, *_)),) = list(new.variant.items())[:1]
        pairs += [
            ("cuda-feedstocks:variant:cuda_version", f"cuda-feedstocks:variant:{key}"),
            ("13.4", value),
        ]
    return [(one, other) for one, other in pairs if one != other]
