"""Which machine a program or library is for, from its first bytes."""

from __future__ import annotations

import struct

from ctk.platforms import PLATFORMS

HEAD = 4096
"""Bytes of a file that say it."""
_ELF = {62: "x86_64", 183: "aarch64", 190: "cuda", 3: "x86", 40: "arm"}
_PE = {0x8664: "x86_64", 0xAA64: "aarch64", 0x14C: "x86", 0x1C4: "arm"}
_MACH_O = {b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xfe\xed\xfa\xcf", b"\xfe\xed\xfa\xce"}

_MAY = {
    # Older releases of Compute Sanitizer bring their libraries for programs of 32 bits, too.
    "linux-64": (("elf", "x86_64"), ("elf", "x86")),
    "linux-aarch64": (("elf", "aarch64"),),
    "win-64": (("pe", "x86_64"),),
    "win-arm64": (("pe", "aarch64"),),
}
# They carry what starts a script on Windows, for every machine, in a wheel for all of them.
_LAUNCHERS = ("pip", "setuptools")


def machine(head: bytes) -> tuple[str, str] | None:
    """The format, ``elf``, ``pe`` or ``mach-o``, and the machine; None for what no loader takes.

    Object files count too: a linker takes them. What begins like a binary and is cut short is none.
    """
    if head[:4] in _MACH_O:
        return "mach-o", "macOS"
    if head[:4] == b"\x7fELF" and len(head) >= 20:
        number = struct.unpack("<H" if head[5] == 1 else ">H", head[18:20])[0]
        return "elf", _ELF.get(number, f"machine {number}")
    if head[:2] == b"MZ" and len(head) >= 64:
        place = struct.unpack("<L", head[60:64])[0]
        if head[place : place + 4] == b"PE\0\0" and len(head) >= place + 6:
            number = struct.unpack("<H", head[place + 4 : place + 6])[0]
            return "pe", _PE.get(number, f"machine {number}")
    return None


def subdir_of(target: str) -> str:
    """The subdir of an artefact's target, ``linux-64`` of ``linux-64-cp313``; "" for one that is for all."""
    return next((subdir for subdir in PLATFORMS if target == subdir or target.startswith(f"{subdir}-")), "")


def wrong_with(head: bytes, name: str, component: str, target: str) -> str | None:
    """Why a binary does not belong into an artefact; None for one that does, and for any other file.

    Args:
        head: The first bytes of the file.
        name: Its path.
        component: What the artefact is of.
        target: What the artefact is for.
    """
    found, subdir = machine(head), subdir_of(target)
    if found is None or found in _MAY.get(subdir, ()):
        return None
    if not subdir and component in _LAUNCHERS and found[0] == "pe" and name.endswith(".exe"):
        return None
    return f"a binary for {found[1]} ({found[0].upper()}) in an artefact for {target}"
