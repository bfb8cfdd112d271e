"""The attestations of a channel's packages: where CEP 50 has them, saying what CEP 27 demands, signed as they claim.

Verified is, without the network: the signature over the statement, the certificate's chain and its entry in a
certificate log, the entry in the transparency log with its inclusion proof, and the statement against the package. Who
signed is compared only when a policy names somebody: anyone can sign anything, so without one it is merely reported.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from ctk.channel.attesting import FIELD, PREDICATE, SIDECAR
from ctk.check.channel.problem import Problem
from ctk.core.errors import BadValue

_LARGEST = 8 << 20  # bytes of a sidecar; a bundle has some ten thousand
_PAYLOAD = "application/vnd.in-toto+json"
_ROOT = ("_store", quote("https://tuf-repo-cdn.sigstore.dev", safe=""), "trusted_root.json")


@dataclass(frozen=True)
class Policy:
    """What an attestation has to be.

    Attributes:
        identity: Who must have signed, as the certificate names them; None for anybody.
        issuer: Who must have vouched for that identity; None for anybody.
        channel: The URL that must be the target; None for any.
        required: Whether a package without an attestation is a problem.
        trusted_root: A file with the keys to trust; None for those of Sigstore's public instance, as the library has
            them.
    """

    identity: str | None = None
    issuer: str | None = None
    channel: str | None = None
    required: bool = False
    trusted_root: Path | None = None


@dataclass(frozen=True)
class Verified:
    """An attestation that holds.

    Attributes:
        signer: Identity and issuer, in words.
        channel: The target that it names, "" for none.
    """

    signer: str
    channel: str


class Verifier:
    """Verifies attestations; made once for a channel, since reading the keys takes a while."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._sigstore: Any = None

    def check(self, channel: Path, name: str, record: Mapping[str, Any]) -> Iterator[Problem | Verified]:
        """Every attestation of one package.

        Args:
            channel: The channel's folder.
            name: ``subdir/file`` of the package.
            record: What repodata says of it.
        """
        package = channel / name
        plain = package.with_name(package.name + SIDECAR)
        if FIELD not in record:
            if plain.exists():
                yield Problem(name, "attestation", f"{plain.name} is there, and repodata does not name it")
            elif self._policy.required:
                yield Problem(name, "attestation", "has none")
            return
        digest = record[FIELD]
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            yield Problem(name, "attestation", f"{FIELD} in repodata is no sha256")
            return
        fixed = package.with_name(f"{plain.name}.{digest}")
        try:
            if fixed.stat().st_size > _LARGEST:
                raise ValueError(f"has {fixed.stat().st_size} bytes")
            content = fixed.read_bytes()
            if hashlib.sha256(content).hexdigest() != digest:
                raise ValueError("does not have the sha256 that repodata states")
            bundles = json.loads(content)
            if not isinstance(bundles, list) or not bundles:
                raise ValueError("is no list of bundles")
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            yield Problem(name, "attestation", f"{fixed.name}: {reason}")
            return
        if not plain.is_file() or plain.stat().st_size != len(content) or plain.read_bytes() != content:
            yield Problem(name, "attestation", f"{plain.name} does not hold what {fixed.name} does")
        for number, bundle in enumerate(bundles, 1):
            found = self._verify(bundle, package.name, record.get("sha256"))
            yield found if isinstance(found, Verified) else Problem(name, "attestation", f"number {number}: {found}")

    def _verify(self, raw: Any, file: str, sha256: Any) -> Verified | str:
        """One bundle: what was verified, or why it is not."""
        try:
            from sigstore.errors import Error
            from sigstore.models import Bundle
        except ImportError:
            return "cannot be verified: sigstore is not installed (the extra `attest` of ctk)"
        verifier = self._ready()
        try:
            bundle = Bundle.from_json(json.dumps(raw))
            kind, payload = verifier.verify_dsse(bundle, self._who())
        except Error as error:
            return _short(error)
        except Exception as error:  # hostile bundles reach all of the library
            return f"cannot be read: {_short(error)}"
        problem, target = _statement(kind, payload, file, sha256, self._policy.channel)
        return problem or Verified(_signer(bundle.signing_certificate), target)

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
    """A policy that all signers meet; the library's own says so in the log for each."""

    def verify(self, certificate: Any) -> None:
        return


def _statement(kind: str, payload: bytes, file: str, sha256: Any, channel: str | None) -> tuple[str, str]:
    """What is wrong with a statement whose signature holds, "" for nothing; and the channel that it names."""
    try:
        said = json.loads(payload)
        subjects, predicate = said["subject"], said.get("predicate")
        target = "" if predicate is None else predicate["targetChannel"]
        statement, about = said["_type"], said["predicateType"]
        name, digest = subjects[0]["name"], subjects[0]["digest"]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        return f"its statement cannot be read: {type(error).__name__}: {error}", ""
    parts = urlsplit(target) if isinstance(target, str) else None
    wrong = {
        f"its payload is {kind!r}, not {_PAYLOAD}": kind != _PAYLOAD,
        f"its statement is of type {statement!r}": statement != "https://in-toto.io/Statement/v1",
        f"its predicate is {about!r}, not {PREDICATE}": about != PREDICATE,
        f"it is about {len(subjects)} subjects, not one": len(subjects) != 1,
        f"it is about {name!r}": name != file,
        f"it is about another content: {digest!r}": digest != {"sha256": sha256},
        f"its target {target!r} is no URL of a channel": target != ""
        and (parts is None or not parts.scheme or not parts.netloc or target.endswith("/")),
        f"it is for the channel {target!r}": channel is not None and target not in ("", channel.rstrip("/")),
    }
    return "; ".join(text for text, is_so in wrong.items() if is_so), str(target)


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
