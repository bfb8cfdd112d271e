"""The checks of an environment: for each a sound environment and a broken one, and records with
wrong content.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, ctk
from ctk.cli.doctor import as_json
from ctk.core import errors
from ctk.core.checkout import Workspace
from ctk.env import examine as environment
from ctk.env.check import ENVIRONMENT_CHECKS
from ctk.env.doctor import look
from ctk.env.examine import examined
from ctk.env.outside import NEW_FOLDER
from ctk.env.prefix import Installed, Note
from ctk.lock.model import release_locks
from ctk.solve.driver import NO_DEVICE, Answer, Change, DriverState, Limit
from ctk.solve.machine import Machine
from ctk.solve.solve import Catalogue, Scenario
from kit.small_channel import base, channel, pair, record, write

LOCKS = release_locks(Workspace(ROOT))
SITE = "lib/python3.12/site-packages"
CUDA_PLACES = ("LD_LIBRARY_PATH", "CUDA_PATH", "CUDA_HOME")
NATIVE = {"depends": ["__cuda >=12.6"], "constrains": ["__cuda_arch >=5.0,<=9.0"]}


class Made:
    """An environment made of conda's records."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        (prefix / "conda-meta").mkdir(parents=True)

    def package(self, name: str, version: str = "1.0", build: str = "0", **more: Any) -> Made:
        record = {
            "name": name,
            "version": version,
            "build": build,
            "subdir": "linux-64",
            "depends": [],
            **more,
        }
        return self.record(f"{name}-{version}-{build}.json", json.dumps(record).encode())

    def record(self, file: str, text: bytes) -> Made:
        (self.prefix / "conda-meta" / file).write_bytes(text)
        return self

    def toolkit(self, version: str = "12.6", build: str = "native_100", **rules: Any) -> Made:
        return self.package(
            "cuda-version", version, build, **(rules or (NATIVE if version == "12.6" else {}))
        )

    def noted(self, *asked: str) -> Made:
        """As if `ctk env create` had made it."""
        Note(tuple(Installed.read(self.prefix).packages), asked, "1").write(self.prefix)
        return self

    def wheel(
        self,
        name: str,
        version: str,
        record: str = "",
        installer: str = "pip",
        site: Path | None = None,
    ) -> Made:
        (self.prefix / SITE).mkdir(parents=True, exist_ok=True)
        info = (site or self.prefix / SITE) / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "INSTALLER").write_text(f"{installer}\n")
        (info / "RECORD").write_text(record or f"{info.name}/METADATA,,\n")
        (info / "METADATA").write_text(f"Name: {name}\n")
        return self.package("python", "3.12.4")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """An environment without packages, and nothing beside it.

    The release locks are read once for all tests.
    """
    for name in ("PYTHONPATH", "PYTHONNOUSERSITE", *CUDA_PLACES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "user"))
    monkeypatch.setattr(environment, "release_locks", lambda where: LOCKS)
    return Made(tmp_path / "an environment")


def check(made: Made, driver: str = "12.6", arch: str | None = "9.0") -> dict[str, dict[str, str]]:
    """The finding of each check for a machine."""
    seen = look(ENVIRONMENT_CHECKS, examined(Workspace(ROOT), made.prefix, driver, arch))
    for check, finding in seen:
        assert finding.message and check.help and (finding.severity == "ok" or finding.fix)
    return {check.name: {**as_json(finding), "step": finding.fix} for check, finding in seen}


def states(found: dict[str, dict[str, str]]) -> dict[str, str]:
    """Check -> state, for the checks that are not ok."""
    return {name: one["state"] for name, one in found.items() if one["state"] != "ok"}


def test_a_whole_environment_is_in_order(made: Made) -> None:
    files = [f"{SITE}/cuda_bindings-12.9.4.dist-info/{name}" for name in ("INSTALLER", "RECORD")]
    rules = [
        "cuda-version >=12,<13.0a0 native_*",
        "cuda-nvrtc >=12,<13.0a0",
        "python_abi 3.12.* *_cp312",
    ]
    made.toolkit().wheel("cuda_bindings", "12.9.4", installer="conda").package(
        "python_abi", "3.12", "8_cp312"
    )
    made.package("cuda-bindings", "12.9.4", "cuda12_py312_native_h1_0", depends=rules, files=files)
    made.package("cuda-nvrtc", "12.6.85", depends=["cuda-version >=12.6,<12.7.0a0"])
    found = check(made)
    assert states(found) == {}
    assert found["native toolkit"]["found"] == "toolkit 12.6 native"
    made.package(
        "libnvjitlink", "12.9.86", "newer_h1_51", depends=["cuda-version >=12,<12.9 native_*"]
    )
    made.package("libcudf", depends=["libnvjitlink >=12.9,<13.0a0"])
    found = check(made)
    assert states(found) == {}
    assert found["native toolkit"]["found"].startswith(
        "toolkit 12.6 native; nvJitLink is of toolkit 12.9, as libcudf needs"
    )


