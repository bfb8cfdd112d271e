"""PE files (EXE, DLL, extension module) through lief, imported with the first one: it takes a third of a second."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any


def parse(source: Path | bytes, without: Iterable[str]) -> Any:
    """A PE file as lief has it; None when it cannot be parsed.

    Args:
        source: The file.
        without: Parts that are not looked at, by lief's names.
    """
    import lief

    lief.logging.disable()
    config = lief.PE.ParserConfig()
    for part in (*without, "signature", "reloc", "rsrc", "exceptions", "arm64x_binary"):
        setattr(config, f"parse_{part}", False)
    parsed = lief.PE.parse(str(source) if isinstance(source, Path) else source, config)
    return parsed if isinstance(parsed, lief.PE.Binary) else None
