"""The index of a channel on a server is fetched within bounds of size and time, and of what is
parsed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from ctk.core.errors import BadValue, ChannelBroken, ChannelMissing, SolverFailed
from ctk.fetch import channels, repodata
from ctk.fetch.channels import Servers
from ctk.fetch.repodata import IndexFolder
from ctk.index.client import Retry
from ctk.package.records import MOST_NESTED, refuse_specs
from ctk.solve import solve as solve_module
from ctk.solve.solve import Scenario, parse_spec, reading, solve
from kit.fake_index import FakeIndex, Fault, serve

SUBDIRS = ("linux-64", "noarch")
PACKED, PLAIN = "repodata.json.zst", "repodata.json"
QUICK = Retry(attempts=3, sleep=lambda seconds: None, clock=lambda: 0.0)


def record(name: str, *depends: str) -> dict[str, object]:
    return {
        "name": name, "version": "1.0", "build": "0", "build_number": 0, "subdir": "noarch",
        "depends": list(depends), "size": 1, "sha256": "ab" * 32,
    }  # fmt: skip


def write(folder: Path, *records: dict[str, object], packed: bool = True) -> None:
    """A channel with these packages for no platform."""
    for subdir in SUBDIRS:
        (folder / subdir).mkdir(parents=True, exist_ok=True)
        own = records if subdir == "noarch" else ()
        packages = {f"{r['name']}-1.0-0.conda": r for r in own}
        content = {"info": {"subdir": subdir}, "packages": {}, "packages.conda": packages}
        (folder / subdir / PLAIN).write_text(json.dumps(content))
        if packed:
            text = zstandard.compress(json.dumps(content).encode())
            (folder / subdir / PACKED).write_bytes(text)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeIndex]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("PIP_TIMEOUT", "60")
    use(monkeypatch, QUICK)
    write(tmp_path / "www", record("b", "a"), record("a"))
    with serve(FakeIndex(folder=tmp_path / "www")) as index:
        yield index


def use(monkeypatch: pytest.MonkeyPatch, retry: Retry) -> None:
    """Makes a client with this patience."""
    real = channels.connected

    @contextmanager
    def connected() -> Iterator[Servers]:
        with real() as servers:
            servers._retry = replace(retry, service=servers._retry.service)
            yield servers

    monkeypatch.setattr(repodata, "connected", connected)


def fetched(server: FakeIndex, home: Path) -> dict[str, object]:
    """The packages of the fetched index."""
    folder = IndexFolder(server.channel, home).fetch(SUBDIRS)
    content = json.loads((folder / "noarch" / PLAIN).read_text())
    found: dict[str, object] = content["packages.conda"]
    return found


def test_an_index_that_did_not_change_is_not_sent_again(server: FakeIndex, tmp_path: Path) -> None:
    assert server.folder
    first = fetched(server, tmp_path)
    assert {request.known for request in server.requests} == {None}
    server.requests.clear()
    assert fetched(server, tmp_path) == first
    assert len(server.requests) == 2 and all(request.known for request in server.requests)
    write(server.folder, record("c"))
    assert [*fetched(server, tmp_path)] == ["c-1.0-0.conda"]


def test_a_channel_without_a_packed_index_works_too(server: FakeIndex, tmp_path: Path) -> None:
    assert server.folder
    for subdir in SUBDIRS:
        (server.folder / subdir / PACKED).unlink()
    assert len(fetched(server, tmp_path)) == 2
    (server.folder / "linux-64" / PLAIN).unlink()
    assert len(fetched(server, tmp_path)) == 2
    (server.folder / "noarch" / PLAIN).unlink()
    with pytest.raises(ChannelMissing, match="there is no channel at "):
        fetched(server, tmp_path)


PASSING = {
    "500": Fault("noarch", times=2, status=500),
    "no answer": Fault("noarch", times=2, drop=True),
    "breaks off": Fault("noarch", times=2, truncate=20),
    "other bytes": Fault("noarch", times=1, content=b"of somebody else"),
}


@pytest.mark.parametrize("name", PASSING)
def test_a_fault_that_passes_costs_time_only(server: FakeIndex, tmp_path: Path, name: str) -> None:
    server.faults.append(PASSING[name])
    assert len(fetched(server, tmp_path)) == 2


LASTING = {
    "500": Fault("noarch", status=500),
    "401": Fault("noarch", status=401),
    "403": Fault("noarch", status=403),
    "no answer": Fault("noarch", drop=True),
    "breaks off": Fault("noarch", truncate=20),
    "other bytes": Fault("noarch", content=b"of somebody else"),
    "no index": Fault("noarch", content=zstandard.compress(b"[1, 2]")),
    "nested": Fault("noarch", content=zstandard.compress(b"[" * 100_000)),
    "bomb": Fault("noarch", content=zstandard.compress(b" " * (200 << 20), 19)),
    "redirects": Fault("noarch", status=302, headers={"Location": "."}),
}


@pytest.mark.parametrize("name", LASTING)
def test_a_fault_that_stays_ends_in_words(server: FakeIndex, tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    server.faults.append(LASTING[name])
    with pytest.raises(ChannelMissing) as error:
        fetched(server, home)
    assert error.value.step and "127.0.0.1" in error.value.cause
    assert not [*home.glob(f"*/noarch/{PLAIN}")], "nothing of it is read"
    server.faults.clear()
    assert len(fetched(server, home)) == 2


def test_a_bomb_is_not_unpacked_to_disk(server: FakeIndex, tmp_path: Path) -> None:
    server.faults.append(LASTING["bomb"])
    with pytest.raises(ChannelMissing, match="unpack to more than"):
        fetched(server, tmp_path)
    (part,) = tmp_path.glob("*/noarch/.*.part")
    assert part.stat().st_size <= 64 << 20


def test_an_endless_body_ends(
    server: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repodata, "PACKED", 1 << 20)
    assert server.folder
    (server.folder / "noarch" / PACKED).unlink()
    server.faults.append(Fault(f"noarch/{PLAIN}", content=b" " * (1 << 16), repeat=1 << 14))
    with pytest.raises(ChannelMissing, match=f"{PLAIN} of the channel .* does not end"):
        fetched(server, tmp_path)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (400, "is too slow"),  # next to nothing in each while
        (700, "did not come within 600 s"),
    ],
)
def test_a_slow_server_is_given_up(
    server: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, said: str
) -> None:
    """The clock is the test's: it goes on by so many seconds each time that it is read."""
    clock = itertools.count(0, step).__next__
    use(monkeypatch, replace(QUICK, clock=clock))
    with pytest.raises(ChannelMissing, match=said):
        fetched(server, tmp_path)


