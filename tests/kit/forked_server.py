"""Imported by the process that `forked` forks commands from: all of the tool, and the locks.

A command imports what it needs when it runs, which takes longer than most commands of the tests.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil

import ctk
from ctk.core.checkout import workspace
from ctk.lock.model import release_locks

for module in pkgutil.walk_packages(ctk.__path__, "ctk."):
    importlib.import_module(module.name)
for name in ("cyclonedx.validation.json", "unearth.utils"):
    importlib.import_module(name)
release_locks(workspace())  # of this checkout; parsed once, they are kept by their text
# what is shared with this process is not looked through, and copied for that, when a command ends
gc.freeze()