def with_newer_nvjitlink(made: Made, tmp_path: Path) -> Made:
    """Toolkit 12.6 native of a folder's channel, with the nvJitLink of 12.9.

    The folder has both nvJitLinks.
    """
    native = {"depends": ["__cuda >=12.6"]}
    tracked = {"track_features": "libnvjitlink-p-0"}
    records = [
        record("cuda-version", "12.6", "native_100", "noarch", **native),
        record(
            "libnvjitlink",
            "12.6.85",
            "native_h0_102",
            "linux-64",
            depends=["cuda-version 12.6 native_*"],
        ),
        record(
            "libnvjitlink",
            "12.9.86",
            "newer_h0_52",
            "linux-64",
            depends=["cuda-version 12.* native_*"],
            **tracked,
        ),
    ]
    folder = write(tmp_path / "of a toolkit", iter(records))
    for one in (records[0], records[2]):
        file = f"{one['name']}-{one['version']}-{one['build']}.conda"
        url = f"{folder.as_uri()}/{one['subdir']}/{file}"
        made.package(**{**one, "fn": file, "url": url, "channel": folder.as_uri()})
    return made


def history(made: Made, *specs: str, client: str = "conda") -> Made:
    lines = [
        "==> 2026-11-29 10:00:00 <==",
        f"# cmd: /usr/bin/{client} create",
        f"# update specs: {list(specs)}",
    ]
    (made.prefix / "conda-meta" / "history").write_text("\n".join(lines))
    return made


@pytest.mark.parametrize("client", ["conda", "mamba"])
def test_an_nvjitlink_that_nobody_asked_for_is_found_with_the_line_that_brings_back_the_toolkits(
    made: Made, tmp_path: Path, client: str
) -> None:
    """What mamba leaves after another toolkit is installed; the doctor said "as asked for"."""
    history(with_newer_nvjitlink(made, tmp_path), "cuda-version", client=client)
    found = check(made, "12.6", None)
    assert found["native toolkit"]["found"] == "toolkit 12.6 native"
    assert states(found) == {"nvJitLink": "problem"}
    said = (
        "12.9.86, but the toolkit is 12.6, and no installed or requested package needs that version"
    )
    assert found["nvJitLink"]["found"] == said
    (source,) = examined(Workspace(ROOT), made.prefix).channels
    words = [
        client,
        "install",
        "-p",
        str(made.prefix),
        "-c",
        source,
        "libnvjitlink=12.6",
        "cuda-version=12.6=native_*",
    ]
    assert found["nvJitLink"]["step"] == f"CONDA_OVERRIDE_CUDA=12.6 {shlex.join(words)}"
    assert states(check(made, "12.9", None)) == {"nvJitLink": "note"}, (
        "a driver that is as new as it takes its PTX"
    )


@pytest.mark.parametrize(
    "specs",
    [
        ("cuda-version", "libnvjitlink >=12.9"),
        ("libnvjitlink=12.9.86",),
        ("cuda-version", "libnvjitlink=*=newer*"),
    ],
)
def test_an_nvjitlink_that_was_asked_for_is_said_to_be_that(
    made: Made, tmp_path: Path, specs: tuple[str, ...]
) -> None:
    found = check(history(with_newer_nvjitlink(made, tmp_path), *specs), "12.6", None)
    assert states(found) == {}
    assert "nvJitLink is of toolkit 12.9, as asked for" in found["native toolkit"]["found"]


def test_no_line_is_printed_that_the_channels_do_not_prove(made: Made, tmp_path: Path) -> None:
    history(with_newer_nvjitlink(made, tmp_path), "cuda-version")
    look = shlex.join(["ctk", "solve", "libnvjitlink=12.6", "--prefix", str(made.prefix)])
    words = f"`{look}` says whether the toolkit's own can be installed"
    write(
        tmp_path / "of a toolkit",
        iter([record("other", "1", "h0_0", subdir) for subdir in ("linux-64", "noarch")]),
    )
    assert check(made, "12.6", None)["nvJitLink"]["step"] == words
    for file in (made.prefix / "conda-meta").glob("*.json"):
        file.write_text(file.read_text().replace("file://", "https://example.org"))
    assert check(made, "12.6", None)["nvJitLink"]["step"] == words


def test_an_environment_of_ours_gets_the_nvjitlink_of_its_toolkit_with_its_own_line(
    made: Made, tmp_path: Path
) -> None:
    with_newer_nvjitlink(made, tmp_path).noted("cuda-version", "libnvjitlink", "--driver", "12.6")
    found = check(made, "12.6", None)["nvJitLink"]
    assert found["state"] == "problem"
    words = [
        "ctk",
        "env",
        "create",
        "cuda-version",
        "libnvjitlink",
        "--driver",
        "12.6",
        "--prefix",
        str(made.prefix),
    ]
    assert found["step"] == shlex.join(words)