def test_a_login_is_sent(
    server: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = tmp_path / "login.json"
    login.write_text('{"127.0.0.1": {"BearerToken": "dolphin"}}')
    monkeypatch.setenv("RATTLER_AUTH_FILE", str(login))
    server.password = "dolphin"
    assert len(fetched(server, tmp_path / "home")) == 2
    assert {request.authorization for request in server.requests} == {"Bearer dolphin"}


# --- what is parsed

NESTED = f"a {'(' * 100_000}>=1{')' * 100_000}"
HOW = {
    "plain": NESTED,
    "mixed": "a " + "(>=1,|" * 50_000,
    "as a condition": f"a; if {'(' * 100_000}python",
}


@pytest.mark.parametrize("key", ["depends", "constrains"])
@pytest.mark.parametrize("how", HOW)
def test_specs_that_end_rattlers_process_are_words(tmp_path: Path, how: str, key: str) -> None:
    write(tmp_path, record("b") | {key: [HOW[how]]}, record("a"), packed=False)
    with pytest.raises(ChannelBroken, match="parentheses"):
        solve(Scenario(("b",), "linux-64"), [tmp_path])


def test_parentheses_that_json_escapes_are_counted(tmp_path: Path) -> None:
    write(tmp_path, record("b", NESTED), packed=False)
    file = tmp_path / "noarch" / PLAIN
    file.write_text(file.read_text().replace("(", "\\u0028"))
    with pytest.raises(ChannelBroken, match="parentheses, which no spec has"):
        refuse_specs(file)
    with pytest.raises(ChannelBroken, match="parentheses"), reading([tmp_path]):
        pass


def test_as_many_parentheses_as_are_allowed_are_no_danger(tmp_path: Path) -> None:
    """rattler's parser bears them: in a process of its own, which a signal would end."""
    spec = f"a {'(' * MOST_NESTED}>=1{')' * MOST_NESTED}"
    write(tmp_path, record("b", spec), record("a"), packed=False)
    refuse_specs(tmp_path / "noarch" / PLAIN)
    text = (
        "import sys; from pathlib import Path; from ctk.solve.solve import *;"
        "print(len(solve(Scenario(('b',), 'linux-64'), [Path(sys.argv[1])]).records))"
    )
    done = subprocess.run([sys.executable, "-c", text, tmp_path], capture_output=True, text=True)
    assert done.stdout == "2\n", done.stderr


def test_a_spec_of_a_request_has_bounds_too() -> None:
    with pytest.raises(BadValue, match="is not a spec: it has more than 100 parentheses") as error:
        parse_spec(NESTED)
    assert len(error.value.cause) < 1000


def test_very_many_dependencies_are_words(tmp_path: Path) -> None:
    write(tmp_path, record("b", *(f"p{n}" for n in range(300_000))), packed=False)
    with pytest.raises(ChannelBroken, match="too many dependencies"):
        solve(Scenario(("b",), "linux-64"), [tmp_path])


def test_a_long_list_of_removed_files_is_fine(tmp_path: Path) -> None:
    write(tmp_path, record("b"), packed=False)
    file = tmp_path / "noarch" / PLAIN
    content = json.loads(file.read_text())
    content["removed"] = [f"p-{n}-0.conda" for n in range(100_000)]
    file.write_text(json.dumps(content))
    refuse_specs(file)


def test_a_solver_that_gives_no_answer_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, record("b"), packed=False)

    async def never(**arguments: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("rattler.solve", never)
    monkeypatch.setattr(solve_module, "PATIENCE", 0.01)
    with pytest.raises(SolverFailed, match="no answer for b within"):
        solve(Scenario(("b",), "linux-64"), [tmp_path])
