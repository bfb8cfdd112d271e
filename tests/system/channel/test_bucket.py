"""Publishing into a bucket of S3: what a folder promises, and the faults of a store."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import rattler
import zstandard
from rattler import Channel, Gateway, RepoDataRecord
from rattler.networking import Client
from typer.testing import Result

from ctk.channel.bucket import Bucket, open_bucket
from ctk.channel.publish import Folder, Keep, Published
from ctk.core.checkout import Workspace
from ctk.core.errors import (
    BadValue,
    Busy,
    ChannelBroken,
    ChannelMissing,
    NameReused,
    PublishFailed,
    UnknownName,
)
from ctk.core.process import run
from kit.object_store import LOGIN, Fault, Request, Store
from kit.small_channels import build, digit
from kit.threads import running

pytest_plugins = ["kit.object_store_fixtures", "kit.channel_fixtures"]

ADDRESS = "s3://channels/cuda"
KEEP = Keep()
CLIENTS = ("repodata.json", "repodata.json.zst")
"""The forms of the index that a client takes."""


@contextmanager
def opened(tmp_path: Path, keep: Keep = KEEP) -> Iterator[Bucket]:
    with open_bucket(ADDRESS, tmp_path / "recipes", keep) as bucket:
        yield bucket


def publish(tmp_path: Path, *numbers: int, exact: bool = False, keep: Keep = KEEP) -> Published:
    built = build(tmp_path / "channel", *map(digit, numbers))
    with opened(tmp_path, keep) as bucket:
        return bucket.publish(built, exact=exact)


def seen_by(store: Store, form: str) -> set[str]:
    """The names in the index, as a client reads it; each package is there as stated."""
    client, found = store.client(), set()
    for subdir in sorted({key.split("/")[0] for key in keys(store) if key.endswith(f"/{form}")}):
        if subdir == ".history":
            continue
        content, exports = (
            client.get_object(Bucket="channels", Key=f"cuda/{subdir}/{name}")["Body"].read()
            for name in (form, "run_exports.json")
        )
        is_packed = form.endswith(".zst")
        text = zstandard.ZstdDecompressor().decompress(content) if is_packed else content
        records = json.loads(text)["packages.conda"]
        assert records.keys() <= json.loads(exports)["packages.conda"].keys()
        for name, record in records.items():
            item = client.head_object(Bucket="channels", Key=f"cuda/{subdir}/{name}")
            assert (item["ContentLength"], item["ETag"]) == (record["size"], f'"{record["md5"]}"')
            found.add(record["name"])
    return found


def seen(store: Store) -> set[str]:
    """The names in the index, in which its forms agree."""
    plain, packed = (seen_by(store, form) for form in CLIENTS)
    assert plain == packed
    return plain


def keys(store: Store) -> set[str]:
    pages = store.client().get_paginator("list_objects_v2").paginate(Bucket="channels")
    return {item["Key"].removeprefix("cuda/") for page in pages for item in page["Contents"]}


def test_packages_come_first_and_the_index_that_every_client_reads_is_last_in_a_subdir(
    store: Store, tmp_path: Path
) -> None:
    done = publish(tmp_path, 1, 2)
    assert (done.state, done.packages, len(done.added)) == (1, 2, 2)
    assert seen(store) == {"digit1", "digit2"}
    puts = [key for key in store.puts() if not key.startswith(".history/")]
    files = ["run_exports.json", "repodata.json.zst", "repodata.json"]
    indexes = [f"{subdir}/{file}" for subdir in ("noarch", "linux-64") for file in files]
    assert sorted(puts[:2]) == ["linux-64/digit2-1.0-h0_0.conda", "noarch/digit1-1.0-h0_0.conda"]
    assert puts[2:] == [*indexes, "channel.cdx.json"]


def test_a_second_run_puts_no_package_again_and_makes_no_state(
    store: Store, tmp_path: Path
) -> None:
    publish(tmp_path, 1, 2)
    store.requests.clear()
    done = publish(tmp_path, 1, 2)
    assert (done.state, done.added) == (1, ())
    assert not [key for key in store.puts() if not key.startswith(".history/")]


def test_a_name_is_not_reused_for_other_content(store: Store, tmp_path: Path) -> None:
    publish(tmp_path, 1)
    built = build(tmp_path / "other", digit(1, "changed"))
    store.requests.clear()
    with opened(tmp_path) as bucket, pytest.raises(NameReused, match="s3://channels/cuda"):
        bucket.publish(built)
    assert store.puts() == []


def test_a_rollback_shows_a_state_again_and_the_next_run_adds_to_it(
    store: Store, tmp_path: Path
) -> None:
    publish(tmp_path, 1, 2)
    publish(tmp_path, 3, exact=True)
    assert seen(store) == {"digit3"}
    with opened(tmp_path) as bucket:
        assert bucket.rollback(1).number == 1
    assert seen(store) == {"digit1", "digit2"}
    assert publish(tmp_path, 3).state == 3
    assert seen(store) == {"digit1", "digit2", "digit3"}


def test_old_states_go_and_a_package_stays_that_a_kept_state_names(
    store: Store, tmp_path: Path
) -> None:
    keep = Keep(states=2, unused=timedelta(0))
    publish(tmp_path, 1, keep=keep)
    publish(tmp_path, 2, exact=True, keep=keep)
    assert "noarch/digit1-1.0-h0_0.conda" in keys(store)
    done = publish(tmp_path, 3, exact=True, keep=keep)
    assert done.deleted == ("noarch/digit1-1.0-h0_0.conda",)
    now = keys(store)
    assert "noarch/digit1-1.0-h0_0.conda" not in now and "linux-64/digit2-1.0-h0_0.conda" in now
    assert not {key for key in now if key.startswith(".history/1/")}
    with opened(tmp_path, keep) as bucket:
        assert bucket.rollback(2).number == 2
    assert seen(store) == {"digit2"}


def test_objects_of_others_stay_and_their_names_are_taken(store: Store, tmp_path: Path) -> None:
    client = store.client()
    client.put_object(Bucket="channels", Key="cuda/index.html", Body=b"hello")
    client.put_object(Bucket="channels", Key="cuda/noarch/digit1-1.0-h0_0.conda", Body=b"theirs")
    with pytest.raises(NameReused):
        publish(tmp_path, 1)
    publish(tmp_path, 2, keep=Keep(2, timedelta(0)))
    assert {"index.html", "noarch/digit1-1.0-h0_0.conda"} <= keys(store)


def test_a_damaged_package_is_put_again(store: Store, tmp_path: Path) -> None:
    publish(tmp_path, 1)
    key = "noarch/digit1-1.0-h0_0.conda"
    store.client().put_object(Bucket="channels", Key=f"cuda/{key}", Body=b"damaged")
    with opened(tmp_path) as bucket, pytest.raises(UnknownName):
        bucket.rollback(1)
    assert publish(tmp_path, 1).repaired == (key,)
    assert seen(store) == {"digit1"}


def test_a_store_whose_etags_are_no_md5_is_asked_for_the_stated_sha256(
    store: Store, tmp_path: Path
) -> None:
    publish(tmp_path, 1)
    with opened(tmp_path) as bucket:
        key = "noarch/digit1-1.0-h0_0.conda"
        record = {**bucket.visible().records[key], "md5": "0" * 32}
        assert bucket._holds(key, record)
        assert not bucket._holds(key, {**record, "sha256": "0" * 64})


def test_a_folder_that_was_copied_into_a_bucket_keeps_its_states(
    store: Store, tmp_path: Path
) -> None:
    folder = Folder(tmp_path / "www", tmp_path / "recipes")
    folder.publish(build(tmp_path / "channel", digit(1)))
    folder.publish(build(tmp_path / "channel", digit(1), digit(2)))
    for file in (file for file in folder.path.rglob("*") if file.is_file()):
        key = f"cuda/{file.relative_to(folder.path)}"
        store.client().upload_file(str(file), "channels", key)
    assert publish(tmp_path, 1, 2).state == 2
    with opened(tmp_path) as bucket:
        bucket.rollback(1)
    assert seen(store) == {"digit1"}


def test_more_objects_than_one_list_has_are_all_known(store: Store, tmp_path: Path) -> None:
    store.fill(f"cuda/noarch/a{number}-1-0.txt" for number in range(1002))
    publish(tmp_path, 1)
    store.requests.clear()
    with opened(tmp_path) as bucket:
        assert len(bucket.listed) > 1002
        assert bucket.known() == {"noarch/digit1-1.0-h0_0.conda"}
    lists = [request for request in store.requests if "list-type=2" in request.path]
    assert len(lists) == 2


# --- two runs, and runs that end


def test_of_two_runs_the_later_one_ends_and_readers_see_the_other(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path, 1)
    built = build(tmp_path / "other", digit(2))
    with opened(tmp_path) as bucket:
        publish(tmp_path, 1, 3)
        monkeypatch.setattr(Bucket, "refresh", lambda self: None)  # as if it had just listed
        with pytest.raises(Busy):
            bucket.publish(built)
    assert seen(store) == {"digit1", "digit3"}


CUTS = [
    (".history/incoming.json", False),
    ("noarch/digit3-1.0-h0_0.conda", False),
    (".history/names.json", True),
    (".history/2/noarch/repodata.json", True),
    ("noarch/repodata.json", False),
    ("noarch/repodata.json", True),
    ("linux-64/repodata.json", True),
    (".history/history.json", True),
]
"""The object whose put is cut off, and whether the packages of the first run leave the index."""


@pytest.mark.parametrize(("key", "exact"), CUTS)
def test_a_cut_run_leaves_readers_with_a_whole_index_and_the_next_run_goes_on(
    store: Store, tmp_path: Path, key: str, exact: bool
) -> None:
    publish(tmp_path, 1, 2)
    store.faults.append(Fault(lambda request: request.method == "PUT" and request.key == key))
    with pytest.raises(PublishFailed) as error:
        publish(tmp_path, 3, 4, exact=exact)
    assert key in error.value.cause
    store.faults.clear()
    old, new = {"digit1", "digit2"}, {"digit3", "digit4"}
    for form in CLIENTS:
        names = seen_by(store, form)
        assert old <= names or new <= names
    publish(tmp_path, 3, 4, exact=exact)
    assert seen(store) == (new if exact else old | new)


# --- what a store answers


def refused(tmp_path: Path) -> PublishFailed:
    with pytest.raises(PublishFailed) as error:
        publish(tmp_path, 1)
    text = f"{error.value.cause} {error.value.step}"
    for secret in (LOGIN["AWS_SECRET_ACCESS_KEY"], LOGIN["AWS_SESSION_TOKEN"]):
        assert secret not in text
    return error.value


def is_package(request: Request) -> bool:
    return request.method == "PUT" and request.key.endswith(".conda")


@pytest.mark.parametrize(
    ("status", "code", "step"),
    [
        (401, "InvalidToken", "correct AWS_ACCESS_KEY_ID"),
        (403, "AccessDenied", "ask for the rights"),
        (404, "NoSuchBucket", "make the bucket"),
        (413, "EntityTooLarge", "larger than the store accepts"),
        (501, "NotImplemented", "conditional writes"),
        (500, "InternalError", "run the command again"),
        (503, "SlowDown", "run the command again"),
    ],
)
@pytest.mark.parametrize("what", ["list", "package"])
def test_a_refusal_has_the_step_that_can_help(
    store: Store, tmp_path: Path, status: int, code: str, step: str, what: str
) -> None:
    on = is_package if what == "package" else lambda request: "list-type=2" in request.path
    store.faults.append(Fault(on, status, code=code))
    error = refused(tmp_path)
    assert f"HTTP {status}" in error.cause and step in error.step
    assert not [key for key in store.puts() if key.endswith("repodata.json")]


@pytest.mark.parametrize("status", [409, 412])
def test_a_conflict_is_another_run(store: Store, tmp_path: Path, status: int) -> None:
    store.faults.append(Fault(is_package, status, code="ConditionalRequestConflict"))
    with pytest.raises(Busy, match="another run"):
        publish(tmp_path, 1)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(is_package, 500, times=1, code="InternalError"),
        Fault(is_package, 429, {"Retry-After": "0"}, times=1, code="Other"),
        Fault(is_package, 503, {"Retry-After": "0"}, times=1, code="SlowDown"),
        Fault(is_package, 0, times=1),
    ],
    ids=["500", "429", "503", "cut"],
)
def test_a_fault_that_passes_costs_time_only(store: Store, tmp_path: Path, fault: Fault) -> None:
    store.faults.append(fault)
    publish(tmp_path, 1)
    assert store.puts().count("noarch/digit1-1.0-h0_0.conda") == 2
    assert seen(store) == {"digit1"}


def test_a_store_that_asks_for_patience_gets_as_much_as_it_states(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("botocore.endpoint.time.sleep", waits.append)
    store.faults.append(Fault(is_package, 429, {"Retry-After": "7"}, times=1, code="Other"))
    publish(tmp_path, 1)
    assert waits == [7.0]


def test_a_store_that_asks_for_hours_is_an_error(store: Store, tmp_path: Path) -> None:
    store.faults.append(Fault(is_package, 429, {"Retry-After": "7200"}, code="Other"))
    assert "HTTP 429" in refused(tmp_path).cause


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_login_goes_to_another_host(store: Store, tmp_path: Path, status: int) -> None:
    """Nothing goes there: neither the login nor the package."""
    other: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            other.append(self.path)
            self.send_response(200)
            self.end_headers()

        do_GET = do_HEAD = do_PUT

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    with running(server):
        place = {"Location": f"http://localhost:{server.server_port}/elsewhere"}
        store.faults.append(Fault(is_package, status, place, code="TemporaryRedirect"))
        error = refused(tmp_path)
    assert f"HTTP {status}" in error.cause and "AWS_ENDPOINT_URL" in error.step
    assert other == []


def test_without_a_login_nothing_is_sent(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in LOGIN:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert "set AWS_ACCESS_KEY_ID" in refused(tmp_path).step
    assert store.requests == []


@pytest.mark.parametrize("address", ["s3://", "s3://a", "s3://Channels/cuda", "s3://channels//a"])
def test_what_is_no_address_of_a_bucket_is_named(tmp_path: Path, address: str) -> None:
    with pytest.raises(BadValue) as error, open_bucket(address, tmp_path, Keep()):
        pass
    assert "s3://BUCKET/PREFIX" in error.value.step


def test_a_prefix_with_a_channel_below_it_is_refused(store: Store, tmp_path: Path) -> None:
    publish(tmp_path, 1)
    problem = pytest.raises(BadValue, match="contains another channel, cuda")
    with open_bucket("s3://channels", tmp_path, Keep()) as bucket, problem:
        bucket.refuse_unless_for_readers(tmp_path)


def test_a_killed_run_leaves_readers_with_the_old_state_and_the_next_run_goes_on(
    store: Store, tmp_path: Path
) -> None:
    publish(tmp_path, 1)
    built = build(tmp_path / "other", digit(3))
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from ctk.channel.bucket import open_bucket\n"
        "from ctk.channel.publish import Keep\n"
        "with open_bucket(sys.argv[1], Path('recipes'), Keep()) as bucket:\n"
        "    bucket.publish(Path(sys.argv[2]))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, ADDRESS, str(built)])

    def kill_before_the_index(request: Request) -> bool:
        is_index = request.method == "PUT" and request.key == "noarch/run_exports.json"
        if is_index:
            process.kill()
        return is_index

    store.faults.append(Fault(kill_before_the_index))
    assert process.wait() == -signal.SIGKILL
    store.faults.clear()
    assert seen(store) == {"digit1"}
    with opened(tmp_path) as bucket:
        done = bucket.publish(built)
    assert (done.state, seen(store)) == (2, {"digit1", "digit3"})


def test_the_commands_take_a_bucket_where_they_take_a_folder(
    store: Store, two_states: Workspace, run_ctk: Callable[..., Result]
) -> None:
    said = run_ctk("publish", "--to", ADDRESS)
    assert "state 1 of s3://channels/cuda: 2 packages, 2 new" in said.stdout, said.exception
    build(two_states.channel, digit(1))
    assert json.loads(run_ctk("publish", "--to", ADDRESS, "--exact", "--yes", "--json").stdout)[
        "left"
    ]
    listed = json.loads(run_ctk("rollback", ADDRESS, "--json").stdout)
    assert [state["number"] for state in listed["states"]] == [1, 2]
    assert "s3://channels/cuda shows state 1" in run_ctk("rollback", ADDRESS, "--to", "1").stdout
    assert seen(store) == {"digit1", "digit2"}
    assert isinstance(run_ctk("rollback", "s3://channels/other").exception, UnknownName)
    assert isinstance(run_ctk("publish", "--to", "gs://channels/cuda").exception, BadValue)


def test_rattler_solves_from_the_bucket_with_the_same_variables(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path, 1, 2)
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "cache"))
    gateway = Gateway(client=Client.default_client())

    async def solve() -> list[RepoDataRecord]:
        channels, subdirs = [Channel(ADDRESS)], ["linux-64", "noarch"]
        return await rattler.solve(channels, ["digit2"], gateway=gateway, platforms=subdirs)

    assert [record.url for record in run(solve())] == [f"{ADDRESS}/linux-64/digit2-1.0-h0_0.conda"]


# ctk check


@pytest.fixture
def published(store: Store, two_states: Workspace, run_ctk: Callable[..., Result]) -> Store:
    assert run_ctk("publish", "--to", ADDRESS).exception is None
    store.requests.clear()
    return store


def test_a_published_bucket_is_checked_as_a_folder_is(
    published: Store, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    assert run_ctk("publish", "--to", str(tmp_path / "www")).exception is None
    bucket, folder = (
        json.loads(run_ctk("check", place, "--json").stdout)
        for place in (ADDRESS, str(tmp_path / "www"))
    )
    assert bucket.pop("seconds") and folder.pop("seconds")
    assert bucket == folder
    assert (bucket["ok"], bucket["packages"]) == (True, 2)
    assert {request.method for request in published.requests} <= {"GET", "HEAD"}


@pytest.mark.parametrize(
    ("key", "content", "where", "check"),
    [
        ("noarch/digit1-1.0-h0_0.conda", b"x", "noarch/digit1-1.0-h0_0.conda", "file"),
        ("noarch/digit1-1.0-h0_0.conda", None, "noarch/digit1-1.0-h0_0.conda", "file"),
        ("noarch/repodata.json.zst", b"x", "noarch/repodata.json.zst", "index"),
        ("linux-64/repodata.json", None, "linux-64/repodata.json", "index"),
        (".history/history.json", None, ".history/history.json", "index"),
        ("channel.cdx.json", b"{}", "channel.cdx.json", "sbom"),
        ("noarch/of-others.txt", b"x", "noarch/of-others.txt", "orphan"),
        ("of-others/deep/a.txt", b"x", "of-others/repodata.json", "index"),
        ("of-others.txt", b"x", "of-others.txt", "orphan"),
    ],
)
def test_what_is_wrong_in_a_bucket_is_named_with_the_step(
    published: Store,
    run_ctk: Callable[..., Result],
    key: str,
    content: bytes | None,
    where: str,
    check: str,
) -> None:
    whole = {"Bucket": "channels", "Key": f"cuda/{key}"}
    if content is None:
        published.client().delete_object(**whole)
    else:
        published.client().put_object(**whole, Body=content)
    published.requests.clear()
    done = run_ctk("check", ADDRESS, "--json")
    assert isinstance(done.exception, ChannelBroken)
    problems = json.loads(done.stdout)["problems"]
    assert (where, check) in {(problem["package"], problem["check"]) for problem in problems}
    is_orphan = check == "orphan"
    assert ("ctk rollback s3://channels/cuda" in done.exception.step) is not is_orphan
    assert not [r for r in published.requests if r.key.startswith("of-others")]  # only listed


@pytest.mark.usefixtures("store")
def test_a_prefix_without_a_channel_is_none(run_ctk: Callable[..., Result]) -> None:
    error = run_ctk("check", "s3://channels/other").exception
    assert isinstance(error, ChannelMissing) and "s3://channels/other" in error.cause


def test_the_names_of_a_bucket_are_taken(
    published: Store, two_states: Workspace, run_ctk: Callable[..., Result]
) -> None:
    assert not isinstance(run_ctk("check", "--published", ADDRESS).exception, NameReused)
    build(two_states.channel, digit(1, "changed"))
    error = run_ctk("check", "--published", ADDRESS).exception
    assert isinstance(error, NameReused) and ADDRESS in error.cause


def test_solving_from_a_bucket_is_refused_with_the_way(run_ctk: Callable[..., Result]) -> None:
    error = run_ctk("solve", "cuda-core", "--channel", ADDRESS).exception
    assert isinstance(error, BadValue)
    assert "hands out the bucket" in error.step and "`ctk check` alone" in error.step
