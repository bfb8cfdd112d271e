"""docs/environments.md: what files and a new driver give, solved by rattler, and by the clients
that are on PATH.

The clients make real environments, of the built channel's smallest package that follows the driver,
in their default settings: no condarc, each solver that conda has. The page says which versions gave
these answers.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from conftest import NEWEST, ROOT, ctk, program_of
from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.core.platforms import this_platform
from ctk.solve.machine import glibc_of
from ctk.solve.solve import channel_url
from ctk.verify import clients
from kit.doc_clients import Solve, scenario
from kit.doc_pages import Block, blocks, quoted_messages

pytest_plugins = ["docs_fixtures"]

PAGE = blocks(ROOT / "docs" / "environments.md")
FOLLOWS = "cuda-cudart"
"""Small, and of native and compat builds like all of the toolkit."""


def file(name: str) -> Block:
    (found,) = (block for block in PAGE if block.text.startswith(f"# {name}\n"))
    return found


def test_an_environment_file_follows_the_driver(planned_solve: Solve) -> None:
    wanted = YAML(typ="safe").load(file("environment.yml").text)
    assert wanted["channels"] == ["CHANNEL", "conda-forge"]
    specs = tuple(wanted["dependencies"])
    for driver, found in (
        ("12.6", ("12.6", "native")),
        ("13.0", ("13.0", "native")),
        ("", (NEWEST, "compat")),
    ):
        pick = planned_solve(scenario(specs, {"CONDA_OVERRIDE_CUDA": driver}))
        assert (pick.toolkit, pick.fit) == found
    with pytest.raises(Unsolvable, match="__cuda"):
        planned_solve(scenario((*specs, "__cuda"), {"CONDA_OVERRIDE_CUDA": ""}))


def test_conda_lock_needs_the_driver(planned_solve: Solve) -> None:
    """With the driver of the page's file, and with 11.4, which conda-lock 4.0.3 assumes."""
    stated = YAML(typ="safe").load(file("virtual-packages.yml").text)["subdirs"]["linux-64"][
        "packages"
    ]["__cuda"]
    pick = planned_solve(
        scenario(("cuda-core",), {"CONDA_SUBDIR": "linux-64", "CONDA_OVERRIDE_CUDA": stated})
    )
    assert (pick.toolkit, pick.fit) == (stated, "native")
    with pytest.raises(Unsolvable):
        planned_solve(
            scenario(("cuda-core",), {"CONDA_SUBDIR": "linux-64", "CONDA_OVERRIDE_CUDA": "11.4"})
        )


# --- the clients themselves

CONDAS = ("conda", "conda-rattler")
"""By default, and with the solver that is to become the default. classic takes the newest version
of what is named.
"""


