"""Attestations: made for a folder, verified without the network, and found wrong in every way."""

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

from ctk.channel.attestations import PREDICATE, Policy, Sigstore
from ctk.channel.check import check_channel
from ctk.channel.own_key import OwnKey
from ctk.channel.publish import FIELD, Folder
from ctk.channel.repodata import FILES, read_index, write_index
from ctk.core.errors import BadValue, ChannelBroken, PublishFailed
from kit.small_channels import build, digit

pytest.importorskip("sigstore", reason="sigstore is not installed: the extra `attest` of ctk")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from own_sigstore import ISSUER, WORKFLOW, OwnSigstore, token
from sigstore import dsse
from sigstore.sign import ExpiredCertificate, Signer, SigningContext

URL = "https://conda.example.org/cuda"
NAME = "noarch/digit1-1.0-h0_0.conda"
Bundle = dict[str, Any]

pytest_plugins = ["kit.channel_fixtures"]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> OwnSigstore:
    return OwnSigstore(tmp_path_factory.mktemp("sigstore"))


@pytest.fixture
def attester(own: OwnSigstore) -> Sigstore:
    return Sigstore(URL, own.context, token)


@pytest.fixture
def policy(own: OwnSigstore) -> Policy:
    return Policy(WORKFLOW, ISSUER, URL, trusted_root=own.trusted_root)


@pytest.fixture
def folder(tmp_path: Path, attester: Sigstore) -> Folder:
    """A folder with one package and its attestation."""
    made = Folder(tmp_path / "www", tmp_path)
    made.publish(build(tmp_path / "channel", digit(1)), attester=attester)
    return made


def found(folder: Folder, policy: Policy) -> list[str]:
    """The problems of the attestations."""
    report = check_channel(folder.path, policy=policy)
    return [f"{p.where}: {p.message}" for p in report.findings if p.check == "attestation"]


def sidecar(folder: Folder) -> list[Bundle]:
    return json.loads((folder.path / f"{NAME}.sigs").read_bytes())


def put(folder: Folder, content: bytes) -> None:
    """Writes another sidecar for the package, also into the index."""
    digest = hashlib.sha256(content).hexdigest()
    (folder.path / f"{NAME}.sigs").write_bytes(content)
    (folder.path / f"{NAME}.sigs.{digest}").write_bytes(content)
    index = read_index(folder.path)
    records = {name: {**record, FIELD: digest} for name, record in index.records.items()}
    write_index(replace(index, records=records), folder.path, "noarch", FILES)


def signed(attester: Sigstore, folder: Folder, **changes: Any) -> Bundle:
    """A genuine signature of a statement with changes."""
    sha256 = read_index(folder.path).names()[NAME]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": NAME.split("/")[1], "digest": {"sha256": sha256}}],
        "predicateType": PREDICATE,
        "predicate": {"targetChannel": URL},
        **changes,
    }
    text = json.dumps(statement).replace("OF THE PACKAGE", sha256)
    return json.loads(attester.signer().sign_dsse(dsse.Statement(text.encode())).to_json())


def test_a_package_gets_an_attestation_beside_it_that_is_named_by_the_index_and_verified(
    folder: Folder, policy: Policy
) -> None:
    content = (folder.path / f"{NAME}.sigs").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    assert (folder.path / f"{NAME}.sigs.{digest}").read_bytes() == content
    assert read_index(folder.path).records[NAME][FIELD] == digest
    (bundle,) = json.loads(content)
    assert json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"])) == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {
                "name": "digit1-1.0-h0_0.conda",
                "digest": {"sha256": read_index(folder.path).names()[NAME]},
            }
        ],
        "predicateType": "https://schemas.conda.org/attestations-publish-1.schema.json",
        "predicate": {"targetChannel": URL},
    }
    report = check_channel(folder.path, policy=policy)
    assert [p for p in report.findings if p.check != "sbom"] == []
    assert dict(report.attestations) == {f"{WORKFLOW} (issuer {ISSUER}), for {URL}": 1}


def test_what_is_attested_is_not_attested_again_and_stays_in_the_next_index(
    folder: Folder, policy: Policy, attester: Sigstore, tmp_path: Path
) -> None:
    before = (folder.path / f"{NAME}.sigs").read_bytes()
    folder.publish(build(tmp_path / "more", digit(1), digit(2)), attester=attester)
    assert (folder.path / f"{NAME}.sigs").read_bytes() == before
    assert (
        sum(check_channel(folder.path, policy=replace(policy, required=True)).attestations.values())
        == 2
    )
    folder.publish(build(tmp_path / "other", digit(3)))
    assert found(folder, policy) == []
    assert found(folder, replace(policy, required=True)) == [
        "noarch/digit3-1.0-h0_0.conda: has none"
    ]


