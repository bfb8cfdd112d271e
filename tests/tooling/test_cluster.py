"""Builds on a cluster: scheduler and workers are processes on loopback, which die, or do not fit, or never answer."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

import pytest
import zstandard
from dask_processes import Loopback, loopback, silent_port, wait_for
from tiny import artefact, tiny_checkout, tiny_plan

from conftest import ROOT, ctk
from ctk.build import build, worker
from ctk.build.cluster import Cluster
from ctk.build.order import order, to_json
from ctk.build.store import Store
from ctk.core.checkout import Workspace
from ctk.core.errors import ClusterFailed
from ctk.fetch import fetch
from ctk.index.index import Index

HELLO = "hello-cuda13.4-linux-64"
FOLLOWER = "follower-cuda13.4-noarch"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    with loopback(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


def checkout(folder: Path, script: str = "") -> Workspace:
    """A tiny checkout whose recipe `hello` runs something first."""
    workspace = tiny_checkout(folder)
    if script:
        recipe = workspace.recipes / "hello" / "recipe.yaml"
        line = "    - mkdir -p $PREFIX/share/hello\n"
        assert line in recipe.read_text()
        recipe.write_text(recipe.read_text().replace(line, f"    - {script}\n{line}"))
    fetch.fetch(tiny_plan(workspace).artefacts, workspace, Index)
    return workspace


def run(workspace: Workspace, address: str, store: Path) -> build.BuildReport:
    with Cluster(address, str(store)) as cluster:
        return build.run(tiny_plan(workspace), workspace, cluster=cluster)


def payloads(report: build.BuildReport) -> dict[str, dict[str, bytes]]:
    """Package -> file -> content, without the time of the build."""
    found = {}
    for package in [p for b in report.built for p in b.packages]:
        files = found[f"{package.parent.name}/{package.name}"] = {}
        with zipfile.ZipFile(package) as archive:
            for part in [n for n in archive.namelist() if n.endswith(".tar.zst")]:
                plain = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(archive.read(part))).read()
                with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
                    files |= {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}  # type: ignore[union-attr]
        del files["info/recipe/rendered_recipe.yaml"]  # has the time in many places
        index = json.loads(files.pop("info/index.json"))
        files["info/index.json"] = json.dumps({**index, "timestamp": 0}).encode()
    return found


def packages_in(store: Path) -> list[Path]:
    """What is in a store and is a package."""
    return [f for f in (store / "sha256").glob("*/*") if zipfile.is_zipfile(f) and b".tar.zst" in f.read_bytes()]


def test_a_cluster_builds_what_this_machine_builds_and_nobody_builds_it_again(
    running: Loopback, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    made = run(checkout(tmp_path / "one"), running.address, store)
    assert [(b.id, b.cached) for b in made.built] == [(HELLO, False), (FOLLOWER, False)]
    here = checkout(tmp_path / "here")
    assert payloads(made) == payloads(build.run(tiny_plan(here), here))
    assert not list((store / "runs").iterdir())
    notes = {f: f.stat().st_mtime_ns for f in (store / "builds").iterdir()}
    again = run(checkout(tmp_path / "two"), running.address, store)
    assert all(b.cached for b in again.built)
    assert payloads(again) == payloads(made)
    assert {f: f.stat().st_mtime_ns for f in (store / "builds").iterdir()} == notes


def test_what_is_spoiled_in_the_store_is_made_again(running: Loopback, tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = run(checkout(tmp_path / "one"), running.address, store)
    spoiled = [*packages_in(store), store / "sha256" / artefact().sha256[:2] / artefact().sha256]
    assert len(spoiled) == 3
    for file in spoiled:
        file.chmod(0o644)
        file.write_bytes(b"x" * file.stat().st_size)
    again = run(checkout(tmp_path / "two"), running.address, store)
    assert [b.cached for b in again.built] == [False, False]
    assert payloads(again) == payloads(first)


def test_a_note_with_other_packages_than_the_plan_promises_is_no_build(running: Loopback, tmp_path: Path) -> None:
    workspace = checkout(tmp_path / "one")
    hello, _ = tiny_plan(workspace).builds
    store = Store(str(tmp_path / "store"))
    store.publish(build.build_key(hello, 3), {"id": hello.id, "packages": {}, "seconds": 0.0})
    made = run(workspace, running.address, tmp_path / "store").built[0]
    assert not made.cached
    assert [p.name for p in made.packages] == [o.file_name for o in hello.outputs]


def test_a_failed_build_shows_its_log_here_and_skips_what_needs_it(running: Loopback, tmp_path: Path) -> None:
    workspace = checkout(tmp_path / "one", "cat no-such-greeting.txt")
    report = run(workspace, running.address, tmp_path / "store")
    assert [f.id for f in report.failed] == [HELLO]
    assert "no-such-greeting.txt" in report.failed[0].message
    assert [s.id for s in report.skipped] == [FOLLOWER]
    assert "no-such-greeting.txt" in (workspace.cache / "logs" / f"{HELLO}.log").read_text()


def test_a_build_that_dies_twice_is_a_failure_with_its_name(running: Loopback, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    workspace = checkout(tmp_path / "one", f"echo begun >> {begun}; kill -9 $PPID")
    report = run(workspace, running.address, tmp_path / "store")
    assert begun.read_text().split() == ["begun", "begun"]
    assert [f.id for f in report.failed] == [HELLO]
    assert report.failed[0].message.startswith(f"{HELLO}: both workers that began it died: tcp://127.0.0.1:")
    assert not (tmp_path / "store" / "builds").exists()


@pytest.mark.parametrize("allowed", ["0", "3"])  # what the scheduler itself forgives
def test_a_worker_that_is_killed_costs_one_retry(tmp_path: Path, allowed: str) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    script = f"echo $PPID >> {begun}; while [ ! -e {go} ]; do sleep 0.05; done"
    workspace = checkout(tmp_path / "one", script)
    setting = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": allowed}
    with loopback(tmp_path / "dask", workers=0, **setting) as cluster, ThreadPoolExecutor(1) as pool:
        doomed = cluster.worker()
        done = pool.submit(run, workspace, cluster.address, tmp_path / "store")
        wait_for(begun)
        cluster.worker()
        doomed.kill()
        doomed.wait()
        go.touch()
        report = done.result(60)
    assert [b.id for b in report.built] == [HELLO, FOLLOWER]
    first, _ = begun.read_text().split()
    left = Path(f"/proc/{first}/stat")
    assert not left.exists() or left.read_text().rpartition(")")[2].split()[0] == "Z"  # it ended with its worker
    # The living worker has removed what the killed one left.
    assert len(list((tmp_path / "dask").glob("ctk-workers-*/*.lock"))) == 1
    here = checkout(tmp_path / "here", script)
    assert payloads(report) == payloads(build.run(tiny_plan(here), here))


def test_an_interrupted_run_ends_at_once(running: Loopback, tmp_path: Path) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    workspace = checkout(tmp_path / "one", f"echo $PPID >> {begun}; while [ ! -e {go} ]; do sleep 0.05; done")
    hello, _ = tiny_plan(workspace).builds
    with Cluster(running.address, str(tmp_path / "store")) as cluster:
        try:
            with pytest.raises(KeyboardInterrupt), cluster.executor(workspace, 3) as executor:
                future = executor.submit(hello)
                wait_for(begun)
                raise KeyboardInterrupt
            assert not (workspace.builds / build.build_key(hello, 3)).exists()
        finally:
            go.touch()
    with pytest.raises(CancelledError):
        future.result(0)


def test_a_scheduler_that_is_lost_ends_the_run_and_keeps_what_is_finished(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    workspace = checkout(tmp_path / "one")
    follower = workspace.recipes / "follower" / "recipe.yaml"
    wait = f'"echo begun > {begun}", "sleep 20", '
    follower.write_text(follower.read_text().replace("script: [", f"script: [{wait}"))
    with loopback(tmp_path / "dask", workers=1) as cluster, ThreadPoolExecutor(1) as pool:
        done = pool.submit(run, workspace, cluster.address, tmp_path / "store")
        wait_for(begun)
        cluster.scheduler.kill()
        with pytest.raises(ClusterFailed, match=f"the scheduler at {cluster.address} was lost"):
            done.result(60)
    hello, _ = tiny_plan(workspace).builds
    assert build.cached(hello, workspace, 3)


def test_a_worker_of_another_revision_is_refused_by_name(tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(ROOT / "scripts", other, ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "ctk" / "scratch.py").open("a") as file:
        file.write("# another revision\n")
    with loopback(tmp_path / "dask", workers=0) as cluster:
        cluster.worker(PYTHONPATH=str(other))
        with pytest.raises(ClusterFailed, match=r"the worker tcp://127.0.0.1:\d+ .* has ctk \w+ with rattler-build"):
            Cluster(cluster.address, str(tmp_path / "store"))
        # One that joins later is found out by its first order.
        workspace = checkout(tmp_path / "one")
        made = order(tiny_plan(workspace).builds[0], workspace, 3, "run", str(tmp_path / "store"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "engine", lambda: None)
        answer = worker.ANSWER.validate_json(worker.fill(to_json(made)))
    assert answer.kind == "unfit"


def test_a_worker_without_ctk_is_refused_by_name(tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "ctk"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("")
    with loopback(tmp_path / "dask", workers=0) as cluster:
        cluster.worker(PYTHONPATH=str(broken.parent))
        with pytest.raises(ClusterFailed, match=r"the worker tcp://127.0.0.1:\d+ cannot build with this ctk: .*ctk"):
            Cluster(cluster.address, str(tmp_path / "store"))


def test_the_same_build_made_twice_at_once_is_whole_whoever_ends_last(tmp_path: Path) -> None:
    workspace = checkout(tmp_path / "one")
    hello = tiny_plan(workspace).builds[0]
    store = Store(str(tmp_path / "store"))
    texts = []
    for token in ("one", "two"):  # the retry cannot see the worker that was taken for dead
        made = order(hello, workspace, 3, token, store.url)
        for file in (
            *hello.recipe.files(),
            *hello.variant_files,
            *(fetch.laid_out(a, workspace) for a in hello.artefacts),
        ):
            store.put(file)
        texts.append(to_json(made))
    with ThreadPoolExecutor(2) as pool:
        answers = [worker.ANSWER.validate_json(a) for a in pool.map(worker.fill, texts)]
    assert [a.kind for a in answers] == ["built", "built"]
    note = store.finished(made.key)
    assert note is not None
    assert all(store.get(sha, tmp_path / "read" / name) for name, sha in note["packages"].items())


def test_an_address_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    with silent_port() as silent:
        for address in (silent, "nonsense"):
            with pytest.raises(ClusterFailed, match=f"answers at {address}"):
                Cluster(address, str(tmp_path / "store"))


def test_the_command_names_the_address_that_does_not_answer(tmp_path: Path) -> None:
    done = ctk(tiny_checkout(tmp_path), "build", "--dask", "tcp://127.0.0.1:1")
    assert done.returncode == 20
    assert done.stderr.startswith("error: no Dask scheduler answers at tcp://127.0.0.1:1: ")
    assert "Traceback" not in done.stderr
