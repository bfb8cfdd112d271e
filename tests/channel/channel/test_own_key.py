"""Attestations by a company's own key: made for a folder, verified, and found wrong."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from ctk.channel.check import check_channel
from ctk.channel.publish import FIELD, Folder
from ctk.channel.repodata import FILES, read_index, write_index
from ctk.core.errors import BadValue, ChannelBroken
from kit.small_channels import build, digit

pytest.importorskip("securesystemslib", reason="the extra `attest` of ctk is not installed")

from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519

from ctk.channel.attestations import Policy
from ctk.channel.own_key import OwnKey

pytest_plugins = ["kit.channel_fixtures", "kit.object_store_fixtures"]

URL = "https://conda.example.org/cuda"
NAME = "noarch/digit1-1.0-h0_0.conda"


def write_keys(place: Path, name: str, key: Any, password: bytes | None = None) -> None:
    """NAME.pem and NAME.pub."""
    how = forms.BestAvailableEncryption(password) if password else forms.NoEncryption()
    private = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, how)
    public = key.public_key().public_bytes(
        forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo
    )
    (place / f"{name}.pem").write_bytes(private)
    (place / f"{name}.pub").write_bytes(public)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    write_keys(tmp_path, "ours", ed25519.Ed25519PrivateKey.generate())
    write_keys(tmp_path, "other", ec.generate_private_key(ec.SECP256R1()))
    write_keys(tmp_path, "rsa", rsa.generate_private_key(65537, 2048))
    write_keys(tmp_path, "locked", ec.generate_private_key(ec.SECP256R1()), b"the-password")
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path, keys: Path) -> Folder:
    made = Folder(tmp_path / "www", tmp_path)
    attester = OwnKey(URL, keys / "ours.pem")
    made.publish(build(tmp_path / "channel", digit(1)), attester=attester)
    return made


def found(folder: Folder, key: Path, channel: str | None = URL, required: bool = True) -> list[str]:
    policy = Policy(channel=channel, required=required, key=key)
    report = check_channel(folder.path, policy=policy)
    return [f.message for f in report.findings if f.check == "attestation"]


@pytest.mark.parametrize("name", ["other", "rsa", "locked"])
def test_each_kind_of_key_signs_and_verifies(
    keys: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTK_KEY_PASSWORD", "the-password" if name == "locked" else "")
    made = Folder(tmp_path / name, tmp_path)
    made.publish(build(tmp_path / "c", digit(1)), attester=OwnKey(URL, keys / f"{name}.pem"))
    assert found(made, keys / f"{name}.pub") == []


def test_another_key_or_another_channel_is_a_problem(folder: Folder, keys: Path) -> None:
    assert found(folder, keys / "ours.pub") == []
    assert found(folder, keys / "ours.pub", channel=None) == []
    assert "another key" in found(folder, keys / "other.pub")[0]
    assert "it is for https" in found(folder, keys / "ours.pub", channel=f"{URL}-2")[0]


def test_a_new_key_and_a_new_address_sign_beside_the_old_ones(
    folder: Folder, keys: Path, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    first = json.loads((folder.path / f"{NAME}.sigs").read_bytes())
    old = read_index(folder.path).records[NAME][FIELD]
    built = (tmp_path / "channel").resolve()
    for key, url in (("other", URL), ("ours", f"{URL}-2")):
        attester = OwnKey(url, keys / f"{key}.pem")
        assert folder.publish(built, attester=attester).signed == (NAME,)
        assert folder.publish(built, attester=attester).signed == ()
    assert json.loads((folder.path / f"{NAME}.sigs").read_bytes())[:1] == first
    assert (folder.path / f"{NAME}.sigs.{old}").is_file()  # readers of an older index ask for it
    assert found(folder, keys / "ours.pub") == found(folder, keys / "other.pub") == []
    assert found(folder, keys / "ours.pub", channel=f"{URL}-2") == []
    assert "it is for https" in found(folder, keys / "other.pub", channel=f"{URL}-2")[0]
    said = run_ctk("rollback", str(folder.path)).stdout
    assert said.count("+0 -0, 1 signed") == 2


def test_attestations_stay_when_readers_see_an_earlier_state(keys: Path, tmp_path: Path) -> None:
    made = Folder(tmp_path / "www", tmp_path)
    channel = build(tmp_path / "channel", digit(1))
    made.publish(channel)
    more = build(tmp_path / "more", digit(1), digit(2))
    made.publish(more, attester=OwnKey(URL, keys / "ours.pem"))
    made.rollback(1)
    assert [f for f in check_channel(made.path).findings if f.check != "sbom"] == []
    assert found(made, keys / "ours.pub") == []
    made.publish(more)
    assert [f for f in check_channel(made.path).findings if f.check != "sbom"] == []
    assert found(made, keys / "ours.pub") == []


def test_a_damaged_sidecar_is_made_again_and_what_a_killed_run_signed_is_kept(
    folder: Folder, keys: Path, tmp_path: Path
) -> None:
    plain, channel = folder.path / f"{NAME}.sigs", (tmp_path / "channel").resolve()
    before = json.loads(plain.read_bytes())
    plain.write_bytes(b"[{")
    folder.publish(channel, attester=OwnKey(URL, keys / "other.pem"))
    content = json.loads(plain.read_bytes())
    assert content[:1] == before and len(content) == 2
    more = OwnKey(f"{URL}-2", keys / "other.pem")(NAME.partition("/")[2], "0" * 64)
    plain.write_bytes(json.dumps([*content, json.loads(more)]).encode())
    folder.publish(channel, attester=OwnKey(URL, keys / "rsa.pem"))
    assert len(json.loads(plain.read_bytes())) == 4
    assert found(folder, keys / "rsa.pub") == []


def change(folder: Folder, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edits the attestation, and puts the new hash into the index."""
    (bundle,) = json.loads((folder.path / f"{NAME}.sigs").read_bytes())
    edit(bundle)
    content = json.dumps([bundle]).encode()
    digest = hashlib.sha256(content).hexdigest()
    (folder.path / f"{NAME}.sigs.{digest}").write_bytes(content)
    index = read_index(folder.path)
    records = {name: {**record, FIELD: digest} for name, record in index.records.items()}
    write_index(replace(index, records=records), folder.path, "noarch", FILES)


