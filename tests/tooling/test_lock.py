"""Release locks: canonical, checked whole, and every problem shown with its place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import LockError, UnknownName
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.index.inside import LATEST, parse_time
from ctk.lock import lock as module
from ctk.lock.lock import (
    UNDECLARED,
    Artefact,
    Component,
    Facts,
    ReleaseLock,
    dump,
    find_release,
    load,
    release_locks,
    variant_config,
)

UPLOADED = parse_time("2025-08-04T12:34:56Z")
WHEEL_TAGS = {
    "linux-64": "manylinux2014_x86_64",
    "linux-aarch64": "manylinux2014_aarch64",
    "win-64": "win_amd64",
    "win-arm64": "win_arm64",
}


def wheel_name(distribution: str, version: str, target: str) -> str:
    subdir = next(subdir for subdir in PLATFORMS if target == subdir or target.startswith(f"{subdir}-"))
    python = f"{tag[:5].rstrip('t')}-{tag}" if (tag := target.removeprefix(subdir)[1:]) else "py3-none"
    return f"{distribution.replace('-', '_')}-{version}-{python}-{WHEEL_TAGS[subdir]}.whl"


def write(folder: Path, lock: ReleaseLock) -> Path:
    path = folder / f"{lock.name}.lock"
    path.write_text(dump(lock))
    path.with_suffix(".yaml").write_text(variant_config(lock))
    return path


def component(name: str = "cudart", version: str = "13.4.92", targets: tuple[str, ...] = tuple(PLATFORMS)) -> Component:
    def artefact(target: str) -> Artefact:
        file = wheel_name(f"nvidia-{name}", version, target)
        return Artefact(name, f"nvidia-{name}", version, target, file, "ab" * 32, 12, UPLOADED)

    artefacts = {t: artefact(t) for t in targets}
    return Component(name, f"nvidia-{name}", version, artefacts, UNDECLARED, ("cd" * 32,))


def ctk_lock(release: str = "13.4.3", facts: Facts | None = None, *components: Component) -> ReleaseLock:
    file = f"cuda_toolkit-{release}-py3-none-any.whl"
    manifest = Artefact("cuda-toolkit", "cuda-toolkit", release, NOARCH, file, "cd" * 32, 7)
    return ReleaseLock(release, manifest, {c.name: c for c in components or (component(),)}, facts)


ODD = [component(name) for name in ("null", "true", "1e5", "0x1f", "12", "no", "nan")]


def with_hash(sha256: str) -> Component:
    whole = component(targets=("linux-64", "win-64"))
    artefacts = {t: replace(a, sha256=sha256, size=1 << 40, uploaded=LATEST) for t, a in whole.artefacts.items() if a}
    return replace(whole, artefacts={**dict.fromkeys(PLATFORMS), **artefacts})


@pytest.mark.parametrize(
    "lock",
    [
        ctk_lock("13.4.3", None, *sorted(ODD, key=lambda c: c.name)),
        ctk_lock("0.40.0", Facts(("0.0", "7.5", "12.10"), "9.4", {"linux-64": {"null": "2.17"}, "win-64": {}})),
        *(ctk_lock("13.4.3", None, with_hash(digits)) for digits in ("0" * 64, "1" * 64, "12e" + "4" * 61)),
        ReleaseLock("python-1", None, {"a": component("a", "1", ("linux-64-cp311", "win-arm64-cp314t"))}),
    ],
    ids=["names", "facts", "zeros", "a number", "a float", "python"],
)
def test_a_lock_survives_dump_and_load_whatever_yaml_could_take_its_texts_for(
    lock: ReleaseLock, tmp_path: Path
) -> None:
    path = write(tmp_path, lock)
    again = load(path)
    assert again == lock
    assert dump(again) == path.read_text()
    assert variant_config(again) == path.with_suffix(".yaml").read_text()


def test_a_release_knows_its_names() -> None:
    lock = ctk_lock("13.4.3")
    assert (lock.name, lock.minor, lock.major) == ("cuda-13.4", "13.4", "13")
    python = ReleaseLock("python-12", None, {})
    assert (python.name, python.minor, python.major) == ("python-12", "", "12")
    base = ReleaseLock("base", None, {})
    assert (base.name, base.minor, base.major) == ("base", "", "")


def test_an_unmeasured_release_says_so() -> None:
    assert "ctk release measure 13.4 --write" in variant_config(ctk_lock())
    facts = Facts(("7.5", "12.1"), "9.4", {"linux-64": {"cudart": "2.17"}})
    text = variant_config(ctk_lock("13.4.3", facts))
    assert "measure" not in text
    facts_text = 'cuda_arch:\n  - "7.5"\n  - "12.1"\ncuda_arch_set:\n  - "7.5|12.1"\n'
    assert text.endswith(f'{facts_text}ptx_isa:\n  - "9.4"\n')


def test_releases_come_by_version_and_are_found_by_any_name(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.variants.mkdir()
    for lock in (
        ctk_lock("13.10.0"),
        ctk_lock("13.4.3"),
        ctk_lock("12.9.2"),
        ReleaseLock("python-13", None, {"x": component("x")}),
    ):
        write(workspace.variants, lock)
    found = release_locks(workspace)
    assert list(found) == ["cuda-12.9", "cuda-13.4", "cuda-13.10", "python-13"]
    assert {find_release(found, n).name for n in ("13.4", "13.4.3", "cuda-13.4")} == {"cuda-13.4"}
    with pytest.raises(UnknownName) as error:
        find_release(found, "13.5")
    assert "13.4" in error.value.step


def broken(tmp_path: Path, *edits: tuple[str, str], half: str = ".lock", partial: bool = False) -> str:
    """The error about a valid lock with some text replaced."""
    lock = ctk_lock("13.4.3", Facts(("7.5", "12.1"), "9.4", {}), component(), component("nvrtc"))
    if partial:
        lock = replace(lock, facts=None, missing={"cufile": ("linux",), "npp": ("win-64",)})
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


def test_every_problem_is_listed_with_component_and_line(tmp_path: Path) -> None:
    message = broken(
        tmp_path,
        ("schema: 2", "schema: 3"),
        ('    version: "13.4.92"\n', "    version: 13.4\n"),
        (f'sha256: "{"ab" * 32}", size: 12, ', 'sha256: "abc", size: 0, '),
        (f', sha256: "{"ab" * 32}", size: 12, uploaded: "2025-08-04T12:34:56Z"', ""),
        ("      win-64:", "      win-63:"),
        ("  nvrtc:\n    distribution: nvidia-nvrtc\n", "  nvrtc:\n    colour: green\n"),
        ('ptx_isa: "9.4"', "ptx_isa: 9.4"),
    )
    lines = message.splitlines()
    assert lines[0] == "cuda-13.4: 11 problems"
    for expected in (
        "cuda-13.4.lock line 2: schema: Input should be less than or equal to 2",
        "cuda-13.4.lock line 15: component cudart version: Input should be a valid string, not 13.4",
        "cuda-13.4.lock line 19: component cudart linux-64, sha256: a sha256 is 64 hexadecimal digits in lower case",
        "cuda-13.4.lock line 19: component cudart linux-64, size: Input should be greater than 0",
        "cuda-13.4.lock line 20: component cudart linux-aarch64, sha256: missing",
        "cuda-13.4.lock line 20: component cudart linux-aarch64, size: missing",
        "cuda-13.4.lock line 20: component cudart linux-aarch64, uploaded: missing",
        "cuda-13.4.lock line 21: component cudart win-63: unknown target 'win-63'",
        "cuda-13.4.lock line 24: component nvrtc colour: is no field of the file",
        "cuda-13.4.lock line 23: component nvrtc distribution: missing",
        "cuda-13.4.lock line 35: facts.ptx_isa: Input should be a valid string, not 9.4",
    ):
        assert any(expected in line for line in lines), expected


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("  nvrtc:", "  cudart:", "line 23: component cudart: stated twice"),
        ("      win-arm64:", "      win-64:", "line 22: component cudart win-64: stated twice"),
        ('since: "1980-01-01T00:00:00Z"\n', "", "line 2: since: a CTK release says when its minor appeared"),
        ('since: "1980-01-01', 'since: "1980-1-1', "line 4: since: '1980-1-1T00:00:00Z' is not a moment in UTC"),
        ('release: "13.4.3"', 'release: "13.5.3"', "line 3: release: 13.5.3 belongs into cuda-13.5.lock"),
        ('release: "13.4.3"', 'release: "13.4"', "line 3: release: '13.4' is not a release"),
        ("file: nvidia_cudart-13.4.92", "file: nvidia_cudart-13.4.91", "is no file of nvidia-cudart 13.4.92"),
        ("file: nvidia_cudart-13.4.92", "file: ../nvidia_cudart-13.4.92", "is not a plain file name"),
        ("manylinux2014_x86_64.whl", "win_amd64.whl", "line 19: component cudart linux-64, file: nvidia_cudart"),
        ("manylinux2014_x86_64.whl", "win_amd64.whl", "py3-none-win_amd64.whl is not for linux-64"),
        ("92-py3-none-many", "92-cp313-cp313-many", "cp313-manylinux2014_x86_64.whl is not for linux-64"),
        ("-py3-none-manylinux2014_x86_64.whl", ".tar.gz", "linux-64, file: is no wheel"),
        ("  cudart:\n", "  ../cudart:\n", "component ../cudart: String should match pattern"),
        ('["7.5", "12.1"]', '["12.1", "7.5"]', "the lowest comes first"),
        ('["7.5", "12.1"]', "[]", "at least 1 item"),
        ("components:", "components: [", "not YAML"),
        ("size: 12,", "size: true,", "linux-64, size: Input should be a valid integer, not True"),
        ("size: 12,", "size: '12',", "linux-64, size: Input should be a valid integer, not '12'"),
        (' "2025-08-04T12:34:56Z"}', " 2025-08-04T12:34:56Z}", "linux-64, uploaded: Input should be a valid string"),
        ("04T12:34:56Z", "04T12:34:56+02:00", "is not a moment in UTC like"),
        ("04T12:34:56Z", "04T24:00:00Z", "is not a moment in UTC like"),
        ("2025-08-04T", "1979-08-04T", "from 1980 to 2107"),
        ("2025-08-04T", "2108-08-04T", "from 1980 to 2107"),
        ("ab" * 32, "AB" * 32, "64 hexadecimal digits in lower case"),
        ("12, uploaded", "12, component: cudart, uploaded", "linux-64, component stated: is no field of the file"),
        ('license: "NOASSERTION"', "license: null", "license: Input should be a valid string, not None"),
        ('license: "NOASSERTION"', 'license: ""', "license: a licence is one line of text"),
        ('license: "NOASSERTION"', 'license: "A\\e[2J"', "license: a licence is one line of text"),
        ('    license: "NOASSERTION"\n', "", "license: missing"),
        (f'license_texts: ["{"cd" * 32}"]', 'license_texts: ["MIT"]', "a sha256 is 64 hexadecimal digits"),
        (f'["{"cd" * 32}"]', f'["{"f" * 64}", "{"cd" * 32}"]', "they are sorted, and none comes twice"),
    ],
)
def test_a_lock_that_is_wrong_is_refused(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert problem in broken(tmp_path, (old, new))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('["linux"]', '["linux", "mars"]', "unknown place 'mars'; places are"),
        ('["linux"]', "[]", "missing.cufile: List should have at least 1 item"),
        ("  npp:", "  nvrtc:", "missing.nvrtc: has an artefact for win-64"),
        ('npp: ["win-64"]', 'nvrtc: ["linux"]', "missing.nvrtc: has an artefact for linux"),
    ],
)
def test_a_partial_lock_that_contradicts_itself_is_refused(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert problem in broken(tmp_path, (old, new), partial=True)


def test_a_pair_that_did_not_change_is_parsed_once(tmp_path: Path) -> None:
    path = write(tmp_path, ctk_lock())
    first = load(path)
    assert load(path) is first
    write(tmp_path, ctk_lock("13.4.4"))
    assert load(path).release == "13.4.4"


def test_a_lock_of_an_older_schema_says_so_and_nothing_else(tmp_path: Path) -> None:
    message = broken(tmp_path, ("schema: 2", "schema: 1"), (', uploaded: "2025-08-04T12:34:56Z"', ""))
    assert message.splitlines() == [
        "cuda-13.4: 1 problem",
        "  - cuda-13.4.lock line 2: schema: 1 was written by an older revision; this one reads and writes 2",
    ]


def test_a_platform_left_out_is_not_a_platform_without_artefact(tmp_path: Path) -> None:
    path = write(tmp_path, ctk_lock("13.4.3", None, component(targets=("linux-64", "win-64"))))
    with pytest.raises(LockError, match="line 18: component cudart: says nothing about linux-aarch64, win-arm64"):
        load(path)


def test_a_ctk_release_has_a_manifest_and_others_do_not(tmp_path: Path) -> None:
    no_manifest = write(tmp_path, ReleaseLock("13.4.3", None, {"cudart": component()}))
    with pytest.raises(LockError, match="manifest: a CTK release names"):
        load(no_manifest)
    odd = write(tmp_path, ReleaseLock("python-13", ctk_lock().manifest, {"cudart": component()}))
    with pytest.raises(LockError, match="manifest: only a CTK release has it"):
        load(odd)


@pytest.mark.parametrize("text", ["", "[]", "3", "schema: 2", "{}", "\x00"])
def test_what_is_no_lock_at_all_is_a_lock_error(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, ctk_lock())
    path.write_text(text)
    with pytest.raises(LockError):
        load(path)


def test_halves_that_disagree_are_refused(tmp_path: Path) -> None:
    message = broken(
        tmp_path,
        ('cudart:\n  - "13.4.92"', 'cudart:\n  - "13.4.91"\nmine:\n  - "1"'),
        ('ptx_isa:\n  - "9.4"\n', ""),
        half=".yaml",
    )
    assert "cuda-13.4.yaml line 8: cudart: is ['13.4.91'], the .lock says ['13.4.92']" in message
    assert "cuda-13.4.yaml line 10: mine: the .lock does not have it" in message
    assert "ptx_isa: missing, the .lock says '9.4'" in message


@pytest.mark.parametrize("half", [".lock", ".yaml"])
def test_a_missing_half_is_a_lock_error(tmp_path: Path, half: str) -> None:
    path = write(tmp_path, ctk_lock())
    path.with_suffix(half).unlink()
    with pytest.raises(LockError, match=f"cuda-13.4{half} cannot be read"):
        load(path)


# ---- the locks that an earlier run found valid

Read = Callable[[Path], list[str]]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Does what the first command of a new process does, and returns the locks that it had to read."""

    def command(root: Path) -> list[str]:
        opened: list[str] = []
        module._kept.cache_clear()
        monkeypatch.setattr(module, "load", lambda path: opened.append(path.stem) or load(path))
        assert release_locks(Workspace(root)) == {"cuda-13.4": load(root / "variants" / "cuda-13.4.lock")}
        return opened

    return command


