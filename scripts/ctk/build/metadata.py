"""Takes out of a package's metadata what says where, when and on which machine it was built.

rattler-build records the moment of the build, its working directories, the channels it was given and the kernel, glibc
and processor of the machine. All that would tell every user where a package was built, and would make two builds of the
same thing differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from ctk.build import sbom
from ctk.build.provenance import Provenance
from ctk.core.errors import BuildFailed

# What a machine's folders are called in published metadata. The prefix keeps its placeholder's shape, cut short.
BUILD_ROOT = "/build"
_PLACEHOLDER = re.compile(r"(?:_placehold)+(?:_[placehod]*)?")
_INDEX, _ABOUT, _RECIPE = "info/index.json", "info/about.json", "info/recipe/rendered_recipe.yaml"
# A rendered recipe's last part begins here; what is before it comes from the recipe alone.
_CONFIGURATION = "\nbuild_configuration:\n"


def portable(files: Mapping[str, bytes], origin: Provenance, folders: Mapping[str, str]) -> Mapping[str, bytes]:
    """The metadata of a package as it is published, with its SBOM.

    Args:
        files: The files under ``info/``, as rattler-build wrote them.
        origin: Where the package comes from.
        folders: This machine's folders -> what stands for them in a package; longer names are replaced first.

    Raises:
        BuildFailed: rattler-build writes other metadata than is known here.
    """
    index = json.loads(files[_INDEX])
    index["timestamp"] = origin.timestamp * 1000
    texts = {name: _without(files[name].decode(), folders) for name in (_ABOUT, _RECIPE) if name in files}
    if _RECIPE in texts:
        texts[_RECIPE] = _rendered(texts[_RECIPE], origin)
    return {
        **files,
        **{name: text.encode() for name, text in texts.items()},
        _INDEX: json.dumps(index, indent=2, ensure_ascii=False).encode(),
        sbom.place(index["name"]): sbom.write(index, origin),
    }


def _without(text: str, folders: Mapping[str, str]) -> str:
    for old, new in sorted(folders.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(old, new)
    return _PLACEHOLDER.sub("", text)


def _rendered(text: str, origin: Provenance) -> str:
    """A rendered recipe in the words of a machine that has nothing special, at the time of the lock."""
    before, found, configuration = text.partition(_CONFIGURATION)
    moment = datetime.fromtimestamp(origin.timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for pattern, number, value in (
        (r"^    platform: .*$", 2, f"    platform: {origin.place}"),
        (r"^    virtual_packages:(?: \[\]|(?:\n    - .*)+)$", 2, "    virtual_packages: []"),
        (r"^  timestamp: .*$", 1, f"  timestamp: {moment}"),
        (r"^    compression_level: .*$", 1, f"    compression_level: {origin.level}"),
    ):
        configuration, times = re.subn(pattern, value, configuration, flags=re.MULTILINE)
        if not found or times != number:
            raise BuildFailed(
                f"rattler-build {origin.tools['rattler-build']} writes rendered recipes in another way "
                f"({times} places look like {pattern!r}, not {number})",
                "adapt ctk.building.metadata to it; without that, two builds of a package would differ",
            )
    return before + found + configuration