def test_a_glibc_older_than_packages_need_is_found(
    made: Made,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a machine to which the environment was carried."""
    made.toolkit().package("python", "3.12.4", depends=["__glibc >=2.17,<3.0.a0"])
    for name, floor in {"libgcc": "2.35", "libstdcxx": "2.36", "libgomp": "2.35"}.items():
        made.package(name, "12.1.0", depends=[f"__glibc >={floor},<3.0.a0"])
    monkeypatch.setenv("CONDA_OVERRIDE_GLIBC", "2.36")
    assert states(check(made)) == {}
    monkeypatch.setenv("CONDA_OVERRIDE_GLIBC", "2.31")
    found = check(made)
    assert states(found) == {"glibc": "problem"}
    assert (
        found["glibc"]["found"]
        == "libstdcxx 12.1.0 needs glibc 2.36, libgcc 12.1.0 and libgomp 12.1.0 need 2.35, "
        "and CONDA_OVERRIDE_GLIBC states 2.31"
    )


def test_the_glibc_of_a_stated_machine_is_not_that_of_this_one(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.toolkit()
    for name, floor in {"libgcc": "2.9", "libstdcxx": "2.17"}.items():
        made.package(name, "12.1.0", depends=[f"__glibc >={floor},<3.0.a0"])
    found = check(made, "12.6")["glibc"]["found"]
    assert found.startswith("needs 2.17 or newer: this machine has ")
    assert found.endswith(", and that of the stated machine is not known")
    monkeypatch.setenv("CONDA_OVERRIDE_GLIBC", "2.31")
    found = check(made, "12.6")["glibc"]["found"]
    assert found == "CONDA_OVERRIDE_GLIBC states 2.31, which is new enough"


@pytest.mark.parametrize("subdir", ["linux-aarch64", "win-64"])
def test_the_glibc_of_another_machine_is_not_guessed(made: Made, subdir: str) -> None:
    made.package("app", subdir=subdir, depends=["__glibc >=2.99"])
    assert states(check(made)) == {}


@pytest.mark.parametrize(
    "damage", ["missing", "of another size", "of other bytes", "a folder", "a link to nowhere"]
)
def test_a_file_that_is_not_as_it_was_installed_is_found(made: Made, damage: str) -> None:
    (made.prefix / "share").mkdir()
    file = made.prefix / "share" / "file"
    file.write_bytes(b"right")
    entry = {
        "_path": "share/file",
        "sha256": hashlib.sha256(b"right").hexdigest(),
        "size_in_bytes": 5,
    }
    made.toolkit().package("other", paths_data={"paths": [entry]})
    assert states(check(made)) == {}
    file.unlink()
    if damage.startswith("of"):
        file.write_bytes(b"wrong" if "bytes" in damage else b"righ")
    elif damage == "a folder":
        file.mkdir()
    elif damage == "a link to nowhere":
        file.symlink_to("nowhere")
    found = check(made)
    assert states(found) == {"files": "problem"} and "other: share/file" in found["files"]["found"]
    assert found["files"]["step"].endswith("--force-reinstall other")


def test_a_file_of_several_packages_is_right_if_it_is_that_of_one(made: Made) -> None:
    """conda warns of such files, and installs one of them."""
    (made.prefix / "share").mkdir()
    for name in ("one", "two"):
        entry = {"_path": "share/file", "sha256": hashlib.sha256(name.encode()).hexdigest()}
        made.package(name, paths_data={"paths": [entry]}, files=["share/file"])
    file = made.prefix / "share" / "file"
    for name in ("one", "two"):
        file.write_text(name)
        assert states(check(made)) == {}
    file.write_text("three")
    found = check(made)["files"]["found"]
    assert found.endswith("as they were installed: one: share/file and two: share/file")


def test_a_record_of_conda_on_windows_is_read(made: Made) -> None:
    """conda names its mark .nonadmin among the files of a package; conda-pack leaves it out."""
    site = made.prefix / "Lib" / "site-packages"
    files = ["Lib/site-packages/tool.py", "Scripts/tool.exe", "Scripts/more.py", ".nonadmin"]
    for file in files[:3]:
        (made.prefix / file).parent.mkdir(parents=True, exist_ok=True)
        (made.prefix / file).write_text("right")
    sha256 = hashlib.sha256(b"right").hexdigest()
    entries = [
        {"_path": "site-packages/tool.py", "path_type": "hardlink", "sha256": sha256},
        {"_path": "python-scripts/more.py", "path_type": "hardlink", "sha256": sha256},
        {"_path": "Scripts/tool.exe", "path_type": "windows_python_entry_point_exe"},
    ]
    made.package("tool", noarch="python", files=files, paths_data={"paths": entries})
    assert states(check(made)) == {}
    (site / "tool.py").write_text("wrong")
    assert check(made)["files"]["found"].endswith("installed: tool: Lib/site-packages/tool.py")


def test_an_environment_that_was_moved_is_found_by_its_programs(made: Made) -> None:
    (made.toolkit().prefix / "bin").mkdir(exist_ok=True)
    (script := made.prefix / "bin" / "pip").write_text(f"#!{sys.executable}\n")
    made.package("pip", files=["bin/pip"])
    assert states(check(made)) == {}
    old = made.prefix.with_name("old")
    script.write_text(f"#!{old}/bin/python3.11\n")
    found = check(made)["files"]
    assert (
        found["found"]
        == f"it was moved or copied: programs in it start the Python of {old}: bin/pip"
    )
    assert shlex.split(found["step"]) == ["mv", str(made.prefix), str(old)]
    (old / "conda-meta").mkdir(parents=True)  # another environment has that place now
    assert check(made)["files"]["step"] == "create it again in a new folder"


def test_a_run_that_was_stopped_is_found_with_the_command_to_type_again(made: Made) -> None:
    note = {"packages": [], "asked": ["cuda-core", "--driver", "13.0"], "stamp": ""}
    (made.toolkit().prefix / "conda-meta" / "ctk").write_text(json.dumps(note))
    found = check(made)
    assert states(found) == {"files": "problem"}
    assert shlex.split(found["files"]["step"])[:6] == [
        "ctk",
        "env",
        "create",
        "cuda-core",
        "--driver",
        "13.0",
    ]
    (made.prefix / "conda-meta" / "ctk").write_text(json.dumps({**note, "stamp": "1"}))
    assert states(check(made)) == {}


@pytest.mark.parametrize(
    ("asked", "step"),
    [
        (["cuda-core"], "ctk env create cuda-core --driver 13.0 --arch 9.0 --prefix"),
        (
            ["--driver", "13.4", "cuda-core"],
            "ctk env create cuda-core --driver 13.0 --arch 9.0 --prefix",
        ),
        # The same request would give the same again.
        (["cuda-core", "cuda-version=13.4"], "ctk env add"),
    ],
)
def test_an_environment_of_ctk_is_fixed_by_ctk(made: Made, asked: list[str], step: str) -> None:
    made.toolkit("13.4", "compat_0")
    made.noted(*asked)
    assert check(made, "13.0", "9.0")["native toolkit"]["step"].startswith(step)


@pytest.mark.parametrize(
    ("driver", "arch", "said", "step"),
    [
        (
            "none",
            None,
            "no driver, and cuda-version 12.6 needs __cuda >=12.6; made for driver 13.0, GPU 9.0",
            "to check for that",
        ),
        (
            "12.4",
            "7.0",
            (
                "it supports CUDA 12.4, and cuda-version 12.6 needs __cuda >=12.6; made for driver"
                " 13.0"
            ),
            "ctk",
        ),
        ("12.6", "9.0", "it supports CUDA 12.6; made for driver 13.0, GPU 9.0", ""),
        ("13.0", "9.0", "it supports CUDA 13.0", ""),
    ],
)
def test_the_machine_that_it_was_made_for_is_said_beside_this_one(
    made: Made, driver: str, arch: str | None, said: str, step: str
) -> None:
    asked = ["cuda-core", "--driver", "13.0", "--arch", "9.0"]
    note = {
        "packages": list(Installed.read(made.toolkit().prefix).packages),
        "asked": asked,
        "stamp": "1",
    }
    (made.prefix / "conda-meta" / "ctk").write_text(json.dumps(note))
    found = check(made, driver, arch)["driver"]
    assert found["found"].startswith(said) and ("made for" in found["found"]) is (
        "made for" in said
    )
    assert found["step"].startswith(step)
    if driver == "none":
        assert (
            found["step"]
            == f"to check for that machine: `ctk doctor '{made.prefix}' --driver 13.0 --arch 9.0`"
        )


CREATE = "ctk env create cuda-nvrtc --python 3.13 --driver 12.4 --arch 7.0 --prefix"


@pytest.mark.parametrize(
    ("asked", "first", "step"),
    [
        ("cuda-nvrtc --python 3.13 --driver 13.0 --arch 9.0", ">=12.9,<13", CREATE),
        # No toolkit is between.
        ("", ">=12.9,<13", "update the driver to one for CUDA 12.9 or newer"),
        ("cuda-gdb", ">=12.9,<13", "update the driver to one for CUDA 12.9 or newer"),
        ("", ">=13.0", "make another environment: "),  # no driver does
    ],
)
def test_a_newer_driver_is_offered_only_if_something_can_be_installed_with_it(
    made: Made, tmp_path: Path, asked: str, first: str, step: str
) -> None:
    """cuda-gdb is there for few toolkits.

    Of what was asked for, it may not be needed with another one.
    """
    both = [
        record
        for on in (first, ">=13.0,<14")
        for record in pair("cuda-gdb", on[2:6], "h", "linux-64", on)
    ]
    places = [
        write(tmp_path / "channel", iter([*channel(), *both])),
        write(tmp_path / "base", base()),
    ]
    pick = Catalogue(places, "linux-64").pick(
        Scenario(("cuda-nvrtc", "cuda-gdb", "python"), "linux-64", "13.0", "9.0")
    )
    assert pick
    for r in pick.records:
        rules = {"depends": [*map(str, r.depends)], "constrains": [*map(str, r.constrains)]}
        made.package(
            r.name.normalized, str(r.version), str(r.build), channel=str(r.channel), **rules
        )
    note = {
        "packages": list(Installed.read(made.prefix).packages),
        "asked": asked.split(),
        "stamp": "1",
    }
    (made.prefix / "conda-meta" / "ctk").write_text(json.dumps(note))
    found = check(made, "12.4", "7.0")
    assert set(states(found)) == {DRIVER, TOOLKIT, GPU}
    assert all(
        found[name]["step"].startswith(step) and ", or " not in found[name]["step"]
        for name in (DRIVER, GPU)
    )


NVRTC = ("nvidia_cuda_nvrtc_cu12", "12.6.77", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12,sha256=x,1\n")


def test_libraries_of_wheels_beside_condas_are_found_and_without_condas_they_are_in_order(
    made: Made,
) -> None:
    made.package("numpy").wheel(*NVRTC)
    assert states(check(made)) == {}
    made.toolkit().package("pip").wheel("nvidia_ml_py", "13.0", "pynvml.py,sha256=x,1\n")
    made.wheel("requests", "2.0", "requests/__init__.py,,\n")
    found = check(made)
    assert states(found) == {"wheels of pip": "problem"}
    assert "nvidia-cuda-nvrtc-cu12 12.6.77" in found["wheels of pip"]["found"]
    step = found["wheels of pip"]["step"]
    assert shlex.split(step)[:6] == ["ctk", "env", "run", str(made.prefix), "--", "python"]
    assert step.endswith("pip uninstall --yes nvidia-cuda-nvrtc-cu12")
    (made.prefix / "conda-meta" / "pip-1.0-0.json").unlink()
    assert check(made)["wheels of pip"]["step"] == f"conda install -p '{made.prefix}' pip && {step}"


@pytest.mark.parametrize(
    ("wheel", "version", "said", "name"),
    [
        ("jaxlib", "0.10.2", "jaxlib 0.10.2", "jaxlib"),
        (
            "cupy_cuda12x",
            "14.2.0",
            "cupy-cuda12x 14.2.0 for CUDA 12, but the toolkit is 13.0",
            "cupy",
        ),
    ],
)
def test_a_project_of_pip_without_libraries_is_a_note_and_not_in_the_way_of_conda(
    made: Made, wheel: str, version: str, said: str, name: str
) -> None:
    made.toolkit("13.0", "native_100").wheel(wheel, version, f"{name}/__init__.py,,\n")
    found = check(made, "13.0")
    assert states(found) == {"CUDA projects of pip": "note"}
    assert found["CUDA projects of pip"]["found"] == f"without NVIDIA's libraries: {said}"
    step = f"`ctk solve {name} --prefix '{made.prefix}'`"
    assert found["CUDA projects of pip"]["step"].startswith(step)


@pytest.mark.parametrize("version", ["12.9.4", "12.9.3"])
def test_a_project_that_pip_put_in_condas_place_is_found(made: Made, version: str) -> None:
    """Also the same version: its files then differ from conda's record."""
    info = f"{SITE}/cuda_bindings-12.9.4.dist-info"
    paths = [{"_path": f"{info}/INSTALLER", "sha256": hashlib.sha256(b"conda\n").hexdigest()}]
    made.toolkit()
    made.package("cuda-bindings", "12.9.4", "cuda12_py312_native_h1_0", paths_data={"paths": paths})
    made.wheel("cuda_bindings", version)
    found = check(made)
    assert states(found) == {"wheels of pip": "problem", "files": "note"}
    assert found["files"]["found"] == "pip replaced those of cuda-bindings"
    assert found["files"]["step"].startswith("if you did not mean that, let pip uninstall them")
    assert found["wheels of pip"]["step"].endswith("--force-reinstall cuda-bindings")
    # `ctk env create` alone repairs what it made, whatever was asked for.
    asked = ["cuda-core", "cuda-version=12.6"]
    made.noted(*asked)
    found = check(made)
    steps = [shlex.split(found[name]["step"]) for name in ("files", "wheels of pip")]
    assert steps == [["ctk", "env", "create", *asked, "--prefix", str(made.prefix)]] * 2


WHEEL = ("nvidia_cuda_nvrtc", "13.5.37", "nvidia/cu13/lib/libnvrtc.so.13,sha256=x,1\n")


def beside(
    made: Made, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, str]:
    """A folder of modules that an environment's Python searches first, and the command that
    prevents it.
    """
    if place == "PYTHONPATH":
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'more'}{os.pathsep}")
        return tmp_path / "more", "unset PYTHONPATH"
    return tmp_path / "user" / SITE, "export PYTHONNOUSERSITE=1"


