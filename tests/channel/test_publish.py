"""Uploading a channel: what a package needs is there before it, and a run that broke off is gone on with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctk.channel.repodata import in_order
from ctk.channel.server import publish
from ctk.core.errors import ChannelBroken, PublishFailed
from kit.upload_server import upload_server

KEYS = ("PREFIX_API_KEY", "ACTIONS_ID_TOKEN_REQUEST_URL", "GITHUB_ACTIONS")


@pytest.fixture(autouse=True)
def _key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key for the server is at hand, where rattler keeps keys."""
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "auth.json").write_text(json.dumps({"127.0.0.1": {"BearerToken": "the-key"}}))
    monkeypatch.setenv("RATTLER_AUTH_FILE", str(tmp_path / "auth.json"))


def channel(folder: Path, depends: Mapping[str, Sequence[str]]) -> list[Path]:
    """The packages of a channel with these dependencies, in the order of upload; the files hold nothing."""
    (folder / "noarch").mkdir(parents=True, exist_ok=True)
    records = {
        f"{name}-1-0.conda": {"name": name, "depends": list(needs), "sha256": "00"} for name, needs in depends.items()
    }
    for file in records:
        (folder / "noarch" / file).write_bytes(b"package")
    (folder / "noarch" / "repodata.json").write_text(json.dumps({"packages.conda": records}))
    return in_order(folder)


def names(files: Sequence[Path]) -> list[str]:
    return [file.name.partition("-")[0] for file in files]


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.sampled_from("abcdefgh"), max_size=4), min_size=1))
def test_every_package_comes_once_and_after_its_needs_unless_they_are_in_a_circle(
    tmp_path_factory: pytest.TempPathFactory, depends: dict[str, list[str]]
) -> None:
    order = names(channel(tmp_path_factory.mktemp("channel"), depends))
    assert sorted(order) == sorted(depends)

    def reaches(start: str) -> set[str]:
        found, stack = set(), [start]
        while stack:
            for need in depends.get(stack.pop(), ()):
                if need not in found:
                    found.add(need)
                    stack.append(need)
        return found

    for name, needs in depends.items():
        for need in needs:
            assert need not in depends or name in reaches(need) or order.index(need) < order.index(name)


def test_all_of_it_is_uploaded_with_the_key_that_rattler_has(tmp_path: Path) -> None:
    files, seen = channel(tmp_path / "channel", {"a": ["b"], "b": []}), []
    with upload_server(tmp_path / "server") as server:
        publish(files, server.url, "cuda", progress=seen.append)
    assert [(r["path"], r["key"]) for r in server.requests] == [("/api/v1/upload/cuda", "Bearer the-key")] * 2
    assert server.files == ["b-1-0.conda", "a-1-0.conda"]
    assert seen == files


@pytest.mark.parametrize(
    "status",
    [pytest.param(0, marks=pytest.mark.sweep), 500, *(pytest.param(n, marks=pytest.mark.sweep) for n in (401, 429))],
)
def test_a_refusal_or_no_answer_stops_before_what_needs_the_package_and_the_next_run_goes_on(
    tmp_path: Path, status: int
) -> None:
    said = status or "no answer in"
    files = channel(tmp_path / "channel", {"a": ["b"], "b": ["c"], "c": []})
    with upload_server(tmp_path / "server", **{"b-1": status}) as server:
        with pytest.raises(PublishFailed, match=rf"does not take b-1-0\.conda for the channel cuda.*{said}") as error:
            publish(files, server.url, "cuda", patience=120 if status else 15)
        assert error.value.step == "1 packages were sent before it; run the command again to go on"
        assert list(dict.fromkeys(server.files)) == ["c-1-0.conda", "b-1-0.conda"]  # rattler asks again at some answers
    with upload_server(tmp_path / "mended") as mended:
        publish(files, mended.url, "cuda")
        assert mended.files == ["c-1-0.conda", "b-1-0.conda", "a-1-0.conda"]
        mended.stop()
        with pytest.raises(PublishFailed, match="does not take c-1-0"):  # a server that is down
            publish(files, mended.url, "cuda")


def test_without_a_key_or_an_identity_nothing_is_sent(tmp_path: Path) -> None:
    files = channel(tmp_path / "channel", {"a": []})
    with upload_server(tmp_path / "server") as server:
        with pytest.raises(PublishFailed, match="attestation") as error:
            publish(files, server.url, "cuda", attest=True)
        assert "id-token: write" in error.value.step
        (tmp_path / "auth.json").write_text("{}")
        with pytest.raises(PublishFailed, match="key"):
            publish(files, server.url, "cuda")
    assert server.requests == []


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '{"packages.conda": {}}'])
def test_a_folder_that_is_no_channel_is_named(tmp_path: Path, text: str | None) -> None:
    (tmp_path / "noarch").mkdir()
    if text is not None:
        (tmp_path / "noarch" / "repodata.json").write_text(text)
    with pytest.raises((ChannelBroken, PublishFailed), match=str(tmp_path)):
        in_order(tmp_path)
