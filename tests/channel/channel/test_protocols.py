"""Uploads by the protocol of each kind of server: what rattler-build sends, and what it refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from ctk.channel.server import Server, _step_after, _upload, publish
from ctk.core.errors import BadValue, PublishFailed
from ctk.core.pool import ProcessPool
from kit.protocol_server import TOLD, ProtocolServer, protocol_server
from kit.small_channels import Draft, digit

pytest_plugins = ["kit.channel_fixtures"]

FILE = "digit2-1.0-h0_0.conda"
CHANNELS = {
    "prefix": "cuda",
    "quetz": "cuda",
    "artifactory": "cuda",
    "anaconda": "acme/main",
    "cloudsmith": "acme/cuda",
}
SENT = {
    "prefix": [("POST", "/api/v1/upload/cuda", "Bearer the-key")],
    "quetz": [("POST", f"/api/channels/cuda/upload/{FILE}", "the-token")],
    "artifactory": [("PUT", f"/cuda/linux-64/{FILE}", "Bearer the-key")],
    "anaconda": [
        ("GET", "/package/acme/digit2", "token the-token"),
        ("POST", "/package/acme/digit2", "token the-token"),
        ("GET", "/release/acme/digit2/1.0", "token the-token"),
        ("POST", "/release/acme/digit2/1.0", "token the-token"),
        ("POST", f"/stage/acme/digit2/1.0/linux-64/{FILE}", "token the-token"),
        ("POST", "/content", ""),
        ("POST", f"/commit/acme/digit2/1.0/linux-64/{FILE}", "token the-token"),
    ],
    "cloudsmith": [
        ("POST", "/files/acme/cuda/", "the-key"),
        ("POST", "/content", ""),
        ("POST", "/packages/acme/cuda/upload/conda/", "the-key"),
    ],
}
"""What rattler-build 0.73 sends for a package; the content goes without the login to its place."""
STEPS = {
    401: "the login in the file",
    402: "the account there is full",
    403: "that login may not write",
    409: "the server has this name",
    413: "larger than the server accepts",
    422: "looked into the package",
    429: "run the command again",
    500: "run the command again",
}
UNSAID = "rattler-build does not say it"
REFUSALS = {
    # Where a kind of server refuses, the status, and the step.
    "prefix": [("/", status, STEPS[status]) for status in (401, 403, 413, 422)],
    "quetz": [("/", status, UNSAID) for status in (401, 403, 409, 422, 500)],
    "artifactory": [("/", status, UNSAID) for status in (401, 403, 404, 409, 413, 500)],
    "anaconda": [
        *(("/package", status, STEPS[status]) for status in (401, 403, 429, 500)),
        ("/package", 404, UNSAID),  # there is none, and it is not made
        ("/release", 404, UNSAID),
        *(("/stage", status, STEPS[status]) for status in (401, 402, 403, 409, 413)),
        *(("/content", status, "that was the store") for status in (400, 403, 413)),
        *(("/commit", status, STEPS[status]) for status in (402, 403, 500)),
    ],
    "cloudsmith": [
        *(("/files", status, STEPS[status]) for status in (401, 403, 422, 429)),
        *(("/content", status, UNSAID) for status in (400, 403)),
        *(("/packages", status, STEPS[status]) for status in (401, 403, 409, 422, 500)),
    ],
}
AGAIN = {
    "prefix": "",  # what it lists is compared afterwards
    "quetz": "Server responded with error",
    "artifactory": "",  # it takes the same path again
    "anaconda": f"file {FILE} already exists",
    "cloudsmith": "",  # it looks at the package later
}
"""What rattler-build says of a package that is there."""
REASON = {"prefix", "cloudsmith"}
"""Those whose reason for a refusal it gives."""


@pytest.fixture
def server() -> Iterator[ProtocolServer]:
    with protocol_server() as running:
        yield running


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return digit(2).write(tmp_path / "channel")


@pytest.fixture(autouse=True)
def _no_other_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PREFIX_API_KEY", "QUETZ_API_KEY", "ANACONDA_API_KEY", "CLOUDSMITH_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RATTLER_AUTH_FILE", raising=False)


Upload = Callable[[Path, Server], str]


@pytest.fixture
def upload(tmp_path: Path) -> Iterator[Upload]:
    """What rattler-build says of an upload, which it makes in one other process."""
    pools: list[ProcessPool] = []

    def made(package: Path, place: Server) -> str:
        if not pools:
            pools.append(ProcessPool(1))
        said: str = pools[0].submit(_upload, str(package), place, False).result(300)
        return said

    yield made
    for pool in pools:
        pool.end()


def log_in(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_token = kind in ("quetz", "anaconda")
    login = {"CondaToken": "the-token"} if is_token else {"BearerToken": "the-key"}
    (tmp_path / "auth.json").write_text(json.dumps({"127.0.0.1": login}))
    monkeypatch.setenv("RATTLER_AUTH_FILE", str(tmp_path / "auth.json"))


@pytest.mark.parametrize("kind", CHANNELS)
def test_each_kind_is_sent_what_its_protocol_has_with_the_login_for_its_host(
    kind: str,
    server: ProtocolServer,
    package: Path,
    upload: Upload,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log_in(kind, tmp_path, monkeypatch)
    place = Server.at(kind, f"{server.url}/{CHANNELS[kind]}")
    assert upload(package, place) == ""
    assert server.requests == SENT[kind]
    again = upload(package, place)
    assert again == AGAIN[kind]
    if kind == "anaconda":
        assert STEPS[409] in _step_after(again, 1, place)


@pytest.mark.parametrize("kind", CHANNELS)
def test_a_refusal_says_what_can_help(
    kind: str,
    server: ProtocolServer,
    package: Path,
    upload: Upload,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log_in(kind, tmp_path, monkeypatch)
    place = Server.at(kind, f"{server.url}/{CHANNELS[kind]}")
    for at, status, step in REFUSALS[kind]:
        server.there.clear()
        server.status, server.at = status, at
        problem = upload(package, place)
        assert step in _step_after(problem, 1, place), (at, status, problem)
        assert (TOLD in problem) is (kind in REASON and step != UNSAID), problem


@pytest.mark.sweep
def test_cloudsmith_takes_no_upload_in_parts_from_rattler_build(
    server: ProtocolServer, upload: Upload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended at a path that Cloudsmith's API has not. If this fails, rattler-build is mended:
    take it from docs/maintainers.md and docs/upstream.
    """
    log_in("cloudsmith", tmp_path, monkeypatch)
    large = Draft("large", files={"a": os.urandom(101 << 20)}).write(tmp_path / "channel")
    place = Server.at("cloudsmith", f"{server.url}/acme/cuda")
    problem = upload(large, place)
    assert server.requests[-1][:2] == ("POST", "/files/acme/cuda/complete/")
    assert "cloudsmith push conda acme/cuda FILE" in _step_after(problem, 1, place)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_of_an_address_that_redirects_the_next_one_is_to_be_named(status: int) -> None:
    problem = f"Failed to upload package file: {FILE} Status: {status} Found Body:"
    assert "name the address that answers" in _step_after(problem, 0, Server("quetz", "u", "c"))


