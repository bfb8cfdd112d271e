"""The attestations of a bucket, by a key of its keeper."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from ctk.core.errors import ChannelBroken

pytest.importorskip("securesystemslib", reason="the extra `attest` of ctk is not installed")

from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

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
