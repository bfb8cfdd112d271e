"""What a CTK manifest states: read strictly, so that a form that is new to this tool is an error and not a gap."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import Message

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ctk.core.errors import LockError, problems
from ctk.core.platforms import PLATFORMS, SYSTEMS
from ctk.index import requirements
from ctk.index.requirements import applies
from ctk.lock.components import CTK_COMPONENTS, MANIFEST, CtkComponent

_STEP = "the form of the manifest is new: extend ctk/lock/manifest.py or ctk/lock/components.py; nothing was written"
_EVERYTHING = "all"
"""The extra that names every component once more."""

_ANSWERED = tuple(next(iter(PLATFORMS.values())).marker_environment)
_WORD = re.compile(r"\"([^\"]*)\"|([a-z_]+)")


@dataclass(frozen=True)
class Pin:
    """One requirement of a manifest, with the line that states it."""

    requirement: Requirement
    line: str

    @property
    def extra(self) -> str | None:
        """The extra under which it is stated; None for an unconditional one."""
        found = re.search(r"""extra == ["']([^"']+)["']""", str(self.requirement.marker or ""))
        return found[1] if found else None

    @property
    def accepted(self) -> SpecifierSet:
        """The versions that it means.

        ``==13.4.92.*`` means the newest there is of it. ``<14,>=13.4.92`` means 13.4.92, the release's own: a lock
        does not drift when a newer toolkit is published.
        """
        stated = {s.operator: s.version for s in self.requirement.specifier}
        return SpecifierSet(f"=={stated['>=']}") if ">=" in stated else self.requirement.specifier

    @property
    def subdirs(self) -> tuple[str, ...]:
        """The subdirs for which the marker says that the component exists; LockError where it has no answer."""
        extra = {"extra": self.extra or ""}
        return tuple(p.subdir for p in PLATFORMS.values() if applies(self.requirement, [p.marker_environment | extra]))

    @property
    def places(self) -> dict[str, tuple[str, ...]]:
        """Where a wheel must be: a name of each place -> the subdirs of which one is enough.

        A marker that names machines asks for a wheel for each: ``win-64``. An older manifest's marker names operating
        systems only, and NVIDIA never published for every machine of them: one wheel for ``linux``, one for ``win``.
        """
        subdirs = self.subdirs
        if "machine" in str(self.requirement.marker):
            return {subdir: (subdir,) for subdir in subdirs}
        of_system = {name: tuple(s for s in members if s in subdirs) for name, members in SYSTEMS.items()}
        return {name: members for name, members in of_system.items() if members}


def pins(metadata: Message) -> list[Pin]:
    """Every line of a manifest that is a requirement, whatever it requires."""
    return [Pin(required, line) for line, required in _lines(metadata) if required]


def read(metadata: Message, version: str) -> list[Pin]:
    """The requirements of a manifest, each of a form that this tool understands.

    Args:
        metadata: Of the manifest.
        version: The manifest's.

    Raises:
        LockError: With each line that states something else: an unknown extra, distribution, marker or version form, or
            a version that contradicts another line.
    """
    stated = pins(metadata)
    major = version.partition(".")[0]
    unread = [line for line, required in _lines(metadata) if not required]
    wrong = [f"no requirement that the standard knows:\n    {line}" for line in unread]
    wrong += [f"{what}:\n    {pin.line}" for pin in stated for what in _strange(pin, major)]
    known = {_EVERYTHING, *(c.name for c in CTK_COMPONENTS)}
    extras = map(str, metadata.get_all("Provides-Extra") or [])
    wrong += [f"an unknown extra:\n    Provides-Extra: {extra}" for extra in extras if extra not in known]
    if not wrong:
        wrong = [f"{what}:\n    {pin.line}" for what, pin in _contradictions(stated, major)]
    if wrong:
        raise problems(LockError, f"{MANIFEST} {version}", wrong, _STEP)
    return stated


def pins_of(component: CtkComponent, major: str, manifest: Sequence[Pin]) -> list[Pin]:
    """What a manifest states of a component: of all requirements of its extra, those on its own distribution.

    An extra also names what the component needs (``nvcc`` names cudart and nvvm); those have extras of their own.
    """
    own = component.distribution(major)
    return [pin for pin in manifest if pin.extra == component.name and pin.requirement.name == own]


def _lines(metadata: Message) -> Iterator[tuple[str, Requirement | None]]:
    for text, required in requirements.stated(metadata):
        yield f"Requires-Dist: {text}", required


def _strange(pin: Pin, major: str) -> Iterator[str]:
    """What is not understood of one line."""
    requirement = pin.requirement
    if requirement.name not in {c.distribution(major) for c in CTK_COMPONENTS}:
        yield f"an unknown distribution {requirement.name}"
    operators = sorted(s.operator for s in requirement.specifier)
    if requirement.url or operators not in (["=="], ["<", ">="]):
        yield "neither a pin nor a range"
    yield from _strange_marker(pin)


def _strange_marker(pin: Pin) -> Iterator[str]:
    words = _WORD.findall(str(pin.requirement.marker or ""))
    variables = [name for _, name in words if name and name not in ("and", "or", "in", "not")]
    answers = {name: {p.marker_environment[name] for p in PLATFORMS.values()} for name in _ANSWERED}
    asked = sorted({name for name in variables if name != "extra"} - answers.keys())
    values = sorted({value for value, _ in words if value} - {pin.extra} - set().union(*answers.values()))
    if variables.count("extra") != 1 or pin.extra is None:
        yield "not of exactly one extra"
    elif pin.extra not in {_EVERYTHING, *(c.name for c in CTK_COMPONENTS)}:
        yield f"an unknown extra {pin.extra}"
    elif asked:
        yield f"a marker that asks for {', '.join(asked)}"
    elif values:
        yield f"a marker that names {', '.join(values)}"


def _contradictions(stated: Sequence[Pin], major: str) -> Iterator[tuple[str, Pin]]:
    """Lines that say of a distribution what another does not."""
    own = {c.distribution(major): c for c in CTK_COMPONENTS}
    first: dict[str, Pin] = {}
    for pin in stated:
        name = pin.requirement.name
        if first.setdefault(name, pin).requirement.specifier != pin.requirement.specifier:
            yield "another version than an earlier line", pin
        elif first[name] is pin and not pins_of(own[name], major, stated):
            yield f"a distribution without its own extra {own[name].name}", pin
