"""A pytest plugin for `upstream.py`: writes a line for each test that starts and ends, so that a crash loses nothing.

It also stands for the conftest.py beside numba-cuda's tests in its repository, which its wheel lacks.
"""

import importlib
import json
import os
import zlib

import pytest

_FILE, _MODULE = os.environ.get("UPSTREAM_RESULTS"), os.environ.get("UPSTREAM_MODULE")
_SAMPLE = int(os.environ.get("UPSTREAM_SAMPLE", "1"))


class Module(pytest.Module):
    """A test module under the name that users import it by.

    pytest would make a name of its path, ``cuda.tests...``, as numba_cuda/numba is no package: processes that tests
    start cannot import that, and the tests would wait for them for ever.
    """

    def _getobj(self):
        return importlib.import_module(_MODULE)


def pytest_pycollect_makemodule(module_path, parent):
    if os.environ.get("UPSTREAM_SOURCES"):
        return None  # as its own conftest.py has it
    return Module.from_parent(parent, path=module_path)


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    request.cls._dump_failed_filechecks = False


def pytest_collection_modifyitems(config, items):
    """Leaves out what is not in the sample, and what an earlier process of this module has dealt with, or died of."""
    done = set()
    if os.path.exists(_FILE):
        with open(_FILE) as file:
            done = {json.loads(line)["id"] for line in file}
    names = {item: _id(item.nodeid) for item in items}
    wanted = {i for i in items if names[i] not in done and zlib.crc32(names[i].encode()) % _SAMPLE == 0}
    config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
    items[:] = [item for item in items if item in wanted]


def pytest_runtest_logstart(nodeid, location):
    _write(nodeid, "started")


def pytest_runtest_logfinish(nodeid, location):
    _write(nodeid, "ended")


def pytest_runtest_logreport(report):
    if report.outcome == "passed" and report.when != "call":
        return  # says nothing of the test: it may still crash
    outcome = report.outcome
    if outcome == "failed" and report.when != "call":
        outcome = "error"
    if hasattr(report, "wasxfail"):
        outcome = "xfailed" if outcome == "skipped" else "xpassed"
    why = ""
    if outcome == "skipped" and isinstance(report.longrepr, tuple):
        why = str(report.longrepr[2])
    elif outcome in ("failed", "error"):
        why = str(report.longrepr)[-2000:]
    _write(report.nodeid, outcome, why, report.duration)


def pytest_collectreport(report):
    if report.outcome != "passed":
        skipped = report.outcome == "skipped"
        why = str(report.longrepr[2]) if skipped else str(report.longrepr)[-2000:]
        _write("", "skipped" if skipped else "error", why)


def _id(nodeid):
    return f"{_MODULE}::{nodeid.partition('::')[2]}".removesuffix("::")


def _write(nodeid, outcome, why="", seconds=0.0):
    with open(_FILE, "a") as file:
        file.write(json.dumps({"id": _id(nodeid), "outcome": outcome, "why": why, "seconds": round(seconds, 3)}) + "\n")
