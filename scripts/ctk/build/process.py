"""The process in which a worker makes one build: ``python -m ctk.build.process FOLDER PARENT``, the worker's id.

The folder holds `ORDER` and a checkout with all that it reads. The packages come into the checkout's cache; what goes
wrong on purpose comes into `FAILURE`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ctk.build.order import from_json, placed
from ctk.build.runner import make
from ctk.core.checkout import Workspace
from ctk.core.errors import CtkError
from ctk.core.process import end_with

ORDER = "order.json"
FAILURE = "failure.txt"


def main(root: Path, parent: int) -> None:
    end_with(parent)  # nobody wants the build of a killed worker any more
    order = from_json((root / ORDER).read_text(encoding="utf-8"))
    workspace = Workspace(root)
    try:
        make(placed(order, workspace), workspace, order.level, os.cpu_count() or 1)
    except CtkError as error:
        (root / FAILURE).write_text(error.cause, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
