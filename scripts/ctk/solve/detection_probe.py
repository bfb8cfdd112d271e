"""Prints the virtual packages that clients detect on this machine, as JSON. Imports nothing of ctk.

A program of its own: rattler loads the driver's libraries into its process and starts them, and a
driver that is broken can crash or hang the process.
"""

from __future__ import annotations

import json

import rattler
from rattler import VirtualPackageOverrides
from rattler.exceptions import DetectVirtualPackageError


def detect() -> dict[str, object]:
    """What rattler detects: keys as the fields of `ctk.solve.driver.Detection`."""
    try:
        # No from_env(): rattler refuses values of the variables that conda accepts.
        found = rattler.VirtualPackage.detect(VirtualPackageOverrides())
    except DetectVirtualPackageError as error:
        return {"error": str(error)}
    packages = [package.into_generic() for package in found]
    return {"packages": {package.name.normalized: str(package.version) for package in packages}}


if __name__ == "__main__":
    print(json.dumps(detect()))
