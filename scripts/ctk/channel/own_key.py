"""Attestations by a company's own key, in place of an identity of Sigstore.

The statement is that of CEP 27, in an envelope of DSSE that securesystemslib signs and verifies. It
is in a Sigstore bundle that names a public key, so that it stands in a sidecar as in CEP 50.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctk.channel.check_package import ChannelPackage
from ctk.channel.publish import FIELD, SIDECAR
from ctk.core.checkout import lacks_package
from ctk.core.errors import BadValue
from ctk.core.files import read_plain
from ctk.rules import Finding

if TYPE_CHECKING:  # an extra
    from securesystemslib.signer import CryptoSigner, SSlibKey  # type: ignore[attr-defined]

PREDICATE = "https://schemas.conda.org/attestations-publish-1.schema.json"
PASSWORD = "CTK_KEY_PASSWORD"
"""The variable with the password of an encrypted private key."""
_STATEMENT = "https://in-toto.io/Statement/v1"
_PAYLOAD = "application/vnd.in-toto+json"
_BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"


@dataclass(frozen=True)
class OwnKey:
    """Signs with a private key, as PEM: Ed25519, ECDSA or RSA."""

    channel: str  # the URL of the channel, which is part of the statement
    file: Path

    def __call__(self, file: str, sha256: str) -> str:
        from securesystemslib.dsse import Envelope

        statement = {
            "_type": _STATEMENT,
            "subject": [{"name": file, "digest": {"sha256": sha256}}],
            "predicateType": PREDICATE,
            "predicate": {"targetChannel": self.channel.rstrip("/")},
        }
        envelope = Envelope(json.dumps(statement).encode(), _PAYLOAD, {})
        envelope.sign(self.signer)
        hint = self.signer.public_key.keyid
        bundle = {
            "mediaType": _BUNDLE,
            "verificationMaterial": {"publicKey": {"hint": hint}, "tlogEntries": []},
            "dsseEnvelope": envelope.to_dict(),
        }
        return json.dumps(bundle)

    def has_made(self, attestation: Any, file: str, sha256: str) -> bool:
        """Whether an attestation of a package is by this key, and for the same channel."""
        key = self.signer.public_key
        return not _problem(key, attestation, file, sha256, self.channel.rstrip("/"))

    @cached_property
    def signer(self) -> CryptoSigner:
        """Raises BadValue if the file is not a private key, or the password is not its."""
        _refuse_missing()
        content = _pem(self.file)
        if b"PUBLIC KEY-----" in content:
            step = "name the private key that belongs to it"
            raise BadValue(f"{self.file} is a public key, which cannot sign", step)
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]

        password = os.environ.get(PASSWORD)
        try:
            key = load_pem_private_key(content, password.encode() if password else None)
            return CryptoSigner(key)  # it refuses other kinds itself
        except TypeError:  # a password without need, or none
            why = "it has no password" if password else "it has a password"
            step = f"unset {PASSWORD}" if password else f"set {PASSWORD} to it"
            raise BadValue(f"{self.file} cannot sign: {why}", step) from None
        except ValueError:
            raise BadValue(
                f"{self.file} cannot sign: it is not a private key that can be read",
                f"name a private key in PEM of Ed25519, ECDSA or RSA; {PASSWORD} has its password",
            ) from None


class KeyVerifier:
    """Verifies attestations by a public key.

    Raises:
        BadValue: The file is not a public key.
    """

    def __init__(self, file: Path, channel: str | None, required: bool) -> None:
        _refuse_missing()
        self._channel = channel.rstrip("/") if channel else None
        self._required = required
        self._key = _public_key(file)

    def check(self, package: ChannelPackage) -> Iterator[Finding]:
        """Why no attestation of a package is by the key, or an "ok"."""
        digest = package.record.get(FIELD)
        if digest is None:
            if self._required:
                yield Finding(package.name, "has none")
            return
        file = package.path.with_name(f"{package.path.name}{SIDECAR}.{digest}")
        try:
            content = read_plain(file)
            if hashlib.sha256(content).hexdigest() != digest:
                raise ValueError("it is not the one that repodata names")
            named = (package.path.name, package.record.get("sha256"), self._channel)
            problems = [_problem(self._key, one, *named) for one in json.loads(content)]
        except (OSError, ValueError, RecursionError, TypeError) as error:
            yield Finding(package.name, f"{file.name} cannot be read: {error}")
            return
        if "" in problems:
            target = self._channel or "its channel"
            yield Finding(package.name, f"key {self._key.keyid}, for {target}", severity="ok")
        else:
            why = "; ".join(dict.fromkeys(problems)) or "it has no attestation"
            yield Finding(package.name, f"none of its attestations is by the key: {why}")


def _problem(
    key: SSlibKey, attestation: Any, file: str, sha256: object, channel: str | None
) -> str:
    """Why an attestation is not one of a package by a key, for a channel; "" if it is."""
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import FormatError, VerificationError

    try:
        envelope = Envelope.from_dict(attestation["dsseEnvelope"])
        envelope.verify([key], 1)
        statement = json.loads(envelope.payload)
        (subject,) = statement["subject"]
        stated = (subject["name"], subject["digest"]["sha256"])
        target = statement["predicate"].get("targetChannel")
        kinds = (envelope.payload_type, statement["_type"], statement["predicateType"])
    except VerificationError:
        return "another key signed it"
    except (KeyError, ValueError, TypeError, AttributeError, FormatError) as error:
        return f"it is not an attestation: {type(error).__name__}"
    if kinds != (_PAYLOAD, _STATEMENT, PREDICATE):
        return "it states something else"
    if stated != (file, sha256):
        return "it belongs to another package"
    if channel and target != channel:
        return f"it is for {target}"
    return ""


def is_by_keys(content: bytes) -> bool:
    """Whether all attestations of a sidecar are by keys, of which Sigstore knows nothing."""
    try:
        bundles = json.loads(content)
        return bool(bundles) and all(
            "publicKey" in bundle["verificationMaterial"] for bundle in bundles
        )
    except (ValueError, RecursionError, TypeError, KeyError):
        return False


def refuse_unreadable(key: Path) -> None:
    """Raises BadValue for a file that is no public key, NotReady if keys cannot be used here."""
    _refuse_missing()
    _public_key(key)


def _public_key(file: Path) -> SSlibKey:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]

    content = _pem(file)
    if b"PRIVATE KEY-----" in content:
        step = f"openssl pkey -in {shlex.quote(str(file))} -pubout"
        raise BadValue(f"{file} is a private key, and readers verify with its public key", step)
    try:
        return SSlibKey.from_crypto(load_pem_public_key(content))
    except (ValueError, TypeError):
        step = "name a public key in PEM of Ed25519, ECDSA or RSA"
        raise BadValue(f"{file} is not a public key", step) from None


def _pem(file: Path) -> bytes:
    """The content of a file with a key."""
    try:
        return read_plain(file)
    except FileNotFoundError:
        raise BadValue(f"there is no file {file}", "name the file of the key") from None
    except OSError as error:
        cause = f"{file} cannot be read: {error.strerror}"
        raise BadValue(cause, "name the file of the key") from None


def _refuse_missing() -> None:
    try:
        import cryptography
        import securesystemslib  # noqa: F401
    except ModuleNotFoundError as error:
        raise lacks_package("keys", error, "securesystemslib", "cryptography") from None
    del cryptography
