"""Signs packages, and verifies their attestations: sidecars as in CEP 50, statements as in CEP 27.

rattler verifies, as it does for the clients that are built on it, and needs no network for that.
The signer is compared only with a policy that names an identity or an issuer, and is reported
otherwise.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rattler import RepoDataRecord
from rattler.exceptions import AttestationError
from rattler.sigstore import (
    ChannelCheck,
    Issuer,
    Publisher,
    TrustedRoot,
    VerificationPolicy,
    verify_attestation,
)

from ctk.channel.check_package import ChannelPackage
from ctk.channel.own_key import PREDICATE, KeyVerifier, is_by_keys
from ctk.channel.publish import FIELD, SIDECAR
from ctk.core.checkout import lacks_package
from ctk.core.errors import BadValue, CtkError, PublishFailed
from ctk.core.files import read_plain
from ctk.core.process import run
from ctk.package.records import package_record
from ctk.rules import Finding, Severity

if TYPE_CHECKING:  # an extra
    from sigstore.sign import Signer, SigningContext

KEY_NOT_NAMED = "made with a key; name it with --key"

# Signing


@dataclass
class Sigstore:
    """Signs with the identity of the current CI job, which is recorded in Sigstore's public log."""

    channel: str  # the URL of the channel, which is part of the statement
    context: Callable[[], SigningContext] = field(default=lambda: _public(), repr=False)
    token: Callable[[], str | None] = field(default=lambda: _ambient(), repr=False)
    _signer: Signer | None = field(default=None, init=False, repr=False)

    def __call__(self, file: str, sha256: str) -> str:
        from sigstore import dsse
        from sigstore.oidc import ExpiredIdentity

        # It has no other public place.
        from sigstore.sign import ExpiredCertificate  # type: ignore[attr-defined]

        statement = (
            dsse.StatementBuilder()
            .subjects([dsse.Subject(name=file, digest=dsse.DigestSet({"sha256": sha256}))])
            .predicate_type(PREDICATE)
            .predicate({"targetChannel": self.channel.rstrip("/")})
            .build()
        )
        try:
            try:
                return self.signer().sign_dsse(statement).to_json()
            except (
                ExpiredCertificate,
                ExpiredIdentity,
            ):  # they are valid for minutes; a large channel takes longer
                self._signer = None
                return self.signer().sign_dsse(statement).to_json()
        except CtkError:
            raise
        except Exception as error:  # sigstore's errors have no common base class
            raise PublishFailed(
                f"{file} cannot be attested: {type(error).__name__}: {error}",
                "run the command again to continue",
            ) from error

    def has_made(self, attestation: Any, file: str, sha256: str) -> bool:
        """Whether an attestation of a package is by an identity, and for the same channel.

        By which identity is not compared: only a new certificate would say what ours is.
        """
        try:
            statement = json.loads(b64decode(attestation["dsseEnvelope"]["payload"]))
            (subject,) = statement["subject"]
            stated = (subject["name"], subject["digest"]["sha256"])
            target = statement["predicate"]["targetChannel"]
            is_by_key = "publicKey" in attestation["verificationMaterial"]
        except (KeyError, ValueError, TypeError, AttributeError):
            return False
        return stated == (file, sha256) and target == self.channel.rstrip("/") and not is_by_key

    def signer(self) -> Signer:
        """The signer with the identity of this job, created once.

        Raises:
            NotReady: sigstore is not installed.
            PublishFailed: This is not a job that has an identity.
        """
        try:
            from sigstore.oidc import IdentityToken
            from sigstore.sign import Signer
        except ModuleNotFoundError as error:
            raise lacks_package("attestations", error, "sigstore") from None

        if self._signer is None:
            token = self.token()
            if token is None:
                raise no_identity()
            self._signer = Signer(IdentityToken(token), self.context())
        return self._signer


def no_identity() -> PublishFailed:
    return PublishFailed(
        "an attestation says which CI job published a package, and this process is not a job"
        " with an identity",
        "run it in a job of GitHub Actions with `permissions: id-token: write`, or without"
        " --attest; for a folder or a bucket, --sign-key signs with a key of yours",
    )


def _public() -> SigningContext:
    from sigstore.models import ClientTrustConfig
    from sigstore.sign import SigningContext

    return SigningContext.from_trust_config(ClientTrustConfig.production())