def forge(bundle: dict[str, Any]) -> None:
    envelope = bundle["dsseEnvelope"]
    text = base64.b64decode(envelope["payload"]).replace(b"digit1", b"digit9")
    envelope["payload"] = base64.b64encode(text).decode()


@pytest.mark.parametrize(
    "edit",
    [
        forge,
        lambda bundle: bundle.pop("dsseEnvelope"),
        lambda bundle: bundle["dsseEnvelope"].update(signatures=[]),
        lambda bundle: bundle["dsseEnvelope"].update(payloadType="text/plain"),
        lambda bundle: bundle["dsseEnvelope"].update(payload=7),
    ],
)
def test_an_attestation_that_was_changed_is_a_problem(
    folder: Folder, keys: Path, edit: Callable[[dict[str, Any]], None]
) -> None:
    change(folder, edit)
    assert "none of its attestations is by the key" in found(folder, keys / "ours.pub")[0]


def test_an_attestation_of_another_package_is_none_of_this_one(
    folder: Folder, keys: Path, tmp_path: Path
) -> None:
    other = json.loads(OwnKey(URL, keys / "ours.pem")("digit1-1.0-h0_0.conda", "0" * 64))
    change(folder, lambda bundle: bundle.update(other))
    assert "to another package" in found(folder, keys / "ours.pub")[0]


def test_the_commands_sign_and_verify(
    keys: Path, run_ctk: Callable[..., Result], tmp_path: Path
) -> None:
    www, pem, pub = tmp_path / "site", str(keys / "ours.pem"), str(keys / "ours.pub")
    words = ("publish", "--to", str(www), "--sign-key", pem)
    assert isinstance(run_ctk(*words).exception, BadValue)
    assert run_ctk(*words, "--url", URL).exception is None
    said = run_ctk("check", str(www), "--key", pub, "--url", URL, "--attested", "--json")
    assert list(json.loads(said.stdout)["attestations"].values()) == [2]
    refused = run_ctk("publish", "--to", str(www), "--sign-key", pub, "--url", URL).exception
    assert isinstance(refused, BadValue) and "is a public key" in refused.cause
    refused = run_ctk("check", str(www), "--key", pem).exception
    assert isinstance(refused, BadValue) and "is a private key" in refused.cause
    for option, words in (("--sign-key", ("publish", "--to")), ("--key", ("check",))):
        missing = str(keys / "chanel.pem")
        refused = run_ctk(*words, str(www), option, missing, "--url", URL).exception
        assert isinstance(refused, BadValue) and refused.cause == f"there is no file {missing}"
    said = run_ctk("check", str(www)).stdout
    assert "2 attestations, not verified: made with a key; name it with --key" in said
    assert "anybody may have signed" not in said
    unnamed = run_ctk("check", str(www), "--attested")
    assert "made with a key; name it with --key" in unnamed.stdout
    assert str(getattr(unnamed.exception, "step", "")) == "name the public key with --key FILE"
    other = run_ctk("check", str(www), "--key", pub, "--url", f"{URL}/other").exception
    assert isinstance(other, ChannelBroken) and "see whether --url and --key" in other.step


@pytest.mark.usefixtures("store")
def test_the_attestations_of_a_bucket_are_verified(
    keys: Path, run_ctk: Callable[..., Result]
) -> None:
    bucket, pub = "s3://channels/cuda", str(keys / "ours.pub")
    signed = ("publish", "--to", bucket, "--sign-key", str(keys / "ours.pem"), "--url", URL)
    assert run_ctk(*signed).exception is None
    said = run_ctk("check", bucket, "--key", pub, "--url", URL, "--attested", "--json")
    assert list(json.loads(said.stdout)["attestations"].values()) == [2]
    other = run_ctk("check", bucket, "--key", str(keys / "other.pub"), "--url", URL, "--attested")
    assert isinstance(other.exception, ChannelBroken)


def test_without_the_key_it_is_no_problem_unless_somebody_must_have_signed(folder: Folder) -> None:
    checked = check_channel(folder.path)
    assert (dict(checked.attestations), checked.unverified) == ({}, 1)
    for policy in (Policy(required=True), Policy(identity="https://github.com/a/b")):
        report = check_channel(folder.path, policy=policy)
        assert [f.check for f in report.findings if f.severity == "error"] == [
            "attestation",
            "sbom",
        ]


@pytest.mark.parametrize(
    ("name", "password", "cause"),
    [
        ("locked", "", "it has a password"),
        ("ours", "the-password", "it has no password"),
        ("locked", "another", "it is not a private key that can be read"),
    ],
)
def test_a_password_that_does_not_fit_is_said(
    keys: Path, name: str, password: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTK_KEY_PASSWORD", password)
    with pytest.raises(BadValue, match=cause):
        _ = OwnKey(URL, keys / f"{name}.pem").signer


def test_a_key_that_cannot_sign_is_named(tmp_path: Path) -> None:
    write_keys(tmp_path, "odd", x25519.X25519PrivateKey.generate())
    with pytest.raises(BadValue, match="cannot sign"):
        _ = OwnKey(URL, tmp_path / "odd.pem").signer
