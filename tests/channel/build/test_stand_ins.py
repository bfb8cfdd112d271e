"""Packages are the same bytes, whether rattler-build reads the wheels themselves or stand-ins for
large binaries.
"""

from __future__ import annotations

import hashlib
import io
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pydantic_core import _pydantic_core

from conftest import NEWEST
from ctk.build import one, runner
from ctk.build.finished import Built
from ctk.build.runner import make, make_with
from ctk.build.standins import choose
from ctk.core.checkout import Workspace
from ctk.core.errors import BuildFailed
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.fetch.fetch import laid_out
from ctk.lock.model import Artefact
from ctk.package.reader import members
from ctk.plan.plan import Build, Request, plan, published_set, python_tags
from ctk.plan.recipes import Recipe
from ctk.plan.render import render
from kit.binaries import elf, pe

LARGE = bytes(range(256)) * (5 << 10)  # 1.25 MB
DLL = {
    "bin/thing.dll": pe(payload=LARGE),
    "bin/thing_arm.dll": pe(machine="aarch64", payload=LARGE),
}
SET_RPATH = "patchelf --force-rpath --set-rpath '$ORIGIN' $PREFIX/lib/libthing.so.1"

RECIPE = """
schema_version: 1
package: {{name: thing, version: "1.0"}}
source: {{path: ../../.cache/artefacts/thing/1.0/{subdir}.zip}}
build:
  script: {{file: lay-out.sh}}
  dynamic_linking: {{binary_relocation: false}}
about: {{license: MIT, license_file: {license}}}
"""


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Builds here work in a folder of memory that goes with the test: only a whole run removes the
    checkout's own.
    """
    with TemporaryDirectory(prefix="ctk-test-", dir=one.MEMORY) as folder:
        monkeypatch.setattr(one, "MEMORY", Path(folder))
        yield


def thing(**of: str) -> Mapping[str, bytes]:
    """A wheel with one library."""
    return {"lib/libthing.so.1": elf(soname="libthing.so.1", payload=LARGE, **of)}  # type: ignore[arg-type]


def wheel_build(
    root: Path,
    files: Mapping[str, bytes],
    script: str,
    subdir: str = "linux-64",
    license_file: str = "LICENSE",
) -> tuple[Build, Workspace]:
    """A build of one recipe whose script finds the files of a wheel in its folder."""
    workspace = Workspace(root)
    recipe = Recipe("thing", workspace.recipes / "thing")
    recipe.folder.mkdir(parents=True)
    recipe.file.write_text(RECIPE.format(subdir=subdir, license=license_file))
    (recipe.folder / "lay-out.sh").write_text(
        f"set -e\nmkdir -p $PREFIX\ncp -r bin lib small $PREFIX || true\n{script}\n"
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {
            "LICENSE": b"Do as you like.\n",
            "small/text": b"a text\n",
            **files,
        }.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    artefact = Artefact(
        "thing", "thing", "1.0", subdir, "thing-1.0.zip", digest, len(buffer.getvalue())
    )
    path = laid_out(artefact, workspace)
    path.parent.mkdir(parents=True)
    path.write_bytes(buffer.getvalue())
    (root / "variants.yaml").write_text("{}\n")
    variants = (root / "variants.yaml",)
    outputs = tuple(render(recipe, variants, subdir))
    license_of = {"thing": "MIT"}
    return (
        Build(
            "thing",
            recipe,
            variants,
            "",
            subdir,
            "",
            outputs,
            (artefact,),
            "",
            1_757_000_000,
            {},
            license_of,
        ),
        workspace,
    )


def one_way(build: Build, root: Path, *, with_stand_ins: bool) -> Built:
    large = choose(build) if with_stand_ins else {artefact: {} for artefact in build.artefacts}
    return make_with(large, build, Workspace(root), 2, time.monotonic())


REAL = {"lib/libthing.so.1": Path(_pydantic_core.__file__).read_bytes()}

BOTH_WAYS = {
    "a library that has the RPATH": (thing(rpath="$ORIGIN"), SET_RPATH, "linux-64"),
    "no RPATH": (REAL, SET_RPATH, "linux-64"),
    "an ARM library": (thing(rpath="$ORIGIN", machine="aarch64"), SET_RPATH, "linux-aarch64"),
    "patchelf called twice": (
        REAL,
        f"{SET_RPATH}\n{SET_RPATH.replace('ORIGIN', 'ORIGIN/x')}",
        "linux-64",
    ),
    "the SONAME": (
        thing(),
        "mv $PREFIX/lib/* $PREFIX/$(patchelf --print-soname lib/*)",
        "linux-64",
    ),
    "links": (
        thing(),
        "ln -s libthing.so.1 $PREFIX/lib/libthing.so\nln -s lib/libthing.so $PREFIX/up",
        "linux-64",
    ),
    "modes": (thing(), "chmod 755 $PREFIX/lib/*", "linux-64"),
    "left out": (thing(), "rm -r $PREFIX/lib", "linux-64"),
    "twice": (thing(), "cp $PREFIX/lib/* $PREFIX/again", "linux-64"),
    "DLLs": (DLL, "", "win-64"),
    "an archive": (
        {"lib/libthing.a": b"!<arch>\n" + LARGE},
        "ln -s libthing.a $PREFIX/lib/b.a",
        "linux-64",
    ),
    "a large text": (
        {"lib/text": b"a line\n" * (1 << 18)},
        "sed -i s/line/word/ $PREFIX/lib/*",
        "linux-64",
    ),
    "the prefix": (
        thing(),
        "printf '#!%s/bin/sh\\n' $PREFIX >$PREFIX/run\nchmod 755 $PREFIX/run",
        "linux-64",
    ),
    "read by name": (thing(), "grep -c ELF lib/libthing.so.1 >$PREFIX/count", "linux-64"),
}


@pytest.mark.parametrize("case", BOTH_WAYS)
def test_both_ways_give_the_same_bytes(tmp_path: Path, case: str) -> None:
    files, script, subdir = BOTH_WAYS[case]
    build, _ = wheel_build(tmp_path / "checkout", files, script, subdir)
    found = one_way(build, tmp_path / "stand-ins", with_stand_ins=True)
    plain = one_way(build, tmp_path / "plain", with_stand_ins=False)
    assert found.sha256 == plain.sha256
    (package,) = found.packages
    assert not any(stream and b"stand-in" in stream.read() for _, stream in members(package, "pkg"))
    sizes = {m.path: (m.size, m.sha256) for m, stream in members(package, "pkg") if stream}
    assert sizes


CHANGED = {
    "something is added to a library": (thing(), "echo more >>$PREFIX/lib/libthing*", "LICENSE"),
    "patchelf is asked something else": (
        thing(),
        "patchelf --print-interpreter lib/* >$PREFIX/x || true",
        "LICENSE",
    ),
    "a library is needed that was not": (
        thing(),
        "patchelf --add-needed librt.so.1 $PREFIX/lib/libthing*",
        "LICENSE",
    ),
    "patchelf fails": (
        thing(),
        "patchelf --set-interpreter /x lib/libthing.* || echo no >$PREFIX/failed",
        "LICENSE",
    ),
    "patchelf is called for another file": (
        {"lib/libthing.a": b"!<arch>\n" + LARGE},
        "patchelf --force-rpath --set-rpath /x lib/*.a || true",
        "LICENSE",
    ),
    "a library is the licence": (thing(), "cp lib/libthing* TERMS", "TERMS"),
}


@pytest.mark.parametrize("case", CHANGED)
def test_a_build_that_stand_ins_cannot_make_is_made_from_the_wheel_itself(
    tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files, script, license_file = CHANGED[case]
    build, workspace = wheel_build(tmp_path / "checkout", files, script, license_file=license_file)
    assert (
        make(build, workspace, 2).sha256
        == one_way(build, tmp_path / "plain", with_stand_ins=False).sha256
    )
    assert "made from the wheels themselves" in capsys.readouterr().err


def test_an_error_is_that_of_the_files_themselves(tmp_path: Path) -> None:
    build, workspace = wheel_build(tmp_path, thing(), "wc -c <lib/libthing.so.1 >&2\nexit 3")
    with pytest.raises(BuildFailed, match=str(len(thing()["lib/libthing.so.1"]))):
        make(build, workspace, 2)
    assert not list(workspace.builds.glob("*")), "nothing is left behind"


def test_a_failing_build_without_large_binaries_is_made_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    build, workspace = wheel_build(tmp_path, {}, f"echo tried >>{tmp_path}/tries\nexit 3")
    with pytest.raises(BuildFailed):
        make(build, workspace, 2)
    assert (tmp_path / "tries").read_text() == "tried\n"
    assert "themselves" not in capfd.readouterr().err


def test_rattler_build_reads_a_small_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build, workspace = wheel_build(tmp_path, thing(rpath="$ORIGIN"), SET_RPATH.replace(".1", "*"))
    sizes, run = [], runner._run_rattler_build

    def look(read: Build, *rest: Path) -> list[Path]:
        sizes.append(
            laid_out(build.artefacts[0], Workspace(read.recipe.folder.parents[1])).stat().st_size
        )
        return run(read, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "_run_rattler_build", look)
    make(build, workspace, 2)
    assert len(sizes) == 1 and sizes[0] < 2000


@pytest.mark.parametrize("relocation", ["true", "false"])
def test_a_build_whose_binaries_rattler_build_edits_gets_no_stand_ins(
    tmp_path: Path, relocation: str
) -> None:
    build, _ = wheel_build(tmp_path, thing(rpath="$ORIGIN"), "")
    text = build.recipe.file.read_text().replace(
        "binary_relocation: false", f"binary_relocation: {relocation}"
    )
    build.recipe.file.write_text(text)
    (output,) = render(build.recipe, build.variant_files, "linux-64")
    assert output.may_edit == (relocation == "true")


@pytest.mark.parametrize(
    ("recipe", "subdir"),
    [("libnvfatbin", this_platform()), pytest.param("", "", marks=pytest.mark.sweep)],
    ids=["libnvfatbin", "every recipe, every platform"],
)
def test_real_packages_are_the_same_both_ways(
    built: Workspace, tmp_path: Path, request: pytest.FixtureRequest, recipe: str, subdir: str
) -> None:
    """Of cuda-nvcc, which takes a quarter of a minute, one script reads a program that another one
    has patched.
    """
    if not recipe:
        request.getfixturevalue("all_platforms")
    wanted = Request(
        [NEWEST], recipes=[recipe] if recipe else [], platforms=[subdir] if subdir else PLATFORMS
    )
    planned = plan(published_set(built), wanted, python_tags(built.build_config))
    compared = 0
    for build in planned.builds:
        if not all(laid_out(a, built).exists() for a in build.artefacts):
            continue
        found = one_way(build, tmp_path / "stand-ins", with_stand_ins=True)
        plain = one_way(build, tmp_path / "plain", with_stand_ins=False)
        assert found.sha256 == plain.sha256, build.id
        compared += 1
    assert compared