@dataclass(frozen=True)
class Client:
    """A client on PATH, at work in a home of its own, in its default settings."""

    name: str
    program: str
    folder: Path
    channels: tuple[str, ...]

    def run(
        self, *words: str, driver: str = "", program: str = ""
    ) -> subprocess.CompletedProcess[str]:
        places = {"CONDA_PKGS_DIRS": "pkgs", "MAMBA_ROOT_PREFIX": "root"}
        own = {name: str(self.folder / place) for name, place in places.items()}
        if solver := self.name.partition("-")[2]:
            own["CONDA_SOLVER"] = solver
        variables = clients.environment(self.folder, CONDA_OVERRIDE_CUDA=driver, **own)
        command = [program or self.program, *words]
        done = subprocess.run(
            command, cwd=self.folder, env=variables, capture_output=True, text=True, check=False
        )
        if (
            done.returncode < 0 and "PyGILState_Release" in done.stderr
        ):  # see `clients.answer`: it had ended its work
            done.returncode = 1 if "Error: " in done.stdout + done.stderr else 0
        return done

    def made(self, *words: str, driver: str = "") -> str:
        """What a command writes that must succeed."""
        done = self.run(*words, driver=driver)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @property
    def is_conda(self) -> bool:
        return self.name.startswith("conda")

    def solving(self, command: str, prefix: str, *specs: str) -> list[str]:
        channels = [word for channel in self.channels for word in ("-c", channel)]
        return [
            command,
            "-y",
            "-p",
            str(self.folder / prefix),
            "--override-channels",
            *channels,
            *specs,
        ]

    def from_file(
        self, prefix: str, file: str, driver: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return self.run(
            "env", "create", "-y", "-p", str(self.folder / prefix), "-f", file, driver=driver
        )

    def write(self, name: str, dependencies: list[str]) -> None:
        YAML().dump(
            {"channels": list(self.channels), "dependencies": dependencies}, self.folder / name
        )

    def exported(self, prefix: str, *options: str) -> dict[str, list[str]]:
        text = self.made("env", "export", "-p", str(self.folder / prefix), *options, driver="13.0")
        found: dict[str, list[str]] = YAML(typ="safe").load(text)
        return found

    def toolkit(self, prefix: str) -> tuple[str, str]:
        (record,) = (self.folder / prefix / "conda-meta").glob("cuda-version-[0-9]*.json")
        found: dict[str, str] = json.loads(record.read_text())
        return found["version"], found["build"].partition("_")[0]


@pytest.fixture(params=[*CONDAS, "mamba", "micromamba"])
def client(
    request: pytest.FixtureRequest, built: Workspace, roomy: Callable[[str], Path]
) -> Client:
    # test_an_environment_file_follows_the_driver holds the picks, by rattler.
    program = program_of(request.param)
    channels = tuple(channel_url(channel) for channel in (built.channel, built.base_channel))
    return Client(request.param, program, roomy(request.param), channels)


def test_a_client_follows_the_driver_from_the_file(client: Client) -> None:
    """Also in the flexible priority that each has by default: nothing else here has these names."""
    shown = client.made("config", *(["--show"] if client.is_conda else ["list", "--all"]))
    assert re.search("channel_priority: flexible", shown)
    for strict in (False, True):
        if strict:
            client.made(
                "config", *(["--set"] if client.is_conda else ["set"]), "channel_priority", "strict"
            )
        client.write("environment.yml", [FOLLOWS])
        for driver, found in (
            ("12.6", ("12.6", "native")),
            ("13.0", ("13.0", "native")),
            ("", (NEWEST, "compat")),
        ):
            made = client.from_file(f"{driver}{strict}", "environment.yml", driver)
            assert made.returncode == 0, made.stderr
            assert client.toolkit(f"{driver}{strict}") == found
        client.write("environment.yml", [FOLLOWS, "__cuda"])
        assert client.from_file("refused", "environment.yml").returncode


def test_after_a_new_driver_a_client_does_what_the_page_says(client: Client) -> None:
    client.made(*client.solving("create", "older", FOLLOWS, "__cuda"), driver="12.6")
    client.made(*client.solving("create", "pinned", FOLLOWS, "cuda-version=12.6"), driver="12.6")
    (client.folder / "pinned" / "conda-meta" / "pinned").write_text("cuda-version 12.6.*\n")
    client.made(*client.solving("create", "none", FOLLOWS))
    found = {name: client.toolkit(name) for name in ("older", "pinned", "none")}
    assert found == {
        "older": ("12.6", "native"),
        "pinned": ("12.6", "native"),
        "none": (NEWEST, "compat"),
    }

    client.made(*client.solving("install", "older", FOLLOWS), driver="13.0")
    assert client.toolkit("older") == (
        "12.6",
        "native",
    ), "an install of what is there changes nothing"
    for name in found:
        client.made(*client.solving("update", name, "--all"), driver="13.0")
    updated = {name: client.toolkit(name) for name in found}
    # conda's updates go up only; mamba takes the native build, though it is of an older toolkit.
    none = {} if client.is_conda else {"none": ("13.0", "native")}
    assert updated == found | {"older": ("13.0", "native")} | none
    older = client.run(*client.solving("update", "older", "--all"), driver="12.6")
    assert (older.returncode != 0) == (client.name == "conda-rattler")
    assert client.toolkit("older") == ("13.0", "native"), "which that driver cannot run"
    client.made(*client.solving("install", "older", "cuda-version=12.6"), driver="12.6")
    assert client.toolkit("older") == ("12.6", "native")


def test_what_a_client_makes_of_each_file(client: Client) -> None:
    client.made(*client.solving("create", "made", FOLLOWS, "__cuda"), driver="13.0")
    here = ("-p", str(client.folder / "made"))
    explicit = (
        ("list", *here, "--explicit", "--sha256")
        if client.is_conda
        else ("env", "export", *here, "--explicit")
    )
    (client.folder / "gpu.txt").write_text(client.made(*explicit))
    client.made("create", "-y", "-p", str(client.folder / "again"), "--file", "gpu.txt")
    assert client.toolkit("again") == (
        "13.0",
        "native",
    ), "nothing checks the driver of an explicit list"

    for name, options in (("versions.yml", ["--no-builds"]), ("exact.yml", [])):
        lines = client.exported("made", *options)["dependencies"]
        deleted = [
            line
            for line in lines
            if name == "versions.yml" and line.startswith("cuda-version-native")
        ]
        client.write(name, [line for line in lines if line not in deleted])
    assert client.from_file("versions", "versions.yml").returncode == 0
    assert client.toolkit("versions") == ("13.0", "compat")
    assert client.from_file("refused", "exact.yml").returncode
    assert client.from_file("exact", "exact.yml", driver="13.0").returncode == 0
    assert client.toolkit("exact") == ("13.0", "native")
    # Of another major, the driver cannot have it.
    assert (client.from_file("older", "versions.yml", driver="12.6").returncode != 0) == (
        client.name == "conda-rattler"
    )
    asked = client.exported("made", "--from-history")
    assert asked["dependencies"] == [FOLLOWS], "and no __cuda"
    assert len(asked.get("channels", [])) == (0 if client.is_conda else 1), "of the two"


@pytest.mark.parametrize("client", [*CONDAS, "conda-classic", "mamba", "micromamba"], indirect=True)
@pytest.mark.parametrize(
    ("spec", "driver"),
    [("cuda-version=13.0", "12.9"), ("__cuda", ""), ("cuda-version==13.0=native_101", "")],
)
def test_a_client_says_what_the_page_quotes(client: Client, spec: str, driver: str) -> None:
    quotes = quoted_messages(ROOT / "docs" / "troubleshooting.md", "The solver refuses")
    asked = client.solving("create", "said", "--dry-run", FOLLOWS, spec)
    if driver:
        asked.append("__cuda")
    done = client.run(*asked, driver=driver)
    if client.name == "conda-classic" and driver:
        assert "cuda-version-13.0-compat" in done.stdout, "as docs/users.md says"
        return
    assert done.returncode
    said = " ".join((done.stdout + done.stderr).split())
    assert [quote for quote in quotes if quote in said], said


def test_a_client_makes_what_is_printed_for_a_fleet(client: Client, built: Workspace) -> None:
    """tests/channel/solve/test_fleet.py has the picks of each solver."""
    options = ("--driver", "12.6", "--driver", "13.0", "--arch", "9.0", "--arch", "10.0", "--json")
    environments = json.loads(ctk(built, "solve", FOLLOWS, *options, check=True).stdout)[
        "environments"
    ]
    assert [one["name"] for one in environments] == ["cuda-12.6", "cuda-12.9-compat", "cuda-13.0"]
    for one in environments:
        name, driver = one["name"], one["variables"]["CONDA_OVERRIDE_CUDA"]
        client.made(*client.solving("create", name, *one["specs"]), driver=driver)
        assert client.toolkit(name) == (one["toolkit"], one["fit"])


@pytest.mark.parametrize("stated", [True, False])
def test_conda_lock_itself_locks_what_the_page_says(client: Client, stated: bool) -> None:
    program = _conda_lock()
    client.write("environment.yml", [FOLLOWS])
    if stated:
        _write_machine(client)
    found, said = _locked(client, program, stated=stated)
    assert (
        found == [("13.0", "native")]
        if stated
        else not [fit for _, fit in found if fit == "native"]
    ), said


def test_conda_lock_itself_ignores_the_gpu(client: Client) -> None:
    """A GPU of 7.0 needs CUDA 12, and the dependency that says so is honoured."""
    program = _conda_lock()
    _write_machine(client, '      __cuda_arch: "7.0"\n')
    client.write("environment.yml", [FOLLOWS])
    assert _locked(client, program)[0] == [("13.0", "native")]
    client.write("environment.yml", [FOLLOWS, "cuda-version=12"])
    assert _locked(client, program)[0] == [("12.9", "native")]


def _conda_lock() -> str:
    program = shutil.which("conda-lock")
    if (
        program is None or this_platform() != "linux-64"
    ):  # test_conda_lock_needs_the_driver holds it, by rattler
        pytest.skip(
            "there is no conda-lock on PATH (requirements-conda-lock.lock installs it in an"
            " environment of its own)"
        )
    return program


def _write_machine(client: Client, more: str = "") -> None:
    """The page's virtual-packages.yml; the base channel here needs this machine's glibc."""
    text = file("virtual-packages.yml").text.replace('"2.28"', f'"{glibc_of("linux-64")}"')
    (client.folder / "virtual-packages.yml").write_text(text + more)


def _locked(
    client: Client, program: str, *, stated: bool = True
) -> tuple[list[tuple[str, str]], str]:
    """The versions and fits of cuda-version in the lock, and what conda-lock said."""
    words = ["lock", "--conda", client.program, "-f", "environment.yml", "-p", "linux-64"]
    words += ["--virtual-package-spec", "virtual-packages.yml"] if stated else []
    lock = client.folder / "conda-lock.yml"
    lock.unlink(missing_ok=True)
    done = client.run(*words, program=program)
    text = lock.read_text() if not done.returncode else ""
    return re.findall(r"url: \S+/cuda-version-([\d.]+)-([a-z]+)_", text), done.stderr