@pytest.mark.parametrize("kind", ["quetz", "artifactory"])
def test_without_a_login_nothing_is_sent_and_the_step_says_which_kind_it_takes(
    kind: str, server: ProtocolServer, package: Path
) -> None:
    with pytest.raises(PublishFailed) as error:
        publish([package], Server.at(kind, f"{server.url}/cuda"))
    login = "CondaToken" if kind == "quetz" else "BearerToken"
    assert f'{{"127.0.0.1": {{"{login}": "KEY"}}}}' in error.value.step
    assert server.requests == []


@pytest.mark.parametrize(
    ("kind", "address", "url", "channel"),
    [
        ("quetz", "https://quetz.example.org/cuda/", "https://quetz.example.org", "cuda"),
        (
            "artifactory",
            "https://a.example/artifactory/cuda",
            "https://a.example/artifactory",
            "cuda",
        ),
        ("anaconda", "https://api.example.org/acme/main", "https://api.example.org", "acme/main"),
    ],
)
def test_an_address_has_the_server_and_its_channel(
    kind: str, address: str, url: str, channel: str
) -> None:
    assert Server.at(kind, address) == Server(kind, url, channel)


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        ("nexus", "https://nexus.example.org/cuda"),
        ("quetz", "https://quetz.example.org"),
        ("cloudsmith", "https://api.example.org/acme"),
    ],
)
def test_what_names_no_channel_of_a_server_is_refused_with_the_form(
    kind: str, address: str
) -> None:
    with pytest.raises(BadValue) as error:
        Server.at(kind, address)
    assert "name one as in" in error.value.step


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--to", "quetz+https://q.example.org/cuda"), "name the address with --url"),
        (("--to", "nexus+https://n.example.org/cuda"), "quetz+https://HOST/CHANNEL"),
        ((), "name a folder, s3://BUCKET/PREFIX or KIND+https://HOST/CHANNEL with --to"),
        (("--to", "oci://o.example.org/cuda"), "prefix+https://HOST/CHANNEL"),
        (("--to", "quetz+https://q.example.org/cuda", "--exact"), "leave out --exact"),
    ],
)
def test_what_a_command_line_lacks_is_said(
    run_ctk: Callable[..., Result], words: tuple[str, ...], said: str
) -> None:
    error = run_ctk("publish", *words).exception
    assert isinstance(error, BadValue) and said in error.step
