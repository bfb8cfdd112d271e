"""`ctk env add` and `ctk solve --prefix`, with the real commands and tiny packages: what stays, and
what is refused.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, Busy, NotReady, Unsolvable, WouldLose
from ctk.core.platforms import this_platform
from ctk.env.environment import create
from ctk.env.prefix import LOCK, NOTE, Installed, Note
from ctk.env.request import client_of, merged, specs_in_history, with_more
from ctk.env.terms import Terms
from ctk.solve.solve import Scenario, solve
from kit import packs
from kit.packages import Draft
from kit.packs import checkout
from kit.tiny_packages import pure, tiny, write_channel

pytestmark = pytest.mark.skipif(
    this_platform() != "linux-64", reason="the tiny packages are for linux-64"
)

MACHINE = ("--driver", "13.0")
LIBRARY = "share/library"


def toolkit(version: str) -> Iterator[Draft]:
    """Both builds of a toolkit, and a compiler that is tied to it."""
    tracked = {"track_features": "cuda-version-p-0"}
    major, minor = version.split(".")
    on = f"cuda-version >={version},<{major}.{int(minor) + 1}.0a0"
    yield Draft("cuda-version", version, "native_100", "noarch", depends=(f"__cuda >={version}",))
    yield Draft("cuda-version", version, "compat_0", "noarch", index=tracked)
    yield Draft("nvrtc", f"{version}.9", "native_h0_100", depends=(f"{on} native_*",))
    yield Draft(
        "nvrtc", f"{version}.9", "with_compat_h0_0", depends=(f"{on} compat_*",), index=tracked
    )


def library(version: str) -> Draft:
    return tiny("library", version, files={LIBRARY: version.encode()})


def drafts() -> list[Draft]:
    cpu = Draft("torch", "2.0", "cpu_0")
    cuda = Draft("torch", "2.0", "cuda_1", depends=("cuda-version >=12",))
    return [
        *(draft for version in ("12.9", "13.0", "13.4") for draft in toolkit(version)),
        *(cpu, cuda, tiny("no-gpu", index={"constrains": ["torch * cpu*"]})),
        tiny("core", depends=("nvrtc", "library")),
        tiny("more", depends=("library",), files={"share/more": b"more"}),
        tiny("for-129", depends=("cuda-version >=12.9,<12.10.0a0",)),
        tiny("either", "1.0"),
        tiny("either", "2.0", depends=("cuda-version >=13.4,<13.5.0a0",)),
        tiny("for-134", depends=("cuda-version >=13.4,<13.5.0a0",)),
        library("1.0"),
        pure(),
    ]


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return checkout(tmp_path_factory.mktemp("c"), *drafts())


@pytest.fixture
def prefix(where: Workspace, tmp_path: Path) -> Path:
    """An environment of toolkit 13.0 native."""
    packs.create(where, tmp_path / "env", "core", *MACHINE)
    return tmp_path / "env"


def versions(prefix: Path) -> dict[str, str]:
    """Package -> version and build."""
    return {
        r["name"]: f"{r['version']} {r['build']}" for r in Installed.read(prefix).records.values()
    }


def tree(prefix: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(prefix)): p.read_bytes()
        for p in prefix.rglob("*")
        if p.is_file() and p.name != LOCK.name
    }


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def step_of(done: subprocess.CompletedProcess[str]) -> str:
    """The first command of a next step."""
    (step,) = re.findall(r"^next: .*?`([^`]+)`", done.stderr, re.M)
    return str(step)


def is_sound(where: Workspace, prefix: Path) -> bool:
    return ctk(where, "doctor", str(prefix), *MACHINE).returncode == 0


def test_the_toolkit_and_the_request_stay_and_the_request_is_the_whole_one(
    where: Workspace, prefix: Path
) -> None:
    before = versions(prefix)
    assert before["cuda-version"] == "13.0 native_100"
    done = ctk(where, "env", "add", str(prefix), "more", "pure", check=True)
    assert done.stdout.splitlines()[1] == f"changed: {prefix}"
    after = versions(prefix)
    assert after.items() >= before.items() and {"more", "pure", "python"} <= after.keys()
    note = Note.read(prefix)
    base = ("--base", str(where.root / "base"))
    assert note and note.asked == ("core", "more", "pure", *MACHINE, *base)
    *_, specs = (prefix / "conda-meta" / "history").read_text().splitlines()
    assert literal_eval(specs.removeprefix("# update specs: ")) == ["core", "more", "pure"]
    assert is_sound(where, prefix)
    assert "\nunchanged: " in ctk(where, "env", "add", str(prefix), "more", check=True).stdout
    again = ctk(where, *shlex.split(note.again(prefix))[1:], check=True)
    assert "unchanged: " in again.stdout, "the request alone gives what is there"
    bytecode = list(prefix.rglob("__pycache__/pure.*.pyc"))
    assert bytecode, "as `ctk env create` compiles it"


def test_an_older_version_is_taken_before_another_toolkit(where: Workspace, prefix: Path) -> None:
    """The newest would need another one."""
    ctk(where, "env", "add", str(prefix), "either", check=True)
    found = versions(prefix)
    assert (found["either"], found["cuda-version"]) == ("1.0 0", "13.0 native_100")


def test_what_is_there_as_a_dependency_is_asked_for_from_then_on(
    where: Workspace, prefix: Path
) -> None:
    """A later request would take it away without a question."""
    done = ctk(where, "env", "add", str(prefix), "library", check=True)
    assert f"\nunchanged: {prefix}\n" in done.stdout
    note = Note.read(prefix)
    assert note and note.specs == ("core", "library") and is_sound(where, prefix)
    *_, specs = (prefix / "conda-meta" / "history").read_text().splitlines()
    assert specs == "# update specs: ['core', 'library']"


@pytest.mark.parametrize(
    ("spec", "more", "then", "kinds", "said"),
    [
        (
            "for-129",
            (),
            "12.9 native",
            ["toolkit-older"],
            "the toolkit would change: 13.0 native becomes 12.9 native",
        ),
        (
            "for-134",
            (),
            "13.4 compat",
            ["native-to-compat", "toolkit-newer"],
            "the toolkit would get worse: 13.0 native becomes 13.4 compat",
        ),
        (
            "cuda-version=12.9",
            (),
            "12.9 native",
            ["toolkit-older"],
            "cuda-version=12.9 and cuda-version=13.0=native_* contradict each other",
        ),
        (
            "more",
            ("--driver", "12.9"),
            "12.9 native",
            ["toolkit-older"],
            (
                "cuda-version=13.0=native_* needs a driver for CUDA 13.0 or newer; this one"
                " supports 12.9"
            ),
        ),
    ],
)
def test_another_toolkit_is_refused_with_the_reason_but_with_move(
    where: Workspace,
    prefix: Path,
    spec: str,
    more: tuple[str, ...],
    then: str,
    kinds: list[str],
    said: str,
) -> None:
    before = tree(prefix)
    refused = ctk(where, "env", "add", str(prefix), spec, *more)
    assert refused.returncode == WouldLose.exit_code, refused.stderr
    assert said in refused.stderr and f"becomes {then}" in refused.stderr
    assert tree(prefix) == before
    found = document(ctk(where, "env", "add", str(prefix), spec, *more, "--json"))
    assert [one["kind"] for one in found["worse"]] == kinds and found["error"][
        "kind"
    ] == "WouldLose"
    shown = document(
        ctk(where, "solve", spec, "--prefix", str(prefix), *more, "--json", check=True)
    )
    assert (shown["worse"], f"{shown['toolkit']} {shown['fit']}") == (found["worse"], then)
    step = step_of(refused)
    assert shown["steps"] == [step] and step.endswith(" --move")
    ctk(where, *shlex.split(step)[1:], check=True)
    version, build = versions(prefix)["cuda-version"].split()
    assert f"{version} {build.partition('_')[0]}" == then
    note = Note.read(prefix)
    assert note and note.specs == ("core", spec)
    assert note.machine == {"--driver": more[1] if more else "13.0"}
    assert ctk(where, "doctor", str(prefix), "--driver", "13.4").returncode == 0


def test_a_cuda_build_that_would_become_a_cpu_build_is_refused(
    where: Workspace, prefix: Path
) -> None:
    ctk(where, "env", "add", str(prefix), "torch=2.0=cuda*", check=True)
    note = Note.read(prefix)
    assert note
    # An earlier request did not name the build.
    Note(
        note.packages,
        tuple("torch" if word == "torch=2.0=cuda*" else word for word in note.asked),
        note.stamp,
    ).write(prefix)
    done = ctk(where, "env", "add", str(prefix), "no-gpu")
    assert done.returncode == WouldLose.exit_code
    assert "the CUDA build of torch would become a CPU build: cuda_1 becomes cpu_0" in done.stderr
    assert versions(prefix)["torch"] == "2.0 cuda_1"
    ctk(where, "env", "add", str(prefix), "no-gpu", "--move", check=True)
    assert versions(prefix)["torch"] == "2.0 cpu_0"


@pytest.mark.parametrize("gone", [False, True])
def test_a_package_stays_as_it_is_beside_a_newer_one_also_if_the_channel_lost_it(
    tmp_path: Path, gone: bool
) -> None:
    made = checkout(tmp_path / "c", *drafts())
    packs.create(made, tmp_path / "env", "core", *MACHINE)
    others = [draft for draft in drafts() if draft.name != "library"]
    if gone:
        for file in made.channel.glob("*/library-1.0-*.conda"):
            file.unlink()
    write_channel(made.channel, [*others, library("2.0"), *([] if gone else [library("1.0")])])
    ctk(made, "env", "add", str(tmp_path / "env"), "more", check=True)
    assert versions(tmp_path / "env")["library"] == "1.0 0"
    assert (tmp_path / "env" / LIBRARY).read_bytes() == b"1.0"
    assert is_sound(made, tmp_path / "env")
    ctk(made, "env", "add", str(tmp_path / "env"), "library=2.0", check=True)
    assert (tmp_path / "env" / LIBRARY).read_bytes() == b"2.0"


def test_a_request_without_any_solution_says_so(where: Workspace, prefix: Path) -> None:
    before = tree(prefix)
    for spec, error in (("no-such", Unsolvable), ("more==", BadValue)):
        done = ctk(where, "env", "add", str(prefix), spec)
        assert done.returncode == error.exit_code, done.stderr
        assert tree(prefix) == before


def test_a_run_that_was_stopped_is_finished_by_the_same_line_and_by_no_other(
    where: Workspace, prefix: Path
) -> None:
    ctk(where, "env", "add", str(prefix), "more", check=True)
    note = Note.read(prefix)
    assert note
    # The run was stopped before it linked the last package.
    Note(note.packages, note.asked).write(prefix)
    (prefix / "conda-meta" / "more-1.0-0.json").write_text("{")
    (prefix / "share" / "more").unlink()
    other = ctk(where, "env", "add", str(prefix), "pure")
    assert other.returncode == BadValue.exit_code and "is incomplete" in other.stderr
    assert step_of(other) == note.again(prefix)
    assert ctk(where, "solve", "pure", "--prefix", str(prefix)).returncode == BadValue.exit_code
    ctk(where, "env", "add", str(prefix), "more", check=True)
    assert (prefix / "share" / "more").read_bytes() == b"more"
    assert is_sound(where, prefix) and versions(prefix)["cuda-version"] == "13.0 native_100"


def test_a_plan_for_packages_that_another_run_has_changed_is_not_carried_out(
    where: Workspace, prefix: Path
) -> None:
    """Two at once: the second would remove what the first has added."""
    channels = [where.channel, where.root / "base"]
    pick = solve(Scenario(("core", "more"), "linux-64", "13.0"), channels)
    before = Installed.read(prefix).packages.keys()
    ctk(where, "env", "add", str(prefix), "pure", check=True)
    with pytest.raises(Busy, match="another run has just changed"):
        create(
            pick,
            prefix,
            where.packages,
            asked=("core", "more"),
            terms=Terms(yes=True, since=before),
        )
    assert "pure" in versions(prefix) and is_sound(where, prefix)


def test_two_runs_at_once_lose_nothing_that_one_of_them_has_promised(
    where: Workspace, prefix: Path
) -> None:
    program = [sys.executable, "-c", "from ctk.cli.main import main; main()"]
    specs = ["more", "pure", "torch=2.0=cuda*"]
    runs = [
        subprocess.Popen(
            [*program, "env", "add", str(prefix), spec],
            env={**os.environ, "CTK_ROOT": str(where.root)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for spec in specs
    ]
    codes = [run.wait() for run in runs]
    # A run that begins while another one is at work finds the environment half made.
    assert set(codes) <= {0, Busy.exit_code, BadValue.exit_code} and 0 in codes
    promised = {
        spec.partition("=")[0] for spec, code in zip(specs, codes, strict=True) if code == 0
    }
    assert promised <= versions(prefix).keys() and is_sound(where, prefix)


# --- environments of others, and such as cannot be read


def of_client(prefix: Path, client: str = "conda") -> Path:
    """The environment as if a client had made it."""
    (prefix / NOTE).unlink()
    history = (
        f"==> 2026-11-29 10:00:00 <==\n# cmd: /usr/bin/{client} create\n# update specs: ['core']\n"
    )
    (prefix / "conda-meta" / "history").write_text(history)
    return prefix


@pytest.mark.parametrize("client", ["conda", "mamba"])
def test_an_environment_of_a_client_is_refused_with_its_line_and_can_be_looked_at(
    where: Workspace, prefix: Path, client: str
) -> None:
    before = tree(of_client(prefix, client))
    done = ctk(where, "env", "add", str(prefix), "more", CONDA_OVERRIDE_CUDA="13.0")
    assert done.returncode == BadValue.exit_code
    channels = [
        word for place in (where.channel, where.root / "base") for word in ("-c", place.as_uri())
    ]
    pin = "cuda-version=13.0=native_*"
    line = shlex.join([client, "install", "-p", str(prefix), *channels[:2], "more", pin])
    assert step_of(done) == line
    shown = document(
        ctk(where, "solve", "more", "--prefix", str(prefix), "--json", CONDA_OVERRIDE_CUDA="13.0")
    )
    assert [package["name"] for package in shown["added"]] == ["more"]
    assert (shown["removed"], shown["replaced"], shown["worse"], shown["steps"]) == (
        [],
        [],
        [],
        [line],
    )
    assert tree(prefix) == before


def test_the_line_states_the_driver_where_none_is(where: Workspace, prefix: Path) -> None:
    """conda would take a native toolkit away where it sees no driver."""
    done = ctk(where, "env", "add", str(of_client(prefix)), "more", CONDA_OVERRIDE_CUDA="12.9")
    assert step_of(done).startswith("conda install"), "the variable is set, and states the machine"
    done = ctk(
        where,
        "solve",
        "more",
        "--prefix",
        str(prefix),
        "--driver",
        "13.0",
        "--json",
        CONDA_OVERRIDE_CUDA="",
    )
    assert document(done)["steps"][0].startswith("CONDA_OVERRIDE_CUDA=13.0 conda install ")


def test_what_nothing_needs_and_nobody_asked_for_stays_in_an_environment_of_a_client(
    where: Workspace, prefix: Path
) -> None:
    ctk(where, "env", "add", str(prefix), "torch=2.0=cuda*", check=True)
    of_client(prefix)
    shown = document(
        ctk(where, "solve", "more", "--prefix", str(prefix), *MACHINE, "--json", check=True)
    )
    assert (shown["removed"], [package["name"] for package in shown["added"]]) == ([], ["more"])


def test_a_newer_one_of_what_is_asked_for_again_is_named_with_the_line_that_takes_it(
    tmp_path: Path,
) -> None:
    """It was `unchanged`, and nothing more."""
    made, place = checkout(tmp_path / "c", *drafts()), str(tmp_path / "env")
    packs.create(made, tmp_path / "env", "library", "more", *MACHINE)
    assert "a newer library" not in ctk(made, "env", "add", place, "library", check=True).stdout
    write_channel(made.channel, [*drafts(), library("2.0")])
    said = "it keeps what it has; the channels have a newer library 2.0 0 (not 1.0 0)\n"
    assert said in ctk(made, "solve", "library", "--prefix", place, check=True).stdout
    added = ctk(made, "env", "add", place, "library", check=True).stdout
    assert f"unchanged: {place}\n" in added and said in added
    assert "a newer library" not in ctk(made, "env", "add", place, "more", check=True).stdout
    (line,) = re.findall("^to update all packages: ctk (.*)", added, re.M)
    assert shlex.split(line)[:4] == ["env", "create", "library", "more"]
    ctk(made, *shlex.split(line), check=True)
    assert versions(tmp_path / "env").keys() >= {"library", "more"}
    assert versions(tmp_path / "env")["library"] == "2.0 0"


def test_what_is_there_already_needs_no_step(where: Workspace, prefix: Path) -> None:
    done = ctk(where, "solve", "core", "--prefix", str(prefix), check=True)
    assert done.stdout.endswith("\nnothing would change: it has all of this\n")
    assert document(ctk(where, "solve", "core", "--prefix", str(prefix), "--json"))["steps"] == []


def test_an_environment_that_cannot_be_changed_safely_is_refused(
    where: Workspace, prefix: Path
) -> None:
    record = next((prefix / "conda-meta").glob("library-*.json"))
    text = record.read_text()
    for damage, error, said in (
        ("{", NotReady, "has records that cannot be read: library-1.0-0.json"),
        (
            text.replace(LIBRARY, "../../mine"),
            NotReady,
            "could remove or overwrite files that are not of its packages",
        ),
    ):
        record.write_text(damage)
        for words in (
            ("env", "add", str(prefix), "more"),
            ("solve", "more", "--prefix", str(prefix)),
        ):
            done = ctk(where, *words)
            assert done.returncode == error.exit_code and said in done.stderr, done.stderr
    record.write_text(text)
    for file in (prefix / "conda-meta").glob("*.json"):
        file.write_text(file.read_text().replace("linux-64", "linux-aarch64"))
    done = ctk(where, "env", "add", str(prefix), "more")
    assert (
        done.returncode == BadValue.exit_code
        and "is of linux-aarch64, and this machine is linux-64" in done.stderr
    )


def test_the_folder_and_the_specs_in_the_wrong_order_are_answered_with_the_right_one(
    where: Workspace, prefix: Path
) -> None:
    done = ctk(where, "env", "add", "more", str(prefix), "pure")
    assert done.returncode == BadValue.exit_code
    assert step_of(done) == f"ctk env add {prefix} more pure"


# --- what was asked for


def test_a_history_asks_for_the_last_spec_of_each_name() -> None:
    text = """==> 2026-11-29 10:00:00 <==
