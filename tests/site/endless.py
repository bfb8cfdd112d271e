"""A run that solves without end: `endless.py FOLDER` writes the number of each process that solves into the folder."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from ctk.site.answers import Axes, Work, solved


class Endless(Work):
    """Work that never ends: what solving reads first takes for ever."""

    def __getattribute__(self, name: str) -> Any:
        if name == "channels" and __name__ == "__mp_main__":
            Path(sys.argv[1], f"{os.getpid()}.begun").touch()
            time.sleep(600)
        return super().__getattribute__(name)


if __name__ == "__main__":
    axes = Axes("linux-64", (None,), (None,), ("",), ("",), ("one", "other"))
    list(solved([Endless(axes, (), name, "") for name in axes.packages], 2, lambda size, note: None))
