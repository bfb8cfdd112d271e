"""Builds on a cluster: scheduler and workers are processes on loopback that die, have another ctk,
or never answer.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from fsspec import register_implementation
from fsspec.implementations.memory import MemoryFileSystem

from conftest import ROOT
from ctk.build import build
from ctk.build import cluster as module
from ctk.build.cluster import Cluster, Store
from ctk.build.finished import cached
from ctk.core.checkout import Workspace
from ctk.core.errors import ClusterFailed, NoSpace
from ctk.plan.plan import Build
from kit.dask_processes import Loopback, loopback, silent_port, wait_for
from kit.mounts import mounts
from kit.tiny import artefact, tiny_plan
from kit.tiny_checkout import FOLLOWER, HELLO, edit, fetched


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    with loopback(tmp_path_factory.mktemp("dask"), workers=1) as cluster:
        cluster.worker("--nanny")  # as `dask worker` starts one
        yield cluster


def checkout(folder: Path, script: str = "") -> Workspace:
    """A tiny checkout whose recipe `hello` runs something first."""
    workspace = fetched(folder)
    if script:
        line = "    - mkdir -p $PREFIX/share/hello\n"
        edit(workspace.recipes / "hello" / "recipe.yaml", line, f"    - {script}\n{line}")
    return workspace


def hello(workspace: Workspace) -> Build:
    return tiny_plan(workspace).by_id[HELLO]


def run(
    workspace: Workspace,
    address: str,
    store: Path,
    say: Callable[[str], None] = lambda message: None,
) -> build.BuildReport:
    with Cluster(address, str(store), say) as cluster:
        return build.run(tiny_plan(workspace), workspace, cluster=cluster)


def here(folder: Path, script: str = "") -> dict[str, str]:
    """The packages that this machine builds, with their sha256."""
    workspace = checkout(folder, script)
    return sha256(build.run(tiny_plan(workspace), workspace))


def sha256(report: build.BuildReport) -> dict[str, str]:
    return {name: sha for b in report.built for name, sha in b.sha256.items()}


def test_a_cluster_makes_the_packages_of_this_machine_and_nobody_builds_them_again(
    running: Loopback, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    made = run(checkout(tmp_path / "one"), running.address, store)
    assert {b.id: b.cached for b in made.built} == {HELLO: False, FOLLOWER: False}
    assert sha256(made) == here(tmp_path / "here")
    notes = {f: f.stat().st_mtime_ns for f in (store / "builds").iterdir()}
    again = run(checkout(tmp_path / "two"), running.address, store)
    assert all(b.cached for b in again.built)
    assert sha256(again) == sha256(made)
    assert {f: f.stat().st_mtime_ns for f in (store / "builds").iterdir()} == notes


def test_a_file_damaged_in_the_store_is_an_error_and_the_next_run_puts_it_there_again(
    running: Loopback, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    first = run(checkout(tmp_path / "one"), running.address, store)
    for sha in (*first.built[0].sha256.values(), artefact().sha256):
        file = store / "sha256" / sha[:2] / sha
        file.chmod(0o644)
        file.write_bytes(b"x" * file.stat().st_size)
    Store(str(store)).publish(first.built[1].key, {"id": HELLO, "packages": {}, "seconds": 0.0})
    damaged = run(checkout(tmp_path / "two"), running.address, store)
    assert damaged.failed.keys() == {HELLO} and not damaged.built[0].cached
    assert (
        "the store file://" in damaged.failed[HELLO]
        and "run the command again" in damaged.failed[HELLO]
    )
    again = run(checkout(tmp_path / "three"), running.address, store)
    assert {b.id: b.cached for b in again.built} == {HELLO: False, FOLLOWER: True}
    assert sha256(again) == sha256(first)


@pytest.mark.parametrize(
    ("script", "message", "log"),
    [
        ("cat no-such-greeting.txt", "no-such-greeting.txt", "no-such-greeting.txt"),
        ("kill -9 $PPID", f"{HELLO}: its process on {socket.gethostname()} was killed", ""),
    ],
    ids=["its script fails", "its process is killed twice"],
)
def test_a_failed_build_shows_its_log_here_and_fails_alone(
    running: Loopback, tmp_path: Path, script: str, message: str, log: str
) -> None:
    begun, store = tmp_path / "begun", tmp_path / "store"
    workspace = checkout(tmp_path / "one", f"echo begun >> {begun}; {script}")
    report = run(workspace, running.address, store)
    assert [(name, message in cause) for name, cause in report.failed.items()] == [(HELLO, True)]
    assert [b.id for b in report.built] == [FOLLOWER]
    assert [f.stem for f in (store / "builds").iterdir()] == [report.built[0].key]
    if log:
        assert log in (workspace.logs / f"{HELLO}.log").read_text()
    else:
        assert begun.read_text().split() == ["begun", "begun"]


def waiting(begun: Path, go: Path) -> str:
    """A line of a script that writes its parent's process id, and waits for a file."""
    return f"echo $PPID >> {begun}; while [ ! -e {go} ]; do sleep 0.05; done"


