"""What several layers of tests share."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from packaging.version import Version
from xdist.scheduler import LoadFileScheduling

from ctk.core import secrets
from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.lock.model import release_locks
from ctk.plan.plan import Plan, Request, plan, published_set, python_tags
from ctk.solve import channels
from ctk.solve.channels import Channels, Repodata, pythons
from ctk.verify.oracle import OracleFacts
from ctk.verify.scenarios import Matrix, facts, matrix
from kit import forked

ROOT = Path(__file__).resolve().parents[1]
MINORS = sorted(
    (lock.minor for lock in release_locks(Workspace(ROOT)).values() if lock.is_ctk), key=Version
)
NEWEST = MINORS[-1]
"""The newest CTK minor that is locked: the default build has it, like the oldest and the newest of
each major.
"""

# The same examples in every run, and no deadline: a test is not about the speed of the machine.
_STEADY = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=25,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
settings.register_profile("quick", _STEADY)
settings.register_profile("thorough", _STEADY, max_examples=300)  # ./scripts/test --all
settings.load_profile("quick")

_ONE_WORLD = re.compile("tests/system/faults/")


class _ByWorld(LoadFileScheduling):
    """Gives a worker a whole file at a time, and the files that build the same world all to one
    worker.
    """

    def _split_scope(self, nodeid: str) -> str:
        world = _ONE_WORLD.match(nodeid)
        return world[0] if world else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, which a single test may do without
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByWorld:
    return _ByWorld(config, log)


_LONGEST = (
    "system/faults",
    "system/docs",
    "system/walks",
    "system/environments",
    "system/verify",
    "channel/authors",
    "channel/verify",
    "channel/recipes",
    "channel/cli",
    "channel/solve",
)


def pytest_collection_finish() -> None:
    gc.freeze()  # thousands of tests live to the end: nothing among them is garbage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders with the longest files come first, so that no worker begins one of them when the
    others are done.
    """
    order = {ROOT / "tests" / folder: number for number, folder in enumerate(_LONGEST)}
    items.sort(key=lambda item: order.get(item.path.parent, len(order)))


# --- the suite `unit`: no test starts a process, so none needs a channel, and all end in a minute
_UNIT = ROOT / "tests" / "unit"
_STARTS = frozenset(("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"))
_STARTED: list[str] = []


def _note_process(event: str, arguments: tuple[object, ...]) -> None:
    if event in _STARTS:
        _STARTED.append(f"{event} {str(arguments)[:200]}")


sys.addaudithook(_note_process)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _STARTED.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fails a test of the suite that started a process, itself or by a fixture."""
    yield
    if _STARTED and item.path.is_relative_to(_UNIT):
        pytest.fail(f"a test of the suite unit starts no process: {_STARTED[0]}", pytrace=False)


# --- a run leaves the checkout as it was
_AT_START = pytest.StashKey[str | None]()


def _changes() -> str | None:
    """What `git status` says of the tracked files; None where this is not a clone."""
    command = ["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def pytest_sessionstart(session: pytest.Session) -> None:
    if not _is_worker(session.config):
        session.config.stash[_AT_START] = _changes()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run fails that changed the checkout: a test wrote into it, or somebody did meanwhile."""
    if _is_worker(session.config) or _changes() == session.config.stash[_AT_START]:
        return
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    now = _changes()
    if now == config.stash[_AT_START]:
        return
    terminalreporter.section("tracked files changed while the tests ran", red=True)
    terminalreporter.write_line(now or "")
    terminalreporter.write_line("A test wrote into this checkout, or you edited it meanwhile.")


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests() -> Iterator[None]:
    """What a test registers is hidden from it alone: the list belongs to a process."""
    yield
    secrets.forget()


@pytest.fixture(scope="session")
def project() -> Workspace:
    """This checkout."""
    return Workspace(ROOT)


@pytest.fixture(scope="session")
def known(project: Workspace) -> OracleFacts:
    """What the release locks say, as the oracle has it."""
    return facts(release_locks(project).values())


@pytest.fixture(scope="session")
def every(known: OracleFacts, project: Workspace) -> Matrix:
    """The whole matrix of scenarios."""
    return matrix(known, pythons())


@pytest.fixture(scope="session")
def whole(project: Workspace) -> Plan:
    """The plan of every package of the channel, of every release on every platform."""
    return plan(
        published_set(project),
        Request(platforms=list(PLATFORMS)),
        python_tags(project.build_config),
    )


@pytest.fixture(scope="session")
def planned(project: Workspace) -> Repodata:
    """What recipes and release locks would give: every package, as an index says it."""
    return channels.planned(project)


@pytest.fixture(scope="session")
def solved(planned: Repodata, tmp_path_factory: pytest.TempPathFactory) -> Channels:
    """The same as channels for solvers, above the universe."""
    return channels.write(planned, tmp_path_factory.mktemp("planned"))


@pytest.fixture(scope="session")
def built(project: Workspace) -> Workspace:
    """This checkout with its channel built: the main job, which does nothing twice."""
    if this_platform() not in ("linux-64", "linux-aarch64"):
        pytest.skip("packages are built on Linux only")
    ctk(project, "build", check=True)
    return project


def same_recipes(project: Workspace, root: Path) -> Workspace:
    """A checkout with the recipes and release locks of this one, and nothing built."""
    where = Workspace(root)
    for place in (project.recipes, project.variants, project.build_config):
        (where.root / place.name).symlink_to(place)
    where.notes.mkdir(parents=True)
    (where.notes / "rendered").symlink_to(project.notes / "rendered")
    return where


@pytest.fixture(scope="session")
def default_only(built: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A checkout that built the default set alone, whatever else is in the channel of this one."""
    where = same_recipes(built, tmp_path_factory.mktemp("default"))
    (where.root / "pyproject.toml").symlink_to(built.root / "pyproject.toml")
    where.output.mkdir()
    where.base_channel.symlink_to(built.base_channel)
    ctk(built, "build", "--to", str(where.channel), check=True)
    return where


@pytest.fixture(scope="session")
def all_platforms(built: Workspace) -> Path:
    """A channel of its own with the newest release for all four platforms, built from
    this machine.
    """
    channel = built.output / "all-platforms"
    words = [word for p in PLATFORMS for word in ("--platform", p)]
    ctk(built, "build", "--release", NEWEST, "--to", str(channel), *words, check=True)
    return channel


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Makes folders for what is large, environments and their packages: they go with the module,
    not at the end.
    """
    made: list[Path] = []

    def make(name: str) -> Path:
        made.append(tmp_path_factory.mktemp(name))
        return made[-1]

    yield make
    for folder in made:
        # What cannot be removed so, pytest removes in the end.
        shutil.rmtree(folder, ignore_errors=True)


def ctk(
    where: Workspace, *arguments: str, check: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command line as a process of its own; see `forked`."""
    done = forked.run(
        arguments, {**os.environ, "CTK_ROOT": str(where.root), "COLUMNS": "120", **environment}
    )
    if check and done.returncode:
        pytest.fail(
            f"ctk {' '.join(arguments)} ended with"
            f" {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        )
    return done


def program_of(client: str) -> str:
    """The program of a client, by its name in `ctk.verify.clients.NAMES`.

    Skips where it, or its solver, is not.
    """
    name, _, solver = client.partition("-")
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"there is no {name} on PATH")
    if solver:
        told = subprocess.run(
            [program, "create", "--help"], capture_output=True, text=True, check=True
        ).stdout
        if not re.search(rf"--solver \{{(?:.+,)?{solver}[,}}]", told):
            pytest.skip(f"the {name} on PATH has no solver {solver}")
    return program
