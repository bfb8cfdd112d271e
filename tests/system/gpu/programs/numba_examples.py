"""Runs the examples of numba-cuda's own documentation with numba-cuda, and with numba-cuda-mlir.

The wheel of numba-cuda has them as tests. For numba-cuda-mlir only the imports change, as its guide
to migration says. Each runs in a process of its own, in an environment with both packages, on a
machine with a GPU. Prints one JSON object: for each example ``passed``, ``skipped`` or the last
line of its error, for both.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

IMPORT = re.compile(r"^(\s*from )numba((?:\.cuda(?:\.random|\.types)?)? import )", re.MULTILINE)
HELPERS = re.compile(r"^from numba\.cuda\.(testing|tests\.support) import", re.MULTILINE)
SECONDS = 40

# What the examples take of numba-cuda's tests, which need pytest and a program of LLVM.
SUPPORT = """
import contextlib, io, unittest

CUDATestCase = unittest.TestCase

def _always(test):
    return test

def skip_on_cudasim(reason):
    return _always

skip_if_cudadevrt_missing = skip_unless_cc_60 = skip_on_standalone_numba_cuda = _always

def skip_unless_cffi(test):
    try:
        import cffi
    except ImportError:
        return unittest.skip("there is no cffi")(test)
    return test

def captured_stdout():
    return contextlib.redirect_stdout(io.StringIO())

@contextlib.contextmanager
def override_config(name, value):
    from numba.cuda import config
    before = getattr(config, name)
    setattr(config, name, value)
    try:
        yield
    finally:
        setattr(config, name, before)
"""
RUN = """
import importlib, sys, unittest
folder, name = sys.argv[1:]
sys.path.insert(0, folder)
module = importlib.import_module(name)
suite = unittest.defaultTestLoader.loadTestsFromModule(module)
functions = [value for key, value in vars(module).items() if key.startswith("test_")]
suite.addTests(unittest.FunctionTestCase(value) for value in functions if callable(value))
result = unittest.TextTestRunner(verbosity=2).run(suite)
print("skipped" if len(result.skipped) == result.testsRun else "passed")
sys.exit(not result.wasSuccessful() or not result.testsRun)
"""


def with_mlir(source: str) -> str:
    """The source with the imports of numba-cuda-mlir."""
    return IMPORT.sub(r"\1numba_cuda_mlir\2", source)


def outcome(file: Path) -> str:
    """How the tests of a file end."""
    words = [sys.executable, "-I", "-c", RUN, str(file.parent), file.stem]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=SECONDS, cwd=file.parent
        )
    except subprocess.TimeoutExpired:
        return f"not done after {SECONDS} s"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    if done.returncode == 0:
        return done.stdout.split()[-1]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return (errors or lines)[-1][:200]


def main() -> None:
    numba_cuda = importlib.util.find_spec("numba_cuda")
    assert numba_cuda is not None
    assert numba_cuda.origin is not None
    folder = Path(numba_cuda.origin).parent / "numba/cuda/tests/doc_examples"
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as place:
        for package, change in (("numba-cuda", str), ("numba-cuda-mlir", with_mlir)):
            copies = Path(place) / package
            shutil.copytree(folder, copies)  # with the files that examples read
            (copies / "support.py").write_text(SUPPORT, encoding="utf-8")
            for file in sorted(copies.glob("test_*.py")):
                source = HELPERS.sub("from support import", file.read_text(encoding="utf-8"))
                file.write_text(change(source), encoding="utf-8")
                found.setdefault(file.stem, {})[package] = outcome(file)
    json.dump(found, sys.stdout)


main()
