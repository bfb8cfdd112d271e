"""The SBOM of a channel: CycloneDX 1.6, with every package that its index names, beside the index.

It follows from the index alone. What is inside of a package is in the SBOM of the package, whose
place each entry names. cyclonedx-python-lib takes 28 seconds to write 7,320 packages, at each
publishing, so the entries are made here; the tests hold them to the schema of the standard by that
library.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from packageurl import PackageURL

from ctk.build import sbom
from ctk.channel.repodata import ChannelIndex, made_at

BILL = "channel.cdx.json"
_SERIAL = uuid.uuid5(uuid.NAMESPACE_URL, "urn:cuda-feedstocks:channel")
_SBOM = "cuda-feedstocks:sbom"  # property: the place of the SBOM inside of the package


def bill_of(index: ChannelIndex) -> bytes:
    """The SBOM of the channel with an index; the same index gives the same bytes."""
    names = json.dumps(index.names(), sort_keys=True)
    newest = max(map(made_at, index.records.values()), default=0) // 1000
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(_SERIAL, names).urn,
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(newest, UTC).isoformat(),
            "component": {"type": "data", "name": "channel", "bom-ref": "channel"},
        },
        "components": [_package(name, index.records[name]) for name in sorted(index.records)],
    }
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def _package(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    about = {"build": record.get("build", ""), "subdir": name.partition("/")[0], "type": "conda"}
    purl = PackageURL("conda", None, record["name"], record.get("version"), about)
    package = {
        "type": "library",
        "bom-ref": name,
        "name": record["name"],
        "version": str(record.get("version", "")),
        "purl": purl.to_string(),
        "hashes": [{"alg": "SHA-256", "content": record["sha256"]}],
        "properties": [{"name": _SBOM, "value": sbom.place(record["name"])}],
    }
    licence = record.get("license")
    if licence:  # as the recipe states it, which need not be an expression of SPDX
        package["licenses"] = [{"license": {"name": licence}}]
    return package


def read_bill(text: bytes) -> dict[str, str]:
    """The packages that the SBOM of a channel names: ``subdir/file`` -> sha256.

    Raises:
        ValueError: It is no such SBOM.
    """
    try:
        components = json.loads(text)["components"]
        return {package["bom-ref"]: package["hashes"][0]["content"] for package in components}
    except (KeyError, TypeError, IndexError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
