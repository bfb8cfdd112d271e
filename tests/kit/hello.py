"""The programs of examples/ that users start from, and the facts that they print."""

from __future__ import annotations

import re
from pathlib import Path

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HELLO_CUDA_CORE = _EXAMPLES / "hello-cuda-core.py"
HELLO_NUMBA_CUDA = _EXAMPLES / "hello-numba-cuda.py"
HELLO_NUMBA_CUDA_MLIR = _EXAMPLES / "hello-numba-cuda-mlir.py"


def facts(printed: str) -> dict[str, str]:
    """Name -> value, of the aligned list that such a program prints."""
    return dict(re.findall(r"^(\S.*?) {2,}(\S.*)$", printed, re.M))