def _ambient() -> str | None:
    from sigstore.oidc import detect_credential

    return detect_credential()


# Verification


@dataclass(frozen=True)
class Policy:
    """The demands on attestations.

    None for any signer, any channel, or the keys of Sigstore's public instance.
    """

    identity: str | None = None
    issuer: str | None = None
    channel: str | None = None
    required: bool = False
    trusted_root: Path | None = None
    key: Path | None = None  # a public key that must have signed, in place of an identity


def verifier_of(policy: Policy) -> Verifier | KeyVerifier:
    """What verifies attestations as a policy has it."""
    if policy.key:
        return KeyVerifier(policy.key, policy.channel, policy.required)
    return Verifier(policy)


class Verifier:
    """Verifies attestations.

    Raises:
        BadValue: The issuer is not a URL, or the trusted root cannot be read.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        try:
            signer = Publisher(policy.identity, Issuer(policy.issuer) if policy.issuer else None)
            self._root = (
                TrustedRoot.from_path(policy.trusted_root)
                if policy.trusted_root
                else TrustedRoot.embedded()
            )
        except ValueError as error:
            raise BadValue(
                f"attestations cannot be verified: {error}", "see --issuer and --trusted-root"
            ) from None
        channel_check = ChannelCheck.REQUIRE if policy.channel else ChannelCheck.IGNORE
        self._rule = VerificationPolicy.require(signer, channel_check=channel_check)

    def check(self, package: ChannelPackage) -> Iterator[Finding]:
        """The problems of a package's attestations.

        An "ok" with signer and target of the one that is valid; a "hint" for one that only a key
        could verify.
        """
        plain = package.path.with_name(package.path.name + SIDECAR)
        if FIELD not in package.record:
            if plain.exists():
                yield Finding(package.name, f"{plain.name} is there, but repodata does not name it")
            elif self._policy.required:
                yield Finding(package.name, "has none")
            return
        hashes = [package.record[FIELD], package.record.get("sha256")]
        if not all(isinstance(text, str) and re.fullmatch("[0-9a-f]{64}", text) for text in hashes):
            yield Finding(package.name, f"{FIELD} or sha256 in repodata is not a sha256")
            return
        fixed = plain.with_name(f"{plain.name}.{hashes[0]}")
        if fixed.exists() and not fixed.is_file():
            yield Finding(package.name, f"{fixed.name} is not a file")
            return
        if self._is_by_key(fixed, hashes[0]):
            severity: Severity = "error" if self._demands_signer else "hint"
            yield Finding(package.name, KEY_NOT_NAMED, severity=severity)
            return
        try:
            found = run(
                verify_attestation(
                    self._record(package, *hashes), self._rule, trusted_root=self._root
                )
            )
        except AttestationError as error:
            yield Finding(package.name, " ".join(str(error).split()))
            return
        if not plain.is_file() or read_plain(plain) != read_plain(fixed):
            yield Finding(package.name, f"{plain.name} differs from {fixed.name}")
        if valid := found.attestation:
            signer = f"{valid.identity} (issuer {valid.issuer or 'not stated'})"
            yield Finding(
                package.name, f"{signer}, for {valid.target_channel or 'no channel'}", severity="ok"
            )

    @property
    def _demands_signer(self) -> bool:
        policy = self._policy
        return bool(policy.identity or policy.issuer or policy.required)

    @staticmethod
    def _is_by_key(sidecar: Path, digest: str) -> bool:
        """Whether a sidecar is the one that repodata names, and by a key."""
        if not sidecar.is_file():
            return False
        content = read_plain(sidecar)
        return hashlib.sha256(content).hexdigest() == digest and is_by_keys(content)

    def _record(self, package: ChannelPackage, attestations: str, sha256: str) -> RepoDataRecord:
        """The name, hashes and addresses that rattler needs of a package and its sidecar."""
        unnamed = package_record("package", "0", sha256=bytes.fromhex(sha256))
        address = package.path.absolute().as_uri()
        record = RepoDataRecord(
            unnamed, package.path.name, address, self._policy.channel or address
        )
        record.attestations_sha256 = bytes.fromhex(attestations)
        return record