def test_the_build_of_a_worker_that_is_killed_is_made_by_another(tmp_path: Path) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    workspace = checkout(tmp_path / "one", waiting(begun, go))
    with loopback(tmp_path / "dask", workers=0) as cluster, ThreadPoolExecutor(1) as pool:
        doomed = cluster.worker()
        done = pool.submit(run, workspace, cluster.address, tmp_path / "store")
        wait_for(begun)
        cluster.worker()
        doomed.kill()
        doomed.wait()
        go.touch()
        report = done.result(900)
    assert {b.id for b in report.built} == {HELLO, FOLLOWER}
    first, _ = begun.read_text().split()
    left = Path(f"/proc/{first}/stat")
    # It ended with its worker.
    assert not left.exists() or left.read_text().rpartition(")")[2].split()[0] == "Z"
    assert not list((tmp_path / "dask").glob("ctk-workers-*")), (
        "the living worker removes the folder of the killed one"
    )
    assert sha256(report) == here(tmp_path / "here", waiting(begun, go))


def test_a_build_whose_workers_die_too_often_is_a_failure_with_its_name(tmp_path: Path) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    workspace = checkout(tmp_path / "one", waiting(begun, go))
    setting = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with (
        loopback(tmp_path / "dask", workers=0, **setting) as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        doomed = cluster.worker()
        done = pool.submit(run, workspace, cluster.address, tmp_path / "store")
        wait_for(begun)
        cluster.worker()
        doomed.kill()
        report = done.result(900)
    go.touch()
    failed = report.failed
    assert failed[HELLO].startswith(f"{HELLO}: ") and failed[HELLO].endswith(
        "it may have run out of memory there"
    )


def test_without_a_worker_the_run_waits_and_says_so(tmp_path: Path) -> None:
    begun, go, told = tmp_path / "begun", tmp_path / "go", threading.Event()
    workspace = checkout(tmp_path / "one", waiting(begun, go))
    messages: list[str] = []

    def say(message: str) -> None:
        messages.append(message)
        told.set()

    with loopback(tmp_path / "dask", workers=0) as cluster, ThreadPoolExecutor(1) as pool:
        done = pool.submit(run, workspace, cluster.address, tmp_path / "store", say)
        assert told.wait(300), "before any worker has joined"
        told.clear()
        doomed = cluster.worker()
        wait_for(begun)
        doomed.kill()
        assert told.wait(300), "after the last one has died"
        go.touch()
        cluster.worker()
        report = done.result(900)
    assert {b.id for b in report.built} == {HELLO, FOLLOWER}
    assert set(messages) == {
        f"no worker at {cluster.address}; waiting for one: dask worker {cluster.address}"
        " --nthreads 1"
    }


def test_a_scheduler_that_is_lost_ends_the_run_and_keeps_what_is_finished(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    workspace = checkout(tmp_path / "one")
    follower = workspace.recipes / "follower" / "recipe.yaml"
    edit(follower, "script: [", f'script: ["{waiting(begun, tmp_path / "go")}", ')
    with loopback(tmp_path / "dask", workers=0) as cluster, ThreadPoolExecutor(1) as pool:
        cluster.worker("--nthreads", "2")
        finished = workspace.builds / build.build_key(hello(workspace)) / "build.json"
        done = pool.submit(run, workspace, cluster.address, tmp_path / "store")
        wait_for(finished)
        wait_for(begun)
        cluster.scheduler.kill()
        with pytest.raises(ClusterFailed, match=f"the scheduler at {cluster.address} was lost"):
            done.result(900)
        (tmp_path / "go").touch()
    assert cached(hello(workspace), workspace)


def test_a_scheduler_with_another_ctk_is_a_failed_cluster(tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "ctk").mkdir(parents=True)
    (other / "ctk" / "__init__.py").touch()
    with loopback(tmp_path / "dask", workers=0, PYTHONPATH=str(other)) as cluster:
        cluster.worker(PYTHONPATH=str(ROOT / "scripts"))
        with pytest.raises(ClusterFailed, match="a worker failed at ") as error:
            run(checkout(tmp_path / "one"), cluster.address, tmp_path / "store")
        assert error.value.step.startswith("install the same revision")


def fill(file: Path) -> None:
    """Writes a file until its file system is full."""
    with file.open("wb", buffering=0) as open_file, suppress(OSError):
        while True:
            open_file.write(bytes(1 << 16))


def test_a_store_that_is_full_ends_the_run_and_is_used_again_when_it_has_room(
    running: Loopback, tmp_path: Path
) -> None:
    begun, go, folder = tmp_path / "begun", tmp_path / "go", tmp_path / "store"
    workspace = checkout(tmp_path / "one", waiting(begun, go))
    folder.mkdir()
    with (
        mounts('mount -t tmpfs -o size=4m none "$store"', store=folder) as mounted,
        ThreadPoolExecutor(1) as pool,
    ):
        store = mounted.see(folder)
        done = pool.submit(run, workspace, running.address, store)
        wait_for(begun)
        fill(store / "of-others")
        go.touch()
        worker = f"on {socket.gethostname()}: "
        with pytest.raises(NoSpace, match=f"{worker}the store file://{store} is full") as error:
            done.result(900)
        assert "run the command again" in error.value.step
        (store / "of-others").unlink()
        again = run(workspace, running.address, store)
    assert {b.id for b in again.built} == {HELLO, FOLLOWER}
    assert sha256(again) == here(tmp_path / "here", waiting(begun, go))


def test_a_worker_that_cannot_open_the_store_ends_the_run_and_is_named(
    running: Loopback, tmp_path: Path
) -> None:
    class Here(MemoryFileSystem):
        """A kind of store that this process alone knows, as if s3fs were not on the worker."""

        protocol = "here"

    register_implementation("here", Here, clobber=True)
    worker = f"the worker {socket.gethostname()} cannot build: "
    workspace = checkout(tmp_path / "one")
    with (
        Cluster(running.address, "here://store") as cluster,
        pytest.raises(ClusterFailed, match=f"{worker}the store here://store cannot be") as error,
    ):
        build.run(tiny_plan(workspace), workspace, cluster=cluster)
    assert error.value.step.startswith("a store is a folder")


def test_a_store_that_a_worker_does_not_see_is_named(running: Loopback, tmp_path: Path) -> None:
    with Cluster(running.address, "memory://store") as cluster:  # each process has its own
        report = build.run(
            tiny_plan(workspace := checkout(tmp_path / "one")), workspace, cluster=cluster
        )
    assert all(
        "the store memory://store does not return " in cause for cause in report.failed.values()
    )
    assert report.failed.keys() == {HELLO, FOLLOWER}


def test_a_worker_refuses_orders_of_another_ctk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = checkout(tmp_path / "one")
    order = module.work_order(hello(workspace), workspace, str(tmp_path / "store"))
    monkeypatch.setattr(module, "tools", lambda: {"ctk": "revision 1"})
    with pytest.raises(ClusterFailed, match=r"has {'ctk': 'revision 1'}, and this run \{'ctk': "):
        module.fulfil(order)


def test_an_address_that_does_not_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONNECT_TIMEOUT", 0.5)
    with silent_port() as silent:
        for address in (silent, "nonsense"):
            with pytest.raises(ClusterFailed, match=f"answers at {address}"):
                Cluster(address, str(tmp_path / "store"))
