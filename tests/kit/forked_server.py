"""Imported by the process that `forked` forks commands from: what most of them import, and the
locks.
"""

from __future__ import annotations

import gc
import importlib

import ctk.cli.main  # noqa: F401
from ctk.core.checkout import workspace
from ctk.lock.model import release_locks

for name in ("ctk.index.client", "cyclonedx.validation.json", "unearth.utils"):
    importlib.import_module(name)
release_locks(workspace())  # of this checkout; parsed once, they are kept by their text
# what is shared with this process is not looked through, and copied for that, when a command ends
gc.freeze()
