"""A checkout whose channel has modules of every kind: broken, with a prefix, of an old Python."""

from __future__ import annotations

import sys
from pathlib import Path

from ctk.core.checkout import Workspace
from kit.packs import checkout
from kit.tiny_packages import PLACEHOLDER, application, pure, tiny

SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
OLD = "lib/python3.1/site-packages"


def odd_checkout(root: Path) -> Workspace:
    folder = tiny(
        "folder",
        depends=("python",),
        files={
            f"{SITE}/folder/__init__.py": b"x = 1\n",
            f"{SITE}/folder/broken.py": b"this is not a Python\n",
        },
    )
    placed = tiny(
        "placed",
        depends=("python",),
        files={f"{SITE}/placed.py": f"home = {PLACEHOLDER!r}\n".encode()},
        placeholders={f"{SITE}/placed.py": PLACEHOLDER},
    )
    old = tiny("old", files={f"{OLD}/old.py": b"x = 1\n"})
    return checkout(root, application(), pure(), folder, placed, old)