def test_a_sidecar_that_a_killed_run_left_is_taken(folder: Folder, tmp_path: Path) -> None:
    other = Folder(tmp_path / "other", tmp_path)
    (other.path / "noarch").mkdir(parents=True)
    (other.path / f"{NAME}.sigs").write_bytes((folder.path / f"{NAME}.sigs").read_bytes())

    class Never(Sigstore):
        def __call__(self, file: str, sha256: str) -> str:
            raise AssertionError("signed again")

    other.publish((tmp_path / "channel").resolve(), attester=Never(URL))
    signed = [
        read_index(f.path).records["noarch/digit1-1.0-h0_0.conda"]["attestations_sha256"]
        for f in (other, folder)
    ]
    assert signed[0] == signed[1]


def test_an_attestation_for_another_channel_and_one_by_a_key_stand_beside_the_first(
    folder: Folder, policy: Policy, own: OwnSigstore, tmp_path: Path
) -> None:
    built = (tmp_path / "channel").resolve()
    key = tmp_path / "channel.pem"
    private = Ed25519PrivateKey.generate()
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    key.write_bytes(private.private_bytes(*form))
    first = sidecar(folder)
    elsewhere = f"{URL}-2"
    for attester in (Sigstore(elsewhere, own.context, token), OwnKey(URL, key)):
        assert folder.publish(built, attester=attester).signed == (NAME,)
        assert folder.publish(built, attester=attester).signed == ()
    assert sidecar(folder)[0] == first[0] and len(sidecar(folder)) == 3
    assert found(folder, policy) == []
    assert found(folder, replace(policy, channel=elsewhere)) == []
    assert found(folder, replace(policy, channel=f"{URL}-3")) != []


def unreachable() -> SigningContext:
    raise ConnectionError("no route")


def test_without_an_identity_or_a_log_nothing_is_published(
    own: OwnSigstore, tmp_path: Path
) -> None:
    built, folder = build(tmp_path / "channel", digit(1)), Folder(tmp_path / "www", tmp_path)
    with pytest.raises(PublishFailed, match="not a job with an identity"):
        folder.publish(built, attester=Sigstore(URL, own.context, lambda: None))
    with pytest.raises(
        PublishFailed, match=r"digit1-1\.0-h0_0\.conda cannot be attested: ConnectionError"
    ):
        folder.publish(built, attester=Sigstore(URL, unreachable, token))
    assert not list(folder.path.glob("*/repodata.json"))


def test_a_certificate_that_runs_out_while_signing_is_renewed(
    attester: Sigstore, monkeypatch: Any
) -> None:
    genuine, calls = Signer.sign_dsse, []

    def once(self: Signer, statement: dsse.Statement) -> Any:
        calls.append(self)
        if len(calls) == 1:
            raise ExpiredCertificate
        return genuine(self, statement)

    monkeypatch.setattr(Signer, "sign_dsse", once)
    assert json.loads(attester("a-1-0.conda", "0" * 64))["dsseEnvelope"]
    assert calls[0] is not calls[1]


def about(name: str, sha256: str = "OF THE PACKAGE") -> Bundle:
    return {"subject": [{"name": name, "digest": {"sha256": sha256}}]}


def for_channel(url: str) -> Bundle:
    return {"predicate": {"targetChannel": url}}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        (about("digit2-1.0-h0_0.conda"), 'the attestation subject is "digit2-1.0-h0_0.conda"'),
        (
            about("digit1-1.0-h0_0.conda", sha256="0" * 64),
            "artifact hash does not match any subject",
        ),
        (
            {"subject": about("digit1-1.0-h0_0.conda")["subject"] * 2},
            "exactly one subject, found 2",
        ),
        ({"predicateType": "https://slsa.dev/provenance/v1"}, "unexpected predicate type"),
        (
            for_channel("https://conda.example.org/other"),
            "targets channel https://conda.example.org/other",
        ),
        ({"predicate": {}}, "missing field `targetChannel`"),
    ],
)
def test_a_statement_that_says_something_else_is_a_problem_though_it_is_signed(
    folder: Folder, policy: Policy, attester: Sigstore, changes: Bundle, what: str
) -> None:
    put(folder, json.dumps([signed(attester, folder, **changes)]).encode())
    (line,) = found(folder, policy)
    assert what in line, line


def other_payload(bundle: Bundle) -> None:
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    statement["predicate"]["targetChannel"] += "2"
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()


def no_log(bundle: Bundle) -> None:
    bundle["verificationMaterial"].update(tlogEntries=[])


@pytest.mark.parametrize("spoil", [other_payload, no_log])
def test_a_spoilt_bundle_is_a_problem(
    folder: Folder, policy: Policy, spoil: Callable[[Bundle], None]
) -> None:
    (bundle,) = sidecar(folder)
    spoil(bundle)
    put(folder, json.dumps([bundle]).encode())
    (line,) = found(folder, policy)
    assert "passed verification: - bundle 0: " in line


