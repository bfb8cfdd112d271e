"""A Sigstore without a network: a certificate authority, a certificate log and a transparency log
with their own keys.

What signs and verifies is Sigstore's client. Only its root of trust is another, and its requests
are answered here. So a genuine attestation can be made, and spoilt.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from sigstore._internal.rekor.client import RekorClient
from sigstore.models import TransparencyLogEntry, TrustedRoot
from sigstore.oidc import IdentityToken
from sigstore.sign import SigningContext

WORKFLOW = "https://git.example.org/cuda/channel/.github/workflows/publish.yml@refs/heads/main"
ISSUER = "https://token.example.org"
ISSUER_OID = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
SCT_OID = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
SHA256 = ec.ECDSA(hashes.SHA256())
START = datetime(2026, 1, 1, tzinfo=UTC)


def text64(content: bytes) -> str:
    return base64.b64encode(content).decode()


class Key:
    """A key pair with the names that Sigstore gives it."""

    def __init__(self) -> None:
        self.private = ec.generate_private_key(ec.SECP256R1())
        self.public = self.private.public_key()
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        self.der = self.public.public_bytes(serialization.Encoding.DER, form)
        self.id = hashlib.sha256(self.der).digest()

    def sign(self, content: bytes) -> bytes:
        return self.private.sign(content, SHA256)


class OwnSigstore:
    """The three services; `trusted_root` is a file with their root of trust, for clients."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.certificate_log, self.log = Key(), Key(), Key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test's authority")])
        self.root = (
            self._builder(name, self.authority.public, START, START + timedelta(days=3650))
            .subject_name(name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
            .sign(self.authority.private, hashes.SHA256())
        )
        self.trusted_root = folder / "trusted_root.json"
        self._write_root()

    def _builder(
        self, issuer: x509.Name, key: Any, begin: datetime, end: datetime
    ) -> x509.CertificateBuilder:
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority.public)
        return (
            x509.CertificateBuilder()
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(authority, critical=False)
        )

    def certificate(self, key: Any, identity: str) -> x509.Certificate:
        """A certificate for an identity, which the certificate log has seen."""
        now = datetime.now(UTC).replace(microsecond=0)
        builder = (
            self._builder(
                self.root.subject, key, now - timedelta(seconds=5), now + timedelta(minutes=10)
            )
            .subject_name(x509.Name([]))
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False
            )
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity)]),
                critical=True,
            )
            .add_extension(x509.UnrecognizedExtension(ISSUER_OID, ISSUER.encode()), critical=False)
        )
        # RFC 6962: the log signs the certificate as it is without the log's own note.
        plain = builder.sign(self.authority.private, hashes.SHA256()).tbs_certificate_bytes
        stamp = struct.pack("!Q", int(now.timestamp() * 1000))
        entry = self.authority.id + struct.pack("!I", len(plain))[1:] + plain
        signature = self.certificate_log.sign(b"\0\0" + stamp + b"\0\1" + entry + b"\0\0")
        note = (
            b"\0"
            + self.certificate_log.id
            + stamp
            + b"\0\0"
            + b"\4\3"
            + struct.pack("!H", len(signature))
            + signature
        )
        listed = struct.pack("!HH", len(note) + 2, len(note)) + note
        value = bytes([4, len(listed)] if len(listed) < 128 else [4, 0x81, len(listed)]) + listed
        return builder.add_extension(
            x509.UnrecognizedExtension(SCT_OID, value), critical=False
        ).sign(self.authority.private, hashes.SHA256())

    def entry(self, proposed: Mapping[str, Any]) -> dict[str, Any]:
        """An envelope in the transparency log, with its proof."""
        envelope = json.loads(proposed["spec"]["proposedContent"]["envelope"])
        payload = base64.b64decode(envelope["payload"])
        body = {
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "envelopeHash": _digest(proposed["spec"]["proposedContent"]["envelope"].encode()),
                "payloadHash": _digest(payload),
                "signatures": [
                    {
                        "signature": s["sig"],
                        "verifier": proposed["spec"]["proposedContent"]["verifiers"][0],
                    }
                    for s in envelope["signatures"]
                ],
            },
        }
        content = json.dumps(body, separators=(",", ":"), sort_keys=True).encode()
        leaf, other = (
            hashlib.sha256(b"\0" + text).digest() for text in (content, b"an entry before it")
        )
        root = hashlib.sha256(b"\1" + other + leaf).digest()
        note = f"log.example.org - 1\n2\n{text64(root)}\n"
        signed = text64(self.log.id[:4] + self.log.sign(note.encode()))
        promise = {
            "body": text64(content),
            "integratedTime": int(datetime.now(UTC).timestamp()),
            "logID": self.log.id.hex(),
            "logIndex": 1,
        }
        stated = json.dumps(promise, separators=(",", ":"), sort_keys=True).encode()
        proof = {
            "logIndex": 1,
            "rootHash": root.hex(),
            "treeSize": 2,
            "hashes": [other.hex()],
            "checkpoint": f"{note}\n\u2014 log.example.org {signed}\n",
        }
        verification = {
            "signedEntryTimestamp": text64(self.log.sign(stated)),
            "inclusionProof": proof,
        }
        return {"24296fb24b8ad77a" + leaf.hex(): promise | {"verification": verification}}

    def _write_root(self) -> None:
        valid = {"start": START.isoformat()}

        def log(key: Key) -> dict[str, Any]:
            public = {
                "rawBytes": text64(key.der),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": valid,
            }
            return {
                "baseUrl": "https://log.example.org",
                "hashAlgorithm": "SHA2_256",
                "publicKey": public,
                "logId": {"keyId": text64(key.id)},
            }

        der = self.root.public_bytes(serialization.Encoding.DER)
        root = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log(self.log)],
            "ctlogs": [log(self.certificate_log)],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "example.org", "commonName": "a test's authority"},
                    "uri": "https://ca.example.org",
                    "certChain": {"certificates": [{"rawBytes": text64(der)}]},
                    "validFor": valid,
                }
            ],
            "timestampAuthorities": [],
        }
        self.trusted_root.write_text(json.dumps(root))

    def context(self) -> SigningContext:
        """The context in which a signer uses these services."""
        root = TrustedRoot.from_file(str(self.trusted_root))
        log = _Log("https://log.example.org")
        log.own = self
        return SigningContext(
            fulcio=SimpleNamespace(signing_cert=self), rekor=log, trusted_root=root
        )

    def post(
        self, request: x509.CertificateSigningRequest, identity: IdentityToken
    ) -> SimpleNamespace:
        """A certificate, as the authority's client returns it."""
        return SimpleNamespace(
            cert=self.certificate(request.public_key(), identity.identity), chain=[self.root]
        )


def token(identity: str = WORKFLOW) -> str:
    """The identity token of a CI job."""
    now = int(datetime.now(UTC).timestamp())
    claims = {
        "iss": ISSUER,
        "sub": identity,
        "aud": "sigstore",
        "iat": now,
        "nbf": now - 5,
        "exp": now + 600,
    }
    parts = [{"alg": "none", "typ": "JWT"}, claims]
    return ".".join(
        [
            *(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts),
            "",
        ]
    )


class _Log(RekorClient):
    """The log's client, which asks an `OwnSigstore`."""

    own: OwnSigstore

    def create_entry(self, request: Mapping[str, Any]) -> TransparencyLogEntry:
        return TransparencyLogEntry._from_v1_response(self.own.entry(request))


def _digest(content: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(content).hexdigest()}


def _usage(**which: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        **{name: which.get(name, False) for name in inspect.signature(x509.KeyUsage).parameters}
    )
