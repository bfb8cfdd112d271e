"""Makes the index of a channel say nothing of the moment when it was made: the same packages give the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import zstandard

# rattler notes when it first saw a package. A built channel has not been published: publishing states when that was.
_MOMENTS = frozenset({"indexed_timestamp"})


def settle(folder: Path) -> None:
    """Rewrites ``repodata.json`` and ``repodata.json.zst`` of one subdir; for an index that no reader sees yet."""
    file = folder / "repodata.json"
    text = json.dumps(_without_moments(json.loads(file.read_bytes())), sort_keys=True, separators=(",", ":")).encode()
    file.write_bytes(text)
    file.with_name("repodata.json.zst").write_bytes(zstandard.ZstdCompressor(level=19).compress(text))


def _without_moments(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_moments(inner) for key, inner in value.items() if key not in _MOMENTS}
    return [_without_moments(inner) for inner in value] if isinstance(value, list) else value