# cmd: /opt/bin/conda create -n e a b c
# update specs: ['a', "b[version='>=1']", 'c=1', '__cuda']
==> 2026-11-29 11:00:00 <==
# cmd: /opt/bin/mamba install c=2
+https://example.org/linux-64::c-2-0
# update specs: ["c=2"]
# remove specs: ["a"]
==> 2026-11-29 12:00:00 <==
# neutered specs: ['c >=2']
# update specs: ['half of a li
# update specs: ['==']
"""
    assert specs_in_history(text) == ("b[version='>=1']", "c >=2")


def test_the_client_is_the_one_of_the_last_command(tmp_path: Path) -> None:
    (history := tmp_path / "conda-meta" / "history").parent.mkdir()
    assert client_of(tmp_path) == "conda"
    history.write_text(
        "# cmd: /opt/bin/conda create\n# cmd: /opt/micromamba install\n# cmd: ctk env create\n"
    )
    assert client_of(tmp_path) == "micromamba"
    history.write_text("# cmd: /opt/bin/mamba create\n# cmd: /opt/lib/conda/__main__.py install\n")
    assert client_of(tmp_path) == "conda"
    history.write_text("# cmd: /opt/bin/conda create\n# cmd: /opt/bin/mamba install\n")
    assert client_of(tmp_path) == "mamba"
    (tmp_path / "conda-meta" / "pixi").touch()
    assert client_of(tmp_path) == "pixi"


def test_a_spec_takes_the_place_of_its_name_and_a_bare_name_does_not() -> None:
    assert merged(["a", "b=1", "b<2"], ["b", "c"]) == ("a", "b=1", "b<2", "c")
    assert merged(["a", "b=1", "b<2"], ["b=3"]) == ("a", "b=3")


def test_options_of_the_same_name_are_replaced() -> None:
    asked = ["a", "--driver", "13.0", "--arch", "9.0", "--python", "3.12", "--base", "conda-forge"]
    assert with_more(asked, ["b"], []) == ["a", "b", *asked[1:]]
    assert with_more(asked, ["python=3.13"], [("--driver", "12.6")]) == [
        *("a", "python=3.13", "--base", "conda-forge", "--driver", "12.6")
    ]
