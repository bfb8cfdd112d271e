"""What `ctk doctor` looks at: one small class for each thing that a machine has or lacks."""

from __future__ import annotations

from ctk.check.doctor.check import Check, Seen, State, look
from ctk.check.doctor.checkout import BaseChannel, Cache, Channel, FreeSpace, Locks
from ctk.check.doctor.clients import CLIENTS
from ctk.check.doctor.host import Browser, Compiler, Completion, Driver, Git, Gpu, Namespaces
from ctk.check.doctor.python import Extras, Index, Packages, Pip, Python

CHECKS: tuple[type[Check], ...] = (
    Python,
    Packages,
    Pip,
    Index,
    Locks,
    Cache,
    FreeSpace,
    BaseChannel,
    Channel,
    Driver,
    Gpu,
    *CLIENTS,
    Git,
    Compiler,
    Extras,
    Browser,
    Namespaces,
    Completion,
)

__all__ = ["CHECKS", "Check", "Seen", "State", "look"]
