"""Attestations of published packages: statements as CEP 27 says, beside the packages as CEP 50 says.

https://github.com/conda/ceps/blob/main/cep-0027.md and https://github.com/conda/ceps/blob/main/cep-0050.md
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ctk.channel.index_files import ChannelIndex
from ctk.core.errors import CtkError, PublishFailed
from ctk.core.files import replace_file

if TYPE_CHECKING:  # an extra
    from sigstore.sign import Signer, SigningContext

PREDICATE = "https://schemas.conda.org/attestations/publish/v1"
FIELD = "attestations_sha256"  # in repodata: the sha256 of the sidecar
SIDECAR = ".sigs"


class Attester(Protocol):
    """What signs."""

    def bundle(self, file: str, sha256: str) -> str:
        """A Sigstore bundle, as JSON, which says that a package of this name and content was published."""
        ...


@dataclass
class Sigstore:
    """Signs with the identity of the CI job that this runs in, and notes it in Sigstore's public log.

    Attributes:
        channel: URL under which the folder is read, which becomes part of the statement.
        context: Gives a `sigstore.sign.SigningContext`; that of the public instance by default.
        token: Gives the job's identity token, None where there is none.
    """

    channel: str
    context: Callable[[], SigningContext] = field(default=lambda: _public(), repr=False)
    token: Callable[[], str | None] = field(default=lambda: _ambient(), repr=False)
    _signer: Signer | None = field(default=None, init=False, repr=False)

    def bundle(self, file: str, sha256: str) -> str:
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
                return self._ready().sign_dsse(statement).to_json()
            except (ExpiredCertificate, ExpiredIdentity):  # they live for minutes; a large channel takes longer
                self._signer = None
                return self._ready().sign_dsse(statement).to_json()
        except CtkError:
            raise
        except Exception as error:  # sigstore's own have no common base, and its client's come through
            raise PublishFailed(
                f"{file} cannot be attested: {type(error).__name__}: {error}", "run the command again to go on"
            ) from error

    def _ready(self) -> Signer:
        from sigstore.oidc import IdentityToken
        from sigstore.sign import Signer

        if self._signer is None:
            token = self.token()
            if token is None:
                raise PublishFailed(
                    "an attestation says which CI job published a package, and this is none that has an identity",
                    "run it in GitHub Actions with `permissions: id-token: write`, or without --attest",
                )
            self._signer = Signer(IdentityToken(token), self.context())
        return self._signer


def _public() -> SigningContext:
    from sigstore.models import ClientTrustConfig
    from sigstore.sign import SigningContext

    return SigningContext.from_trust_config(ClientTrustConfig.production())


def _ambient() -> str | None:
    from sigstore.oidc import detect_credential

    return detect_credential()


def attach(index: ChannelIndex, folder: Path, names: Sequence[str], attester: Attester) -> ChannelIndex:
    """The index with an attestation for each of some packages; those that have one keep it.

    A sidecar is written under its content's name, then under the name that tools guess, and only then named by the
    index that this returns: a reader of any index finds what it names.

    Args:
        index: What is going to be published.
        folder: The channel, with the packages in it.
        names: ``subdir/file`` of the packages.
        attester: Signs.

    Raises:
        PublishFailed: Nothing signs here.
    """
    fresh = {
        name: {**record, FIELD: _sidecar(folder / name, record["sha256"], attester)}
        for name, record in ((name, index.records[name]) for name in names)
        if FIELD not in record
    }
    return replace(index, records={**index.records, **fresh})


def _sidecar(package: Path, sha256: str, attester: Attester) -> str:
    """Writes the sidecar of a package, or takes the one that a killed run left; returns its sha256."""
    plain = package.with_name(package.name + SIDECAR)
    left = plain.read_bytes() if plain.exists() else b""  # what was accepted once stays, as CEP 50 demands
    content = left or f"[{attester.bundle(package.name, sha256)}]".encode()
    digest = hashlib.sha256(content).hexdigest()
    replace_file(package.with_name(f"{plain.name}.{digest}"), content)
    replace_file(plain, content)
    return digest
