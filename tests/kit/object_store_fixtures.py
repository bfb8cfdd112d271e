"""An empty bucket for a test, in a store that all tests of a process share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.object_store import LOGIN, Store, serving


@pytest.fixture(scope="session")
def moto_store() -> Iterator[Store]:
    with serving() as store:
        yield store


@pytest.fixture
def store(moto_store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An endpoint with the empty bucket ``channels``, named by the usual variables."""
    for name, value in {**LOGIN, "AWS_ENDPOINT_URL": moto_store.url}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    moto_store.faults.clear()
    client = moto_store.client()
    names = [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]
    for name in names:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=name):
            for item in page.get("Contents", []):
                client.delete_object(Bucket=name, Key=item["Key"])
    if "channels" not in names:
        client.create_bucket(Bucket="channels")
    moto_store.requests.clear()
    return moto_store
