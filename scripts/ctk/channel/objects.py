"""Objects in a bucket of any S3, by boto3: listed, read, put on a condition, deleted.

The endpoint, the region and the login are those of the usual variables and files of AWS. A redirect
to another host is never followed, so that a login goes nowhere but to the endpoint.
"""

from __future__ import annotations

import hashlib
import os
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ctk.core.checkout import lacks_package
from ctk.core.errors import BadValue, Busy, PublishFailed
from ctk.core.files import open_plain
from ctk.core.secrets import hide, without_credentials

_ADDRESS = re.compile(r"s3:/+(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?P<prefix>(?:/[^/]+)*)/?")
_AGAIN = "run the command again to continue"
_KEEPER = "ask whoever runs the store"
_LONGEST_WAIT = 60  # seconds that a store may ask us to wait before a request is repeated
_REGION = "us-east-1"  # what stores that have no regions take
_STEPS = {
    301: "the bucket is elsewhere: set AWS_ENDPOINT_URL and AWS_REGION to where it is",
    302: "set AWS_ENDPOINT_URL to the host that answers without a redirect",
    307: "set AWS_ENDPOINT_URL to the host that answers without a redirect",
    308: "set AWS_ENDPOINT_URL to the host that answers without a redirect",
    400: "check AWS_ENDPOINT_URL, AWS_REGION and the login",
    401: "correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    403: (
        "correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ask for the rights to list the"
        " bucket, and to get, put and delete its objects"
    ),
    404: "make the bucket, or name another; AWS_ENDPOINT_URL names the store",
    413: f"the object is larger than the store accepts: {_KEEPER}",
    501: "the store does not accept conditional writes (If-Match), which guard a channel",
}
"""Status of a refused request -> what can help. Any other one may be gone the next time."""
_CONTENT_TYPES = {".json": "application/json", ".zst": "application/zstd"}


@dataclass(frozen=True)
class Listed:
    """What a list says of an object."""

    size: int
    etag: str  # without quotes; the MD5 of the content, in most stores


