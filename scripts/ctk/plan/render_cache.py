"""Rendered outputs by the content of what they are made of: rendering all recipes for all releases takes minutes.

Only plans read it. A build renders its recipe itself, so nothing here can reach a package.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import rattler_build
from pydantic import TypeAdapter, ValidationError

from ctk.core.checkout import workspace
from ctk.core.platforms import this_platform
from ctk.plan import rendered
from ctk.plan.rendered import Rendered

_OUTPUTS = TypeAdapter(list[Rendered])


@cache
def _tools() -> bytes:
    """What turns a recipe into outputs: rattler-build, and our reading of what it rendered."""
    digest = hashlib.sha256(f"{rattler_build.rattler_build_version()} {this_platform()}".encode())
    digest.update(Path(rendered.__file__).read_bytes())
    return digest.digest()


def cached(
    recipe: Path, variant_files: Sequence[Path], subdir: str, make: Callable[[], list[Rendered]]
) -> list[Rendered]:
    """What `make` gives, or gave before for files of the same content.

    Args:
        recipe: The recipe's file.
        variant_files: In order.
        subdir: The target platform.
        make: Renders.
    """
    digest = hashlib.sha256(_tools() + subdir.encode())
    for file in (recipe, *variant_files):
        # rattler-build takes the file's name into account; `read_bytes` fails here as rendering would.
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    path = workspace().cache / "rendered" / f"{digest.hexdigest()[:32]}.json"
    with suppress(OSError, ValidationError):  # not there, or cut short
        return _OUTPUTS.validate_json(path.read_bytes())
    outputs = make()
    with suppress(OSError):  # a cache that cannot be written is none
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_bytes(_OUTPUTS.dump_json(outputs))
        os.replace(new, path)
    return outputs
