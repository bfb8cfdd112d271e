"""Compiles the modules of an environment without bytecode: a program for that environment's Python.

    PREFIX/bin/python -I -S -B -W ignore bytecode.py PREFIX

Bytecode is valid as long as the source has the same hash (PEP 552), so it survives copies and
packs, which change the times of files, and no edit goes unseen. It names files relative to the
prefix: the same modules give the same bytes.
"""

import compileall
import functools
import importlib.util
import os
import py_compile
import sys
from concurrent.futures import ProcessPoolExecutor


def modules_without_bytecode(prefix: str) -> list[str]:
    """Paths of the modules below the Python's own folder."""
    threads = "t" if "t" in sys.abiflags else ""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}{threads}"
    own = os.path.join(prefix, "Lib") if os.name == "nt" else os.path.join(prefix, "lib", version)
    found = (os.path.join(folder, name) for folder, _, names in os.walk(own) for name in names)
    modules = (path for path in found if path.endswith(".py"))
    return sorted(
        path for path in modules if not os.path.exists(importlib.util.cache_from_source(path))
    )


def main(prefix: str) -> None:
    """Compiles the modules, with a process for each core.

    Files that are not valid Python are left out silently.
    """
    compile_one = functools.partial(
        compileall.compile_file,
        quiet=2,
        stripdir=prefix,
        invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
    )
    modules = modules_without_bytecode(prefix)
    if not modules:
        return
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    try:
        with ProcessPoolExecutor(min(cores, 32)) as pool:
            list(pool.map(compile_one, modules, chunksize=16))
    except (ImportError, NotImplementedError, OSError):  # a system without semaphores has no pools
        list(map(compile_one, modules))


if __name__ == "__main__":
    main(*sys.argv[1:])