@dataclass(frozen=True)
class Objects:
    """The objects below a prefix of a bucket; keys are without the prefix."""

    bucket: str
    prefix: str  # empty, or ends with a slash

    @classmethod
    def at(cls, address: str) -> Objects:
        """Raises BadValue for an address that is not ``s3://BUCKET/PREFIX``."""
        match = _ADDRESS.fullmatch(address)
        if not match:
            raise BadValue(
                f"{without_credentials(address)} is not an address of a bucket",
                "name one as in s3://BUCKET/PREFIX",
            )
        prefix = match["prefix"].lstrip("/")
        return cls(match["bucket"], f"{prefix}/" if prefix else "")

    @property
    def address(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    def list(self) -> dict[str, Listed]:
        pages = self._client.get_paginator("list_objects_v2")
        with self._errors("list"):
            found = [
                item
                for page in pages.paginate(Bucket=self.bucket, Prefix=self.prefix)
                for item in page.get("Contents", [])
            ]
        return {
            item["Key"].removeprefix(self.prefix): Listed(item["Size"], item["ETag"].strip('"'))
            for item in found
        }

    def read(self, key: str) -> bytes:
        """The content of an object; nothing if there is none."""
        from botocore.exceptions import ClientError

        with self._errors(f"give {key}"):
            try:
                answer = self._client.get_object(Bucket=self.bucket, Key=self.prefix + key)
            except ClientError as error:
                if error.response["Error"]["Code"] == "NoSuchKey":
                    return b""
                raise
            content: bytes = answer["Body"].read()
            return content

    def fetch(self, key: str, file: Path) -> None:
        """Writes the content of an object into a file; nothing if there is none."""
        from botocore.exceptions import ClientError

        with self._errors(f"give {key}"):
            try:
                answer = self._client.get_object(Bucket=self.bucket, Key=self.prefix + key)
            except ClientError as error:
                if error.response["Error"]["Code"] == "NoSuchKey":
                    return
                raise
            with file.open("wb") as target:
                for chunk in answer["Body"].iter_chunks(1 << 20):
                    target.write(chunk)

    def sha256(self, key: str) -> str:
        """The sha256 of an object's content, which is read for it."""
        digest = hashlib.sha256()
        with self._errors(f"give {key}"):
            answer = self._client.get_object(Bucket=self.bucket, Key=self.prefix + key)
            for chunk in answer["Body"].iter_chunks(1 << 20):
                digest.update(chunk)
        return digest.hexdigest()

    def stated_sha256(self, key: str) -> str | None:
        """The sha256 that was stated when an object was put, and that the store has compared."""
        with self._errors(f"give information about {key}"):
            answer = self._client.head_object(Bucket=self.bucket, Key=self.prefix + key)
        stated: str | None = answer["Metadata"].get("sha256")
        return stated

    def put(self, key: str, content: bytes | Path, sha256: str, was: Listed | None) -> Listed:
        """Puts an object whole, unless another run has put it meanwhile.

        Args:
            key: Its key.
            content: Its content, or the file that has it.
            sha256: That of the content. A store that knows it compares what arrives.
            was: What the object is until now; None if there is none.

        Raises:
            Busy: The object is not what it was.
        """
        condition = {"IfMatch": f'"{was.etag}"'} if was else {"IfNoneMatch": "*"}
        words = {
            "Bucket": self.bucket,
            "Key": self.prefix + key,
            "ChecksumSHA256": b64encode(bytes.fromhex(sha256)).decode(),
            "Metadata": {"sha256": sha256},
            "ContentType": _CONTENT_TYPES.get(Path(key).suffix, "application/octet-stream"),
        }
        with self._errors(f"take {key}"):
            if isinstance(content, Path):
                with open_plain(content) as body:
                    answer = self._client.put_object(Body=body, **words, **condition)
                size = content.stat().st_size
            else:
                answer = self._client.put_object(Body=content, **words, **condition)
                size = len(content)
        return Listed(size, answer["ETag"].strip('"'))

    def refuse_another(self, key: str, was: Listed | None) -> None:
        """Raises Busy if an object is no longer what it was."""
        if was:
            words = {"Bucket": self.bucket, "Key": self.prefix + key, "IfMatch": f'"{was.etag}"'}
            with self._errors(f"give information about {key}"):
                self._client.head_object(**words)

    def delete(self, key: str) -> None:
        with self._errors(f"delete {key}"):
            self._client.delete_object(Bucket=self.bucket, Key=self.prefix + key)

    @cached_property
    def _client(self) -> Any:
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError
        except ModuleNotFoundError as error:
            raise lacks_package("buckets", error, "boto3") from None
        with self._errors("answer"):
            session = boto3.Session()
            login = session.get_credentials()
            if login:
                hide(login.secret_key or "")
                hide(login.token or "")
            region = os.environ.get("AWS_REGION") or session.region_name or _REGION
            try:
                client = session.client("s3", region_name=region, config=Config(**_settings()))
            except (ValueError, BotoCoreError) as error:
                raise BadValue(
                    f"there is no client for S3: {without_credentials(str(error))}",
                    "check AWS_ENDPOINT_URL and AWS_REGION",
                ) from None
        client.meta.events.register_first("needs-retry.s3", _wait_as_told)
        return client

    @contextmanager
    def _errors(self, asked: str) -> Iterator[None]:
        """Turns errors of the store and its client into ours; `asked` is what it did not do."""
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        cause = f"{self.address} does not {asked}"
        try:
            yield
        except NoCredentialsError:
            step = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or log in as for `aws s3 ls`"
            raise PublishFailed(f"{cause}: you have no login for it", step) from None
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if status in (409, 412):
                step = "run the command again when the other run has ended"
                raise Busy(f"another run publishes into {self.address}", step) from None
            why = " ".join(without_credentials(str(error)).split())
            raise PublishFailed(
                f"{cause}: HTTP {status}, {why}", _STEPS.get(status, _AGAIN)
            ) from None
        except BotoCoreError as error:
            why = " ".join(without_credentials(str(error)).split())
            raise PublishFailed(f"{cause}: {why}", _AGAIN) from None


def _settings() -> dict[str, Any]:
    """What differs from boto3's defaults, for stores that are not Amazon's."""
    settings: dict[str, Any] = {
        "retries": {"mode": "standard"},
        "connect_timeout": 20,
        # A checksum is sent where we state one: other stores do not know the one that is boto3's.
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
        "user_agent_extra": "ctk",
    }
    is_own = bool(os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT_URL_S3"))
    if is_own:  # BUCKET.HOST is seldom a name of DNS there
        settings["s3"] = {"addressing_style": "path"}
    return settings


def _wait_as_told(response: Any, attempts: int, operation: Any, **_: Any) -> float | None:
    """Seconds until a request is repeated, where the store states them with its refusal."""
    if response is None or response[0].status_code not in (429, 503):
        return None
    told = response[0].headers.get("retry-after", "")
    most = int(os.environ.get("AWS_MAX_ATTEMPTS") or 3)
    if not told.isdecimal() or attempts >= most or int(told) > _LONGEST_WAIT:
        return None
    return float(told)
