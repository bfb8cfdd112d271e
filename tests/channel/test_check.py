"""`ctk channel check`: a sound channel has no problem, and whatever is wrong with one is a line of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
import zstandard
from attacks import (
    EXPORTS,
    OF_INDEX,
    OF_PACKAGE,
    ONE,
    REPODATA,
    SHARDED,
    TWO,
    Attack,
    drafted,
    edit,
    in_shard,
    packed,
    recorded,
    rewritten,
    sharded,
)
from small_channels import Draft, build, digit, serve, sound
from typer.testing import Result

from ctk.build import sbom
from ctk.channel.folder import HISTORY, Folder
from ctk.channel.index_files import unpacked
from ctk.channel.server import on_server
from ctk.check.channel import check_channel, mirrored
from ctk.core.errors import ChannelBroken, ChannelMissing, NameReused, PublishFailed

pytest_plugins = ["channel_fixtures"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published folder with two packages."""
    place = tmp_path_factory.mktemp("original")
    folder = Folder(place / "www", place, now=lambda: datetime(2027, 1, 15, 8, tzinfo=UTC))
    folder.publish(build(place / "channel", sound(digit(1)), sound(digit(2, depends=("digit1",)))))
    return folder.path


@pytest.fixture(scope="module")
def url(original: Path) -> Iterator[str]:
    """The URL of the folder that the published folder is in."""
    with serve(original.parent) as address:
        yield address


