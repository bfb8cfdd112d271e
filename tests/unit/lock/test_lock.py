"""Release locks: a written lock is read again, each field is checked, and every problem is shown
with its place.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import LockError, UnknownName
from ctk.lock.model import (
    Facts,
    ReleaseLock,
    dump,
    find_release,
    load,
    release_locks,
    variant_config,
)
from kit.ctk_release import component, release, write


def test_an_artefact_is_a_line(tmp_path: Path) -> None:
    lines = dump(release()).splitlines()
    assert [
        json.loads("{" + line.strip().rstrip(",") + "}")["linux-64"]["size"]
        for line in lines
        if '"linux-64": {' in line
    ] == [12]


def test_an_unmeasured_release_says_so() -> None:
    assert "ctk release measure 13.4 --write" in variant_config(release())
    assert "measure" not in variant_config(release(facts=Facts(("7.5", "12.1"), "9.4", {})))


def test_releases_come_by_version_and_are_found_by_any_name(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.variants.mkdir()
    for lock in (
        release("13.10.0"),
        release("13.4.3"),
        release("12.9.2"),
        release("python-13", "x"),
    ):
        write(workspace.variants, lock)
    found = release_locks(workspace)
    assert list(found) == ["cuda-12.9", "cuda-13.4", "cuda-13.10", "python-13"]
    assert {find_release(found, n).name for n in ("13.4", "13.4.3", "cuda-13.4")} == {"cuda-13.4"}
    with pytest.raises(UnknownName, match=r"13\.7 is not locked") as error:
        find_release(found, "cuda-13.7")
    assert error.value.step.endswith("; then ctk release add 13.7 --write")


def broken(tmp_path: Path, *edits: tuple[str, str], half: str = ".lock") -> str:
    """The error about a valid lock with some text replaced."""
    lock = release("13.4.3", "cudart", "nvrtc", facts=Facts(("7.5", "12.1"), "9.4", {}))
    path = write(tmp_path, lock)
    assert load(path) == lock
    file = path.with_suffix(half)
    text = file.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    file.write_text(text)
    with pytest.raises(LockError) as error:
        load(path)
    assert "ctk release add 13.4 --write" in error.value.step
    return str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            '"release": "13.4.3"',
            '"release": "13.5.3"',
            "release: 13.5.3 belongs in cuda-13.5.lock",
        ),
        ('"release": "13.4.3"', '"release": "13.4"', "release: String should match pattern"),
        (
            '"file": "nvidia_cudart-13.4.92',
            '"file": "nvidia_cudart-13.4.91',
            "is not a file of nvidia-cudart 13.4.92",
        ),
        ("manylinux2014_x86_64.whl", "win_amd64.whl", "py3-none-win_amd64.whl is not for linux-64"),
        ('"sha256": "', '"sha1": "', "sha256: Field required"),
        ('"sha256": "', '"sha256": "x', "sha256: String should match pattern '^[0-9a-f]{64}$'"),
        ('"components": {', '"components": [', "not JSON"),
        (
            '"cudart": {',
            '"cudart-13.4.92": {',
            "components.cudart-13.4.92: is an older version of cudart, which is not there",
        ),
    ],
)
def test_a_lock_that_is_wrong_is_refused(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert problem in broken(tmp_path, (old, new))


def test_a_platform_left_out_is_not_a_platform_without_artefact(tmp_path: Path) -> None:
    path = write(tmp_path, release("13.4.3", component(targets=("linux-64", "win-64"))))
    with pytest.raises(
        LockError, match=r"components\.cudart: has no entry for linux-aarch64, win-arm64"
    ):
        load(path)


def test_a_ctk_release_has_a_manifest_and_others_do_not(tmp_path: Path) -> None:
    no_manifest = write(tmp_path, ReleaseLock("13.4.3", None, {"cudart": component()}))
    with pytest.raises(LockError, match="manifest: a release of the CUDA Toolkit names"):
        load(no_manifest)
    odd = write(tmp_path, ReleaseLock("python-13", release().manifest, {"cudart": component()}))
    with pytest.raises(LockError, match="manifest: a release of the CUDA Toolkit names"):
        load(odd)


def test_halves_that_disagree_are_refused(tmp_path: Path) -> None:
    message = broken(tmp_path, ('cudart:\n  - "13.4.92"', 'cudart:\n  - "13.4.91"'), half=".yaml")
    assert "cuda-13.4.yaml is not what cuda-13.4.lock says" in message
