"""Rewrites the golden files from the recipes and built packages: ``python tests/recipes/update_golden.py [folder]``.

A folder holds packages that were built elsewhere. A variant with no package keeps the files it had.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import golden

from ctk.core.checkout import workspace


def updated(folders: list[Path]) -> Iterator[tuple[Path, str]]:
    """Each golden file that should exist, with its text."""
    goldens = golden.rendered(workspace())
    golden.add_files(goldens, (path for folder in folders for path in folder.rglob("*.conda")))
    for name, now in goldens.items():
        before = golden.load(name)
        for variant, record in now.records.items():
            if "files" not in record and "files" in before.records.get(variant, {}):
                record["files"] = before.records[variant]["files"]
        yield golden.FOLDER / f"{name}.yaml", golden.dump(now)


def main() -> None:
    golden.FOLDER.mkdir(exist_ok=True)
    texts = dict(updated([workspace().channel.resolve(), *map(Path, sys.argv[1:])]))
    for path in golden.FOLDER.glob("*.yaml"):
        if path not in texts:
            path.unlink()
            print(f"removed {path.name}")
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