@pytest.fixture
def www(original: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoilt."""
    return Path(shutil.copytree(original, tmp_path / "www"))


def found(channel: Path) -> set[tuple[str, str, str]]:
    return {(p.where, p.check, p.message) for p in check_channel(channel).findings}


def kinds(channel: Path) -> list[tuple[str, str]]:
    return [(p.where, p.check) for p in check_channel(channel).findings]


def replace_package(www: Path, draft: Draft) -> None:
    """Puts another package in place of one, with the hashes of the new one in the index."""
    rewritten(lambda content: draft.write(www.parent / "again").read_bytes())(www)


def test_a_sound_channel_has_no_problem(original: Path) -> None:
    report = check_channel(original, jobs=4)
    assert report.findings == ()
    assert (report.subjects, report.sboms) == (2, 2)
    assert report.size == sum(p.stat().st_size for p in original.glob("*/*.conda"))


def test_a_built_channel_is_checked_as_well(tmp_path: Path) -> None:
    build(tmp_path / "channel", sound(digit(1)))
    assert check_channel(tmp_path / "channel").findings == ()


def test_what_left_the_index_of_a_published_folder_is_no_orphan(www: Path, tmp_path: Path) -> None:
    Folder(www, tmp_path).publish(build(tmp_path / "next", sound(digit(1))), exact=True)
    assert (www / TWO).is_file()
    assert found(www) == set()


def test_a_run_that_was_killed_is_said_until_the_next_one_ends(
    www: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers see the new index, and the history does not know of it."""
    folder, channel = Folder(www, tmp_path), build(tmp_path / "next", sound(digit(1)), sound(digit(4)))

    def dies(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("ctk.channel.folder.save", dies)
        with pytest.raises(KeyboardInterrupt):
            folder.publish(channel)
    said = [p for p in check_channel(www).findings if p.where.endswith("repodata.json")]
    assert [p.where for p in said] == ["linux-64/repodata.json"]
    assert said[0].message.endswith("publish again")
    folder.publish(channel)
    assert found(www) == set()


def test_a_package_that_is_cut_short_or_changed_is_named(www: Path) -> None:
    content = (www / ONE).read_bytes()
    (www / ONE).write_bytes(content[: len(content) // 2])
    assert [c for n, c in kinds(www) if n == ONE] == ["file"] * 4  # md5, sha256, size, and that it does not open
    middle = len(content) // 2
    (www / ONE).write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    assert {(n, c) for n, c in kinds(www)} == {(ONE, "file")}


OTHER = {"sha256": "0" * 64, "size_in_bytes": 1}
FIRST = "it was published first at 2027-01-15T08:00:00.000+00:00"


@pytest.mark.parametrize(
    ("attack", "check", "what"),
    [
        (recorded(name="digit"), "metadata", "repodata says name 'digit', its index.json 'digit2'"),
        (recorded(build_number=1), "metadata", "repodata says build_number 1, its index.json 0"),
        (recorded(depends=[]), "metadata", "repodata says depends [], its index.json [digit1]"),
        (recorded(track_features="f"), "metadata", "repodata says track_features 'f', its index.json nothing"),
        (recorded(timestamp=1), "metadata", "repodata says timestamp 1, its index.json 1700000000000"),
        (recorded(indexed_timestamp=1_800_000_000_001), "index", "repodata says 1800000000001 as its indexed_timest"),
        (recorded(indexed_timestamp=None), "index", f"repodata has no indexed_timestamp, and {FIRST}"),
        (recorded(indexed_timestamp="2027"), "index", "its indexed_timestamp is '2027', and no number of milliseconds"),
        (recorded(indexed_timestamp=True), "index", "its indexed_timestamp is True, and no number of milliseconds"),
        (drafted(listed={"share/digit": {"sha256": "0" * 64}}), "payload", "share/digit: paths.json says sha256"),
        (drafted(listed={"share/digit": {"size_in_bytes": 9}}), "payload", "share/digit: paths.json says 9 bytes, the"),
        (drafted(listed={"share/digit": None}), "payload", "share/digit: in the archive, missing in paths.json"),
        (drafted(listed={"share/x": OTHER}), "payload", "share/x: listed in paths.json, missing in the archive"),
    ],
)
def test_what_differs_from_a_package_is_named(www: Path, attack: Attack, check: str, what: str) -> None:
    attack(www)
    ((name, said, text),) = found(www)
    assert (name, said) == (TWO, check)
    assert text.startswith(what)


def test_a_package_that_was_published_before_it_was_made_is_named(www: Path) -> None:
    shutil.rmtree(www / HISTORY)  # a copy that lacks it, as some servers hand it out
    assert found(www) == set()
    recorded(indexed_timestamp=1_600_000_000_000)(www)
    what = "its indexed_timestamp is 1600000000000, before the package was made (1700000000000)"
    assert found(www) == {(TWO, "index", what)}


@pytest.mark.parametrize("record", [{}, {"name": "a", "depends": 7}, {"depends": 7, "version": {}}])
def test_a_record_that_is_none_is_named(www: Path, record: Mapping[str, object]) -> None:
    edit(www, REPODATA, lambda index: index["packages.conda"].update({Path(TWO).name: record}))
    lines = found(www)
    assert (TWO, "file", "repodata has no sha256 of it") in lines
    assert (TWO, "metadata", "repodata says subdir nothing, its index.json 'linux-64'") in lines


def test_hashes_in_repodata_are_compared(www: Path) -> None:
    recorded(sha256="0" * 64, md5="0" * 32, size=1)(www)
    assert kinds(www) == [(TWO, "file")] * 3
    recorded(sha256=7, size="?")(www)
    assert [kind for kind in kinds(www) if kind[0] == TWO] == [(TWO, "file")] * 3


def test_run_exports_are_read_again_from_inside(www: Path) -> None:
    name = Path(TWO).name
    edit(www, EXPORTS, lambda c: c["packages.conda"].update({name: {"run_exports": {"weak": ["x"]}}}))
    says = "run_exports.json says weak: [x], the package weak: [digit >=2]"
    assert found(www) == {(TWO, "run-exports", says)}
    edit(www, EXPORTS, lambda c: c["packages.conda"].update({name: {"run_exports": 7}}))
    assert kinds(www) == [(TWO, "run-exports")]
    edit(www, EXPORTS, lambda c: c["packages.conda"].clear())
    assert found(www) == {(TWO, "run-exports", "run_exports.json does not name it")}


def test_a_package_under_another_name_or_subdir_is_named(www: Path) -> None:
    replace_package(www, sound(digit(2, depends=("digit1",), index={"version": "1.1"})))
    assert (TWO, "metadata", "it is digit2-1.1-h0_0 by its own index.json") in found(www)
    replace_package(www, sound(digit(2, depends=("digit1",), index={"subdir": "win-64"})))
    assert (TWO, "metadata", "it is for win-64 by its own index.json") in found(www)


def test_an_entry_without_a_file_and_a_file_without_an_entry_are_named(www: Path) -> None:
    (www / TWO).rename(www / "linux-64" / "other-1-0.conda")
    shutil.rmtree(www / HISTORY)
    assert found(www) == {
        (TWO, "file", "the index names it, and it is not there"),
        ("linux-64/other-1-0.conda", "orphan", "the index does not name it"),
    }
    edit(www, REPODATA, lambda index: index["packages.conda"].clear())
    assert (TWO, "orphan", "run_exports.json names it, and there is no such package") in found(www)


def test_what_a_killed_run_left_is_named(www: Path) -> None:
    for name in (".digit1-1.0-h0_0.conda.123.part", ".digit9-1.0-h0_0.conda.123.part", "digit9-1.0-h0_0.conda.sigs"):
        (www / "noarch" / name).write_bytes(b"")
    assert {what for _, check, what in found(www) if check == "orphan"} == {
        "a killed run left it; the next one removes it",
        "the index does not name it",
        "the package that it attests is not there",
    }


NO_INDEX = [b"", b"[]", b"7", b'{"packages.conda": []}', b'{"info": 7}', b"\xff", b"[" * 100_000]


@pytest.mark.parametrize("content", NO_INDEX, ids=range(len(NO_INDEX)))
@pytest.mark.parametrize("file", ["repodata.json", "run_exports.json"])
def test_an_index_file_that_is_none_is_a_line(www: Path, file: str, content: bytes) -> None:
    (www / "linux-64" / file).write_bytes(content)
    assert (f"linux-64/{file}", "index") in kinds(www)


def test_a_compressed_index_that_says_something_else_is_a_line(www: Path) -> None:
    packed = www / "linux-64" / "repodata.json.zst"
    plain = (www / "linux-64" / "repodata.json").read_bytes()
    bomb = zstandard.ZstdCompressor().compress(plain + b" " * (1 << 24))
    for content in (bomb, zstandard.ZstdCompressor().compress(plain[:-1]), zstandard.ZstdCompressor().compress(b"")):
        packed.write_bytes(content)
        assert found(www) == {("linux-64/repodata.json.zst", "index", "does not unpack to repodata.json")}
    for content in (b"", b"plain"):
        packed.write_bytes(content)
        assert kinds(www) == [("linux-64/repodata.json.zst", "index")]
    packed.unlink()
    assert found(www) == {("linux-64/repodata.json.zst", "index", "is not there")}


def rewrite(name: str, change: Callable[[bytes], bytes]) -> Attack:
    """Another content of the first file of that name."""

    def attack(www: Path) -> None:
        file = min(www.glob(f"linux-64/{name}"))
        file.write_bytes(change(file.read_bytes()))

    return attack


def named(change: Callable[[dict[str, bytes]], object]) -> Attack:
    """Another choice of shards in the index."""

    def attack(www: Path) -> None:
        content = unpacked(www / SHARDED)
        change(content["shards"])
        (www / SHARDED).write_bytes(packed(content))

    return attack


def repacked(content: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(zstandard.ZstdDecompressor().decompress(content))


STEM, SHARD = Path(TWO).name, "shards/*"
BY_SHARDS: Mapping[str, tuple[Attack, str]] = {
    "no index": (lambda www: (www / SHARDED).unlink(), "is not there"),
    "an index cut short": (rewrite(Path(SHARDED).name, lambda content: content[:-1]), "cannot be read: "),
    "an index of another subdir": (sharded(subdir="win-64"), "has base_url: '', shards_base_url: './shards/', subdir"),
    "a name more": (named(lambda shards: shards.update(x=bytes(32))), f"is not about the same packages: {SHARDED[9:]}"),
    "a name less": (named(lambda shards: shards.clear()), "is not about the same packages: repodata.json has digit2"),
    "a name that is no path": (named(lambda shards: shards.update(digit2=b"/.")), "is not about the same packages"),
    "no shard": (lambda www: min(www.glob(f"linux-64/{SHARD}")).unlink(), "is not there (repodata_shards.msgpack.zst"),
    "a shard that is none": (rewrite(SHARD, lambda content: b"none"), "cannot be read: "),
    "a shard with another sha256": (rewrite(SHARD, repacked), "has another sha256 than its name says"),
    "another record": (
        in_shard(lambda shard: shard["packages.conda"][STEM].update(build_number=1)),
        f"does not say of {STEM} what repodata.json says",
    ),
    "a record more": (in_shard(lambda shard: shard["packages.conda"].update(x={})), "does not say of x what"),
    "a record less": (in_shard(lambda shard: shard["packages.conda"].clear()), f"does not say of {STEM} what"),
    "no records": (in_shard(lambda shard: shard.update({"packages.conda": 7})), "cannot be read: "),
    "a removed package": (in_shard(lambda shard: shard.update(removed=[STEM])), "has [digit2-1.0-h0_0.conda] as remov"),
}


@pytest.mark.parametrize(("attack", "what"), BY_SHARDS.values(), ids=BY_SHARDS)
def test_what_a_reader_of_shards_alone_would_get_is_a_line_and_the_next_publish_mends_it(
    original: Path, url: str, tmp_path: Path, attack: Attack, what: str
) -> None:
    www = Path(shutil.copytree(original, original.parent / tmp_path.name))
    attack(www)
    lines = {line for line in found(www) if line[1] != "orphan"}
    assert any(name.startswith(("linux-64/shards/", SHARDED)) and text.startswith(what) for name, _, text in lines)
    assert all(text.endswith("; publish or build the channel again") for _, _, text in lines)
    with mirrored(f"{url}/{www.name}", tmp_path) as seen:
        assert found(seen) == lines
    Folder(www, tmp_path).publish(build(tmp_path / "channel", sound(digit(1)), sound(digit(2, depends=("digit1",)))))
    assert found(www) == set()


def test_a_file_among_shards_that_no_index_names_is_a_line(www: Path) -> None:
    names = ("x", "repodata.json", f"{'0' * 64}.msgpack.zst", f".{'0' * 64}.msgpack.zst.7.part")
    for name in names:
        (www / "linux-64" / "shards" / name).write_bytes(b"")
    said = dict.fromkeys(names, "the index does not name it")
    said[names[-1]] = "a killed run left it; the next one removes it"
    assert found(www) == {(f"linux-64/shards/{name}", "orphan", text) for name, text in said.items()}


def test_entries_that_point_elsewhere_are_not_followed(www: Path, tmp_path: Path) -> None:
    shutil.copy(www / ONE, tmp_path / "secret.conda")
    edit(www, REPODATA, lambda index: index["packages.conda"].update({"../../secret.conda": {}, "..": 7}))
    lines = {text for name, check, text in found(www) if (name, check) == ("linux-64/repodata.json", "index")}
    assert len(lines) == 2
    assert all("that cannot be read" in line for line in lines)


def test_a_folder_without_an_index_is_said_to_have_none(tmp_path: Path, www: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert found(tmp_path / "empty") == {
        ("noarch/repodata.json", "index", "is not there; clients refuse a channel without it")
    }
    for file in (www / "noarch").glob("r*.json*"):
        file.unlink()
    assert set(kinds(www)) == {(f"noarch/{file}", "index") for file in ("repodata.json", "run_exports.json")}
    with pytest.raises(ChannelMissing, match="there is no channel"):
        check_channel(tmp_path / "absent")


NO_TAR = zstandard.ZstdCompressor().compress(b"no tar" * 500)


@pytest.mark.parametrize("halves", [None, (), (b"no zstd",), (NO_TAR, b"no zstd")])
def test_a_file_that_is_no_package_is_a_line(www: Path, halves: Sequence[bytes] | None) -> None:
    with zipfile.ZipFile(www / ONE, "w") as archive:
        archive.writestr("metadata.json", "{}")
        for half, content in zip(("info", "pkg"), halves or (), strict=False):
            archive.writestr(f"{half}-{Path(ONE).stem}.tar.zst", content)
    if halves is None:
        (www / ONE).write_bytes(b"no zip")
    lines = [text for name, check, text in found(www) if (name, check) == (ONE, "file")]
    assert len(lines) == 4
    assert any("cannot be read" in line or "holds " in line for line in lines)


@pytest.mark.parametrize(
    ("info", "what"),
    [
        ({"about.json": b"{}"}, "there is none"),
        ({"sboms/digit2.cdx.json": b"{}"}, "it is not valid CycloneDX"),
        ({"sboms/digit2.cdx.json": b"no JSON"}, "it is not valid CycloneDX"),
        ({"sboms/digit2.cdx.json": b"[" * 100_000}, "it is not valid CycloneDX"),
        ({"sboms/digit2.cdx.json": b" " * (1 << 20) + b"{}"}, "it has more than 1048576 bytes"),
        ({"sboms/other.cdx.json": b"{}"}, "info/sboms/other.cdx.json is none of this package"),
    ],
    ids=["none", "empty", "words", "deep", "large", "other"],
)
def test_an_sbom_that_is_none_is_a_line(www: Path, info: Mapping[str, bytes], what: str) -> None:
    replace_package(www, digit(2, depends=("digit1",)).with_(info=info))
    lines = found(www)
    assert {(name, check) for name, check, _ in lines} == {(TWO, "sbom")}
    assert any(text.startswith(what) for _, _, text in lines)


def test_an_sbom_about_something_else_is_a_line(www: Path) -> None:
    text = sound(digit(2, version="1.1")).info[sbom.place("digit2").removeprefix("info/")]
    replace_package(www, digit(2, depends=("digit1",)).with_(info={"sboms/digit2.cdx.json": text}))
    assert found(www) == {(TWO, "sbom", "it is about digit2 1.1 h0_0 for linux-64")}
    replace_package(www, sound(digit(2, depends=("digit1",)), commit="", licence=""))
    assert {text.split(":")[0].split(" of ")[0] for _, _, text in found(www)} == {
        "it names no commit",
        "it states no licence",
    }


def test_the_command_lists_every_problem_in_one_table(www: Path, run_ctk: Callable[..., Result]) -> None:
    good = run_ctk("channel", "check", str(www))
    assert good.exception is None
    assert "2 packages, 0.0 MB, 2 with a sound SBOM: 0 problems" in good.stdout
    (www / ONE).unlink()
    recorded(depends=[])(www)
    bad = run_ctk("channel", "check", str(www))
    assert isinstance(bad.exception, ChannelBroken)
    assert bad.exception.cause.startswith("2 problems in")
    for text in (ONE, TWO, "it is not there", "repodata says depends"):
        assert text in bad.stdout
    report = json.loads(run_ctk("channel", "check", str(www), "--json").stdout)
    assert report["problems"] == check_channel(www).as_json()["problems"]


def test_a_name_that_is_published_with_other_content_is_found_beforehand(
    www: Path, tmp_path: Path, run_ctk: Callable[..., Result]
) -> None:
    changed = str(build(tmp_path / "changed", sound(digit(1, "changed")), sound(digit(2, depends=("digit1",)))))
    with serve(www) as url:
        assert on_server(url)
        for where in (url, str(www)):
            done = run_ctk("channel", "check", changed, "--published", where)
            assert isinstance(done.exception, NameReused)
            assert "build: number" in done.exception.step
            assert ONE in done.stdout
            assert TWO not in done.stdout
            assert run_ctk("channel", "check", str(www), "--published", where).exception is None


def test_a_channel_on_a_server_is_checked_as_clients_get_it(www: Path, run_ctk: Callable[..., Result]) -> None:
    with serve(www) as url:
        assert "0 problems" in run_ctk("channel", "check", url).stdout
        (www / ONE).write_bytes((www / ONE).read_bytes() + b"more" * 100_000)
        (www / TWO).unlink()
        edit(www, REPODATA, lambda index: index["packages.conda"].update({"../../x": {}, "..": {"size": 1}}))
        report = json.loads(run_ctk("channel", "check", url, "--json").stdout)
        lines = {(p["package"], p["check"], p["what"].split(" 0")[0]) for p in report["problems"]}
    assert (TWO, "file", "the index names it, and it is not there") in lines
    assert any(n == ONE and w.startswith("repodata says size") for n, _, w in lines)
    assert [n for n, c, _ in lines if c == "index"]


def test_a_server_that_does_not_answer_is_an_error(tmp_path: Path, run_ctk: Callable[..., Result]) -> None:
    with serve(tmp_path) as url:
        empty = run_ctk("channel", "check", url)
    assert isinstance(empty.exception, ChannelBroken)
    assert "clients refuse a channel without it" in " ".join(empty.stdout.replace("│", "").split())
    gone = run_ctk("channel", "check", url.replace("//", "//user:password@"))
    assert isinstance(gone.exception, PublishFailed)
    assert "password" not in gone.exception.cause


def test_what_is_slow_to_load_is_loaded_when_it_is_needed() -> None:
    slow = {"sigstore", "cryptography", "jsonschema", "unearth", "distributed", "lief"}
    modules = ", ".join(f"ctk.cli.{name}" for name in ("build", "channel", "checks", "env", "release", "solve"))
    code = f"import sys, {modules}; print(sorted({slow} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


ATTACKS = {name: (attack, TWO, check) for name, (attack, check) in OF_PACKAGE.items()}
ATTACKS |= {name: (attack, file, "") for name, (attack, file) in OF_INDEX.items()}


@pytest.mark.parametrize(("attack", "where", "check"), ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_a_problem_on_the_disk_and_from_outside(
    original: Path, url: str, tmp_path: Path, attack: Attack, where: str, check: str
) -> None:
    www = Path(shutil.copytree(original, original.parent / tmp_path.name))
    attack(www)
    lines = set(kinds(www))
    assert (where, check) in lines or (where in {name for name, _ in lines} and not check)
    assert not any(name == ONE for name, _ in lines)
    with mirrored(f"{url}/{www.name}", tmp_path) as seen:
        assert set(kinds(seen)) == lines


def test_a_sound_channel_has_no_problem_from_outside(original: Path, url: str, tmp_path: Path) -> None:
    with mirrored(f"{url}/{original.name}", tmp_path) as seen:
        assert (seen / HISTORY).is_dir()
        assert found(seen) == set()