@pytest.fixture
def noted(tmp_path: Path, read: Read) -> Path:
    """A checkout with one lock, which a command has read."""
    (tmp_path / "here" / "variants").mkdir(parents=True)
    write(tmp_path / "here" / "variants", ctk_lock())
    assert read(tmp_path / "here") == ["cuda-13.4"]
    assert read(tmp_path / "here") == []
    return tmp_path / "here"


@pytest.mark.parametrize("half", [".lock", ".yaml"])
def test_a_changed_lock_is_read_though_its_size_and_time_stay(noted: Path, half: str) -> None:
    path = (noted / "variants" / "cuda-13.4.lock").with_suffix(half)
    before = path.stat()
    path.write_text(path.read_text().replace("13.4.92", "13.4.9x"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(LockError, match=f"cuda-13.4{half} line"):
        release_locks(Workspace(noted))


@pytest.mark.parametrize("spoil", [lambda b: b[:-1], lambda b: b[:99] + bytes([b[99] ^ 1]) + b[100:], lambda b: b""])
def test_a_damaged_note_is_made_anew(noted: Path, read: Read, spoil: Callable[[bytes], bytes]) -> None:
    note = noted / ".cache" / "locks"
    whole = note.read_bytes()
    note.write_bytes(spoil(whole))
    assert read(noted) == ["cuda-13.4"]
    assert note.read_bytes() == whole


def test_a_note_from_elsewhere_is_not_believed(noted: Path, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = shutil.copytree(noted, noted.with_name("copy"))
    assert read(copy) == ["cuda-13.4"]
    with monkeypatch.context() as other:
        other.setattr(module, "_READERS", (*module._READERS, str(noted / "variants" / "cuda-13.4.yaml")))
        assert read(noted) == ["cuda-13.4"]  # other code had read it
    assert read(noted) == ["cuda-13.4"]
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert read(noted) == ["cuda-13.4"]


def test_a_cache_that_takes_no_note_is_none(noted: Path, read: Read) -> None:
    shutil.rmtree(noted / ".cache")
    (noted / ".cache").touch()
    assert read(noted) == read(noted) == ["cuda-13.4"]
