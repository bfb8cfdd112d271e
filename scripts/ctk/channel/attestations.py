"""Signs packages, and verifies their attestations: sidecars as in CEP 50, statements as in CEP 27.

The verification needs no network. Verified are the signature of the statement, the chain of the certificate and its
entry in a certificate log, the entry in the transparency log with its inclusion proof, and that the statement is about
the package. The signer is compared only with a policy that names an identity or an issuer, and is reported otherwise.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ctk.channel.check_package import ChannelPackage
from ctk.channel.publish import FIELD, SIDECAR
from ctk.core.errors import BadValue, CtkError, PublishFailed
from ctk.rules import Finding

if TYPE_CHECKING:  # an extra
    from sigstore.sign import Signer, SigningContext

PREDICATE = "https://schemas.conda.org/attestations/publish/v1"
_PAYLOAD = "application/vnd.in-toto+json"
_ROOT = ("_store", quote("https://tuf-repo-cdn.sigstore.dev", safe=""), "trusted_root.json")


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
        from sigstore.sign import ExpiredCertificate  # type: ignore[attr-defined]  # it has no other public place

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
            except (ExpiredCertificate, ExpiredIdentity):  # they are valid for minutes; a large channel takes longer
                self._signer = None
                return self.signer().sign_dsse(statement).to_json()
        except CtkError:
            raise
        except Exception as error:  # sigstore's errors have no common base class
            raise PublishFailed(
                f"{file} cannot be attested: {type(error).__name__}: {error}", "run the command again to go on"
            ) from error

    def signer(self) -> Signer:
        """The signer with the identity of this job, created once."""
        from sigstore.oidc import IdentityToken
        from sigstore.sign import Signer

        if self._signer is None:
            token = self.token()
            if token is None:
                raise no_identity()
            self._signer = Signer(IdentityToken(token), self.context())
        return self._signer


def no_identity() -> PublishFailed:
    return PublishFailed(
        "an attestation says which CI job published a package, and this is none that has an identity",
        "run it in a job of GitHub Actions with `permissions: id-token: write`, or without --attest: a key cannot sign",
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
    """The demands on attestations; None for any signer, any channel, or the keys of Sigstore's public instance."""

    identity: str | None = None
    issuer: str | None = None
    channel: str | None = None
    required: bool = False
    trusted_root: Path | None = None


class _Unverified(Exception):
    """The reason why an attestation is not valid."""


class Verifier:
    """Verifies attestations; created once for a channel, since reading the keys takes a while."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._sigstore: Any = None

    def check(self, package: ChannelPackage) -> Iterator[Finding]:
        """The problems of a package's attestations; an "ok" with signer and target for each valid attestation."""
        plain = package.path.with_name(package.path.name + SIDECAR)
        if FIELD not in package.record:
            if plain.exists():
                yield Finding(package.name, f"{plain.name} is there, and repodata does not name it")
            elif self._policy.required:
                yield Finding(package.name, "has none")
            return
        digest = package.record[FIELD]
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            yield Finding(package.name, f"{FIELD} in repodata is no sha256")
            return
        fixed = plain.with_name(f"{plain.name}.{digest}")
        try:
            content = fixed.read_bytes()
            if hashlib.sha256(content).hexdigest() != digest:
                raise ValueError("does not have the sha256 that repodata states")
            bundles = json.loads(content)
            if not isinstance(bundles, list) or not bundles:
                raise ValueError("is no list of bundles")
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            yield Finding(package.name, f"{fixed.name}: {reason}")
            return
        if not plain.is_file() or plain.read_bytes() != content:
            yield Finding(package.name, f"{plain.name} differs from {fixed.name}")
        for number, bundle in enumerate(bundles, 1):
            try:
                yield Finding(package.name, self._verified(bundle, package), severity="ok")
            except _Unverified as reason:
                yield Finding(package.name, f"number {number}: {reason}")

    def _verified(self, raw: Any, package: ChannelPackage) -> str:
        """The signer of a valid bundle and the channel that it is for, in words.

        Raises:
            _Unverified: The bundle is not valid, or cannot be verified here.
        """
        try:
            from sigstore.errors import Error
            from sigstore.models import Bundle
        except ImportError:
            raise _Unverified("cannot be verified: sigstore is not installed (the extra `attest` of ctk)") from None
        verifier = self._ready()
        try:
            bundle = Bundle.from_json(json.dumps(raw))
            kind, payload = verifier.verify_dsse(bundle, self._who())
        except Error as error:
            raise _Unverified(_short(error)) from None
        except Exception as error:  # hostile bundles reach all of the library
            raise _Unverified(f"cannot be read: {_short(error)}") from None
        target = _target(kind, payload, package, self._policy.channel)
        return f"{_signer(bundle.signing_certificate)}, for {target or 'no channel'}"

    def _ready(self) -> Any:
        if self._sigstore is None:
            from sigstore.models import TrustedRoot
            from sigstore.verify import Verifier as Sigstore

            # The library's own offline mode would copy its keys below the home folder first.
            path = self._policy.trusted_root or Path(str(files("sigstore").joinpath(*_ROOT)))
            try:
                self._sigstore = Sigstore(trusted_root=TrustedRoot.from_file(str(path)))
            except Exception as error:
                raise BadValue(
                    f"{path} is no trusted root of Sigstore: {_short(error)}", "see --trusted-root"
                ) from None
        return self._sigstore

    def _who(self) -> Any:
        from sigstore.verify import policy

        if self._policy.identity is not None:
            return policy.Identity(identity=self._policy.identity, issuer=self._policy.issuer)
        if self._policy.issuer is not None:
            return policy.AnyOf([policy.OIDCIssuer(self._policy.issuer), policy.OIDCIssuerV2(self._policy.issuer)])
        return _Anybody()


class _Anybody:
    """A policy that accepts every signer; the library's own one logs a warning each time."""

    def verify(self, certificate: Any) -> None:
        return


def _target(kind: str, payload: bytes, package: ChannelPackage, channel: str | None) -> str:
    """The channel that a statement names, or "".

    Raises:
        _Unverified: The statement is not that of CEP 27 about this package.
    """
    try:
        statement = json.loads(payload)
        subjects, predicate = statement["subject"], statement.get("predicate")
        target = "" if predicate is None else predicate["targetChannel"]
        form, about = statement["_type"], statement["predicateType"]
        name, digest = subjects[0]["name"], subjects[0]["digest"]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise _Unverified(f"its statement cannot be read: {type(error).__name__}: {error}") from None
    wrong = {
        f"its payload is {kind!r}, not {_PAYLOAD}": kind != _PAYLOAD,
        f"its statement is of type {form!r}": form != "https://in-toto.io/Statement/v1",
        f"its predicate is {about!r}, not {PREDICATE}": about != PREDICATE,
        f"it is about {len(subjects)} subjects, not one": len(subjects) != 1,
        f"it is about {name!r}": name != package.path.name,
        f"it is about another content: {digest!r}": digest != {"sha256": package.record.get("sha256")},
        f"it is for the channel {target!r}": channel is not None and target not in ("", channel.rstrip("/")),
    }
    if any(wrong.values()):
        raise _Unverified("; ".join(text for text, is_so in wrong.items() if is_so))
    return str(target)


def _signer(certificate: Any) -> str:
    from cryptography import x509

    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    issuer = next(
        (e.value.value for e in certificate.extensions if e.oid.dotted_string == "1.3.6.1.4.1.57264.1.1"), b""
    )
    return f"{', '.join(str(n.value) for n in names)} (issuer {issuer.decode(errors='replace') or 'not stated'})"


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}"