@pytest.mark.parametrize("place", ["user site", "PYTHONPATH"])
def test_a_wheel_beside_the_environment_that_comes_before_its_own_library_is_found(
    made: Made, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made.prefix / SITE).mkdir(parents=True)
    made.toolkit("13.0", "native_100")
    (made.prefix / "lib" / "libnvrtc.so.13").touch()
    library = {"paths": [{"_path": "lib/libnvrtc.so.13"}]}
    made.package("cuda-nvrtc-files", "13.0.88", paths_data=library)
    site, step = beside(made, place, tmp_path, monkeypatch)
    assert states(check(made, "13.0")) == {}
    made.wheel(*WHEEL, site=site)
    found = check(made, "13.0")
    assert states(found) == {"wheels of pip": "problem"}
    said = found["wheels of pip"]["found"]
    assert f"nvidia-cuda-nvrtc 13.5.37 in {site}, in place of cuda-nvrtc-files 13.0.88" in said
    assert found["wheels of pip"]["step"] == step


def test_the_users_wheels_are_not_read_where_python_does_not(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.toolkit("13.0", "native_100").wheel(*WHEEL, site=tmp_path / "user" / SITE)
    assert states(check(made, "13.0")) == {"wheels of pip": "problem"}
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")
    assert states(check(made, "13.0")) == {}


@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "CUDA_PATH", "CUDA_HOME"])
def test_a_variable_that_leads_out_of_the_environment_is_found(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    made.toolkit("13.0", "native_100")
    for folder in (tmp_path / "elsewhere", made.prefix / "lib"):
        folder.mkdir()
        (folder / "libnvrtc.so.13").write_text("")
    monkeypatch.setenv(name, str(made.prefix / "lib"))
    assert states(check(made, "13.0")) == {}
    monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    found = check(made, "13.0")
    assert states(found) == {"variables": "note"}
    assert str(tmp_path / "elsewhere") in found["variables"]["found"]
    assert found["variables"]["step"] == f"unset {name}"
    (tmp_path / "elsewhere" / "libnvrtc.so.13").unlink()
    assert ("variables" in states(check(made, "13.0"))) is (name != "LD_LIBRARY_PATH")


FORGE = {"name": "cuda-version", "version": "12.6", "build": "h7480c83_3"}  # has one build of it


@pytest.mark.parametrize(
    ("other", "spec", "said"),
    [
        (FORGE, "cuda-version >=12,<13.0a0 native_*", "h7480c83_3"),
        (FORGE, "cuda-version >=12.9,<12.10.0a0", "12.9"),
        ({"name": "numpy", "version": "1.26"}, "numpy >=2", "numpy 1.26"),
        ({"name": "something"}, "numpy >=2", "which is not installed"),
    ],
)
def test_packages_that_disagree_are_found_with_their_channels(
    made: Made, other: dict[str, Any], spec: str, said: str
) -> None:
    made.package(**other, channel="https://user:secret@host/t/tk-secret/conda-forge/linux-64")
    made.package("cuda-core", "1.2", channel="file:///somewhere/.channel-states/3/", depends=[spec])
    found = check(made)["packages agree"]
    assert found["state"] == "problem"
    assert "cuda-core 1.2 0 of channel needs " in found["found"] and said in found["found"]
    assert "secret" not in json.dumps(found)
    assert (
        found["step"].startswith(f"conda install -p '{made.prefix}' -c ")
        and " cuda-core " in found["step"]
    )


def test_a_constraint_counts_only_for_an_installed_package(made: Made) -> None:
    rules = ["numpy <2.5.0a0", "cudatoolkit 12.6.*", "__cuda >=99"]
    made.package("numba-cuda", "0.30", constrains=rules).package("numpy", "2.4")
    assert "packages agree" not in states(check(made))
    (made.prefix / "conda-meta" / "numpy-2.4-0.json").unlink()
    made.package("numpy", "2.5")
    assert states(check(made))["packages agree"] == "problem"


@pytest.mark.parametrize(
    ("spec", "is_met"),
    [
        ("numpy[build_number='>=3']", True),
        ("numpy[build_number=4]", False),
        ("numpy[license=BSD-3-Clause]", True),
        (f"numpy[sha256={'1' * 64}]", True),
        (f"numpy[md5={'2' * 32}]", True),
        ("conda-forge/linux-64::numpy", True),
        ("numpy[track_features=other]", True),  # not known
        ("absent[when='python >=3.99']", True),  # a need on a condition
        ("absent", False),
    ],
)
def test_a_spec_may_ask_for_more_than_a_version(made: Made, spec: str, is_met: bool) -> None:
    more = {"build_number": 3, "license": "BSD-3-Clause", "md5": "2" * 32, "sha256": "1" * 64}
    made.package("numpy", "2.1", "py311_3", **more).package("tool", depends=[spec])
    assert states(check(made)) == ({} if is_met else {"packages agree": "problem"})


def test_conda_adds_pip_to_the_needs_of_python(made: Made) -> None:
    """Another client may remove it again: no package needs it."""
    made.package("python", "3.12.4", depends=["pip", "openssl"]).package("openssl")
    assert states(check(made)) == {}
    made.package("tool", depends=["pip"])
    assert states(check(made)) == {"packages agree": "problem"}


@pytest.mark.parametrize(
    ("record", "channel"),
    [
        ({"channel": "https://u:secret@host/t/tk-secret/ch/linux-64"}, "https://host/ch"),
        (
            {"channel": "ch", "url": "https://host/t/tk-secret/ch/linux-64/a-1.0-0.conda"},
            "https://host/ch",
        ),
        ({"channel": "file:///somewhere/.channel-states/3/"}, "file:///somewhere/channel"),
        ({"channel": "conda-forge"}, "conda-forge"),
    ],
)
def test_what_is_to_be_installed_names_the_channel_of_the_toolkit_first(
    made: Made, record: dict[str, str], channel: str
) -> None:
    made.toolkit("13.4", "compat_0", constrains=["__cuda >=12"], **record)
    for name in ("numpy", "python"):
        made.package(name, channel="https://conda.example.org/conda-forge/noarch")
    step = check(made, "13.0")["native toolkit"]["step"]
    channels = list(dict.fromkeys((channel, "https://conda.example.org/conda-forge")))
    words = shlex.split(step.partition(", or ")[0])
    assert words[:4] == ["conda", "install", "-p", str(made.prefix)]
    assert words[4:-1] == [word for name in channels for word in ("-c", name)]


DRIVER, TOOLKIT, GPU = "driver", "native toolkit", "GPU"


@pytest.mark.parametrize(
    ("version", "build", "driver", "arch", "name", "state", "step"),
    [
        ("12.6", "native_100", "12.6", "9.0", DRIVER, "ok", ""),
        (
            "12.6",
            "native_100",
            "12.4",
            "9.0",
            DRIVER,
            "problem",
            "'cuda-version >=12.0,<=12.4 native_*', or update the driver to",
        ),
        (
            "12.6",
            "native_100",
            "11.8",
            "9.0",
            DRIVER,
            "problem",
            "update the driver to one for CUDA 12.6 or newer",
        ),
        (
            "12.6",
            "native_100",
            "none",
            None,
            DRIVER,
            "note",
            "or for another machine: `ctk doctor ",
        ),
        # It would be native.
        ("13.4", "compat_0", "13.4", "9.0", TOOLKIT, "note", "cuda-version=13.4=native_*"),
        # Error 222.
        (
            "13.4",
            "compat_0",
            "13.0",
            "9.0",
            TOOLKIT,
            "problem",
            "<=13.0 native_*', or update the driver to one for CUDA 13.4",
        ),
        # Conda-forge's.
        (
            "13.4",
            "h1_3",
            "13.0",
            "9.0",
            TOOLKIT,
            "problem",
            "'cuda-version >=12.0,<=13.0', or update",
        ),
        ("13.0", "h1_3", "13.4", "9.0", TOOLKIT, "ok", ""),
        ("13.4", "compat_0", "none", None, TOOLKIT, "ok", ""),
        ("13.0", "native_100", "13.0", "9.0", GPU, "ok", ""),
        # Too old for it.
        (
            "13.0",
            "native_100",
            "13.0",
            "7.0",
            GPU,
            "problem",
            "'cuda-version >=12.0,<=12.9 native_*'",
        ),
        # In a hole of its list.
        (
            "12.9",
            "native_100",
            "13.0",
            "11.0",
            GPU,
            "problem",
            "'cuda-version >=13.0,<=13.0 native_*'",
        ),
        (
            "12.6",
            "native_100",
            "12.6",
            "12.1",
            GPU,
            "note",
            "update the driver to one for CUDA 12.9 or newer",
        ),
        # No toolkit knows it.
        ("12.6", "native_100", "13.5", "3.5", GPU, "note", "a newer driver does not help"),
        ("11.8", "native_100", "12.6", "12.1", GPU, "ok", ""),  # of which nothing is known
    ],
)
def test_a_toolkit_is_compared_with_the_driver_and_the_gpu(
    made: Made,
    version: str,
    build: str,
    driver: str,
    arch: str | None,
    name: str,
    state: str,
    step: str,
) -> None:
    rules = (
        {"depends": [f"__cuda >={version}"]}
        if "native" in build
        else {"constrains": ["__cuda >=12"]}
    )
    found = check(made.toolkit(version, build, **rules), driver, arch)
    not_ok = {} if state == "ok" else {name: state}
    if name == DRIVER and state == "problem":  # a native toolkit needs that driver
        not_ok[TOOLKIT] = "note"
        assert found[TOOLKIT]["found"].endswith(f"which supports CUDA {driver}: see driver")
    assert states(found) == not_ok
    assert step in found[name]["step"]
    # What a newer driver is advised for, a newer driver does.
    if newer := re.search(r"driver to one for CUDA (\S+)", found[name]["step"]):
        better = check(made, newer[1], arch)
        assert (
            states(better).get(name) != "problem" or "update the driver" not in better[name]["step"]
        )
    if version == "13.0" and arch == "7.0":
        assert "update the driver" not in found[name]["step"], (
            "no driver makes it know an older GPU"
        )


def test_the_gpu_is_not_in_order_where_programs_do_not_see_it(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line said that the GPU was hidden, and the next that it was in order."""
    seen = Answer(version="13.0", function="cuInit", code=100, error=NO_DEVICE)
    works = Answer(version="13.0", gpus=("9.0",))
    hidden = DriverState(Limit.VARIABLE, seen, Change("CUDA_VISIBLE_DEVICES", "", None), works)
    broken = DriverState(Limit.SILENT, Answer(is_silent=True))
    for state, gpu, driver_is in (
        (hidden, "compute capability 9.0", "note"),
        (broken, "no driver detected", "problem"),
    ):
        arch = "9.0" if state is hidden else None
        words = "driver 13.0 detected, GPU 9.0 detected" if arch else "no driver detected"
        on = Machine("linux-64", arch and "13.0", arch, words, unseen=state)
        monkeypatch.setattr(environment, "machine", lambda *stated, on=on: on)
        found = check(made.toolkit("13.0", "native_100"))
        assert states(found) == {DRIVER: driver_is, GPU: "note"}
        assert found[GPU]["found"] == f"{gpu}, and programs see no GPU: see driver"
        assert found[GPU]["step"] == found[DRIVER]["step"]


LYING = (
    b"",
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"name": "../../x", "version": "1", "build": "0"}',
    b'{"name": "x\\u001b[31m", "version": "1", "build": "0"}',
    b'{"name": "x", "version": "not a version", "build": "0"}',
)
ODD = (
    b'{"name": "x", "version": "1", "build": "0", "paths_data": {"paths": [1]}}',
    b'{"name": "x", "version": "1", "build": "0", "depends": ["' + b"y" * 10_000 + b'"]}',
)


@pytest.mark.parametrize("text", LYING, ids=range(len(LYING)))
def test_a_record_that_lies_is_a_finding_with_its_name(made: Made, text: bytes) -> None:
    found = check(made.toolkit().record("x-1-0.json", text))
    assert states(found) == {"records": "problem"}
    if b"../" in text:
        assert "x-1-0.json names ../../x-1-0: a file cannot" in found["records"]["found"]
        assert found["records"]["step"] == NEW_FOLDER
    else:
        assert found["records"]["found"] == "no records: x-1-0.json"
        assert found["records"]["step"].endswith("--force-reinstall x")


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_a_record_of_a_package_is_not_removed_because_it_is_odd(made: Made, text: bytes) -> None:
    """A client may understand it."""
    found = check(made.toolkit().record("x-1-0.json", text))
    assert states(found) == {"records": "note"}
    assert found["records"]["found"] == "not understood here: x-1-0.json"
    place = shlex.quote(str(made.prefix))
    assert found["records"]["step"] == f"see if conda lists them: `conda list -p {place}`"


def test_what_is_no_file_and_what_is_no_spec_hold_nothing_up(made: Made) -> None:
    os.mkfifo(made.prefix / "conda-meta" / "fifo-1-0.json")
    (made.prefix / "conda-meta" / "zero-1-0.json").symlink_to("/dev/zero")
    (made.prefix / "conda-meta" / "loop-1-0.json").symlink_to("loop-1-0.json")
    (made.prefix / SITE / "nvidia_x-1.dist-info").mkdir(parents=True)
    os.mkfifo(made.prefix / SITE / "nvidia_x-1.dist-info" / "RECORD")
    made.package(
        "odd", depends=["", "[[", "x" * 900, ">=1", "odd >>=", "cuda-version <<<"]
    ).toolkit("12.6", "h1_0")
    found = check(made)
    assert found["records"]["found"] == "no records: fifo-1-0.json, loop-1-0.json and zero-1-0.json"


def test_in_words_each_finding_has_what_why_and_a_step(made: Made) -> None:
    made.toolkit("13.4", "compat_0")
    done = ctk(Workspace(ROOT), "doctor", str(made.prefix), "--driver", "13.0")
    assert done.returncode == errors.NotReady.exit_code
    text = " ".join(done.stdout.split())
    said = (
        "problem native toolkit toolkit 13.4 compat is newer than the driver, which supports CUDA"
        " 13.0 why: A driver"
    )
    assert said in text and "to do: conda install -p" in text
    assert done.stderr.startswith("error: 1 problem in ")
    assert "nothing is wrong with" not in done.stdout
    quiet = ctk(Workspace(ROOT), "doctor", str(made.prefix), "--driver", "13.4", "-q")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert "nothing is wrong with" in quiet.stdout