def test_of_several_attestations_one_has_to_be_valid(
    folder: Folder, policy: Policy, attester: Sigstore
) -> None:
    # A statement without a predicate is valid: CEP 27 does not require the channel.
    good, bad = (
        signed(attester, folder, predicate=None),
        signed(attester, folder, predicateType="other"),
    )
    put(folder, json.dumps([bad, good]).encode())
    assert found(folder, policy) == []
    put(folder, json.dumps([bad, bad]).encode())
    (line,) = found(folder, policy)
    assert "bundle 0" in line and "bundle 1" in line


def test_the_signer_is_compared_with_the_policy(folder: Folder, policy: Policy) -> None:
    other = "https://other.example.org"
    for identity, issuer in (
        (WORKFLOW.replace("main", "fork"), ISSUER),
        (WORKFLOW, other),
        (None, other),
    ):
        (line,) = found(folder, replace(policy, identity=identity, issuer=issuer))
        assert "does not match the trusted publisher" in line
    assert found(folder, replace(policy, identity=None, issuer=None, channel=None)) == []


def test_keys_of_another_instance_are_not_trusted(
    folder: Folder, policy: Policy, tmp_path: Path
) -> None:
    for trusted_root in (
        OwnSigstore(tmp_path).trusted_root,
        None,
    ):  # None: Sigstore's public instance
        (line,) = found(folder, replace(policy, trusted_root=trusted_root))
        assert "sigstore verification failed" in line
    for wrong in ({"trusted_root": Path(__file__)}, {"issuer": "somebody"}):
        with pytest.raises(BadValue, match="attestations cannot be verified"):
            found(folder, replace(policy, **wrong))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "expected a JSON array"),
        (b"[]", "the array of Sigstore bundles is empty"),
        (b'["bundle", 1]', "bundle 0 is not a valid Sigstore bundle"),
        (b"[" * 100_000, "recursion"),
    ],
    ids=["empty", "no bundles", "words", "deep"],
)
def test_a_damaged_sidecar_is_a_problem(
    folder: Folder, policy: Policy, content: bytes, what: str
) -> None:
    put(folder, content)
    lines = found(folder, policy)
    assert any(what in line for line in lines), lines


def test_the_files_beside_a_package_have_to_be_what_the_index_says(
    folder: Folder, policy: Policy
) -> None:
    plain = folder.path / f"{NAME}.sigs"
    fixed = next(plain.parent.glob("*.sigs.*"))
    content = fixed.read_bytes()
    plain.write_bytes(content + b" ")
    assert found(folder, policy) == [f"{NAME}: {plain.name} differs from {fixed.name}"]
    plain.write_bytes(content)
    fixed.write_bytes(content + b" ")
    (line,) = found(folder, policy)
    assert f"{fixed.name} does not match the advertised hash" in line
    fixed.unlink()
    (line,) = found(folder, policy)
    assert f"{fixed.name} Caused by: No such file" in line
    index = read_index(folder.path)
    for value, what in (
        (f"../{'a' * 61}", "is not a sha256"),
        (7, "is not a sha256"),
        (None, "repodata does not name it"),
    ):
        record = {k: v for k, v in index.records[NAME].items() if k != FIELD}
        record |= {FIELD: value} if value else {}
        write_index(replace(index, records={NAME: record}), folder.path, "noarch", FILES)
        (line,) = found(folder, policy)
        assert what in line


def test_the_command_says_what_was_verified(
    folder: Folder, own: OwnSigstore, tmp_path: Path, run_ctk: Callable[..., Result]
) -> None:
    words = ("check", str(folder.path), "--trusted-root", str(own.trusted_root))
    shown = run_ctk(*words)
    assert (
        f"1 attestation verified, signed by {WORKFLOW} (issuer {ISSUER}), for {URL}" in shown.stdout
    )
    assert "anybody may have signed them" in shown.stdout
    wrong = run_ctk(*words, "--identity", "somebody", "--issuer", ISSUER)
    assert isinstance(wrong.exception, ChannelBroken)
    assert "attestation" in wrong.stdout
    assert "verified, signed by" not in wrong.stdout
    report = json.loads(run_ctk(*words, "--json").stdout)
    assert list(report["attestations"].values()) == [1]
    needs_url = run_ctk(
        "publish", str(folder.path), "--to", str(tmp_path / "elsewhere"), "--attest"
    )
    assert isinstance(needs_url.exception, BadValue)
    assert "--url" in needs_url.exception.step


def test_without_an_identity_nothing_is_copied(
    folder: Folder, tmp_path: Path, run_ctk: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctk.channel.attestations._ambient", lambda: None)
    to = tmp_path / "elsewhere"
    refused = run_ctk(
        "publish", str(folder.path), "--to", str(to), "--attest", "--url", URL
    ).exception
    assert isinstance(refused, PublishFailed) and "--sign-key" in refused.step
    assert not to.exists()
