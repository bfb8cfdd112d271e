"""What is locked is looked through once before anything reads it: it is the artefact, and unpacks inside its folder."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.errors import ArtefactRefused, CtkError, LockError
from ctk.core.platforms import PLATFORMS
from ctk.fetch import fetch
from ctk.fetch.admission import check
from ctk.lock.model import Artefact, dump
from ctk.pipeline import Index
from kit import tiny
from kit.fake_index import wheel

LINUX = "py3-none-manylinux2014_x86_64"
GOOD = wheel("nvidia-cuda-runtime", "13.4.92", LINUX, [], {"nvidia/a.h": b"a"})
UPWARDS = wheel("nvidia-cuda-runtime", "13.4.92", LINUX, [], {"nvidia/../../x": b""})


def artefact(data: bytes, target: str = "linux-64", file: str = f"nvidia_cuda_runtime-13.4.92-{LINUX}.whl") -> Artefact:
    """The artefact that a lock would name with these very bytes."""
    digest = hashlib.sha256(data).hexdigest()
    return Artefact("cudart", "nvidia-cuda-runtime", "13.4.92", target, file, digest, len(data))


def with_link() -> bytes:
    out = io.BytesIO(GOOD)
    with zipfile.ZipFile(out, "a") as archive:
        link = zipfile.ZipInfo("nvidia/b")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc")
    return out.getvalue()


def tagged(*tags: str) -> bytes:
    return wheel("nvidia-cuda-runtime", "13.4.92", "\nTag: ".join(tags), [], {})


WHEELS = {
    "good": (GOOD, ""),
    "for two platforms": (tagged("py3-none-win_amd64", LINUX), ""),
    "a path upwards": (UPWARDS, "nvidia/../../x: it is no plain file inside its folder"),
    "a link": (with_link(), "nvidia/b: it is no plain file"),
    "another project": (wheel("other", "13.4.92", LINUX, [], {}), "is not that of nvidia-cuda-runtime 13.4.92"),
    "another version": (wheel("nvidia-cuda-runtime", "13.4.93", LINUX, [], {}), "is not that of nvidia-cuda-runtime"),
    "tags of Windows": (tagged("py3-none-win_amd64"), "for py3-none-win_amd64, and it is locked for linux-64"),
    "tags of all platforms": (tagged("py3-none-any"), "for py3-none-any, and it is locked for linux-64"),
    "tags of a Python": (tagged("cp313-cp313-manylinux2014_x86_64"), "and it is locked for linux-64"),
    "no METADATA": (b"PK\5\6" + bytes(18), "a wheel has one METADATA, not 0"),
    "no zip": (b"a" * 100, "it is no zip"),
    "cut short": (GOOD[:-30], "it is no zip, or is cut short"),
}


@pytest.mark.parametrize("name", WHEELS)
def test_a_wheel_is_of_its_project_and_target_and_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    data, reason = WHEELS[name]
    said = refusal(artefact(data), data, tmp_path)
    assert reason in said and bool(reason) == bool(said)


def refusal(wanted: Artefact, data: bytes, folder: Path) -> str:
    """What is said of an artefact; "" when it is admitted."""
    (folder / "artefact").write_bytes(data)
    try:
        check(wanted, folder / "artefact")
    except ArtefactRefused as refused:
        return refused.cause
    return ""


def tar_of(*names: str, **links: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name in (*names, *links):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE if name in links else tarfile.REGTYPE, links.get(name, "")
            tar.addfile(member)
    return out.getvalue()


TARS = {
    "good": (tar_of("a/b"), ""),
    "a link to a file in it": (tar_of("c", **{"a/b": "../c"}), ""),
    "a path upwards": (tar_of("a/../../b"), "a/../../b: it is no plain file inside its folder"),
    "a link upwards": (tar_of("c", a="../c"), "a: it is no plain file"),
    "a link to a folder": (tar_of(a="/etc"), "a: it is no plain file"),
    "no gzip": (b"PK", "cannot be read"),
    "cut short": (tar_of("a")[:-20], "cannot be read"),
    "no tar": (gzip.compress(b"a" * 2000), "cannot be read"),
}


@pytest.mark.parametrize("name", TARS)
def test_a_source_distribution_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    data, reason = TARS[name]
    said = refusal(artefact(data, "noarch", "cufinufft-2.5.1.tar.gz"), data, tmp_path)
    assert reason in said and bool(reason) == bool(said)


# ---- fetch


def no_index() -> Index:
    raise AssertionError("the index was asked")


def in_store(data: bytes, workspace: Workspace, wanted: Artefact | None = None) -> Artefact:
    wanted = wanted or artefact(data)
    home = fetch.stored(wanted, workspace)
    home.parent.mkdir(parents=True, exist_ok=True)
    home.write_bytes(data)
    return wanted


def locked(workspace: Workspace, *artefacts: Artefact) -> None:
    """Locks the release of a tiny checkout with these artefacts."""
    whole = tiny.lock()
    by_target = dict.fromkeys(PLATFORMS) | {a.target: a for a in artefacts}
    component = replace(whole.components["cudart"], artefacts=by_target)
    (workspace.variants / "cuda-13.4.lock").write_text(
        dump(replace(whole, components={"cudart": component}, gpu_code={}))
    )


def test_a_refused_artefact_is_never_laid_out_and_refused_again(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    wanted = in_store(UPWARDS, workspace)
    for _ in range(2):
        with pytest.raises(ArtefactRefused):
            fetch.fetch([wanted], workspace, no_index)
    assert not fetch.laid_out(wanted, workspace).exists()
    assert not (tmp_path.parent / "x").exists()


def test_what_was_admitted_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(tmp_path)
    wanted = in_store(GOOD, workspace)
    fetch.fetch([wanted], workspace, no_index)
    monkeypatch.setattr("ctk.fetch.admission.check", lambda *_: pytest.fail("it was read again"))
    fetch.fetch([wanted], workspace, no_index)


def test_the_same_file_for_another_target_is_looked_through_anew(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    wanted = in_store(GOOD, workspace)
    fetch.fetch([wanted], workspace, no_index)
    with pytest.raises(ArtefactRefused, match="locked for linux-aarch64"):
        fetch.fetch([replace(wanted, target="linux-aarch64")], workspace, no_index)


def test_a_build_ends_before_anything_of_it_is_unpacked(tmp_path: Path) -> None:
    workspace = tiny.tiny_checkout(tmp_path / "checkout")
    digest = hashlib.sha256(UPWARDS).hexdigest()
    wanted = in_store(UPWARDS, workspace, replace(tiny.artefact(), sha256=digest, size=len(UPWARDS)))
    locked(workspace, wanted)
    done = ctk(workspace, "build", "--base", str(tmp_path / "base"), "--platform", "linux-64")
    assert done.returncode == ArtefactRefused.exit_code, done.stderr
    assert wanted.file in done.stderr and "inside its folder" in done.stderr
    assert "next: nothing of it was unpacked" in done.stderr
    assert not workspace.artefacts.exists() and not workspace.builds.exists() and not workspace.channel.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["checkout"]


def headers(workspace: Workspace, target: str, platform: str) -> Artefact:
    """A wheel of one header, as long as that for another platform: only its name and its WHEEL say which it is for."""
    tags = f"py3-none-{platform}"
    data = wheel("nvidia-cuda-runtime", "13.4.92", tags, [], {"nvidia/a.h": bytes(100 - len(tags))})
    return in_store(data, workspace, artefact(data, target, f"nvidia_cuda_runtime-13.4.92-{tags}.whl"))


@pytest.mark.parametrize("subdir", ["linux-64", pytest.param("win-64", marks=pytest.mark.sweep)])
@pytest.mark.parametrize(
    ("swapped", "error"),
    [((), None), (("file", "sha256"), LockError), (("file",), LockError), (("sha256",), ArtefactRefused)],
)
def test_headers_of_another_platform_are_refused_by_whatever_fetches(
    tmp_path: Path, swapped: tuple[str, ...], error: type[CtkError] | None, subdir: str
) -> None:
    workspace = tiny.tiny_checkout(tmp_path)
    linux = headers(workspace, "linux-64", "manylinux2014_x86_64")
    windows = headers(workspace, "win-64", "win_amd64")
    assert linux.size == windows.size
    locked(
        workspace,
        replace(linux, **{field: getattr(windows, field) for field in swapped}),
        replace(windows, **{field: getattr(linux, field) for field in swapped}),
    )
    done = ctk(workspace, "build", "--fetch-only", "--platform", subdir)
    assert done.returncode == (error.exit_code if error else 0), done.stderr
    assert error is None or f"for {subdir}" in done.stderr
    assert workspace.artefacts.exists() == (error is None)
