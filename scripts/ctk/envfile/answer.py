"""What each line of a file that is about CUDA is here: an answer, and the specs in its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from packaging.requirements import InvalidRequirement, Requirement
from rattler import RepoDataRecord, Version, VersionSpec

from ctk.core.console import listing
from ctk.core.errors import BadValue
from ctk.envfile.built import as_if_built
from ctk.envfile.model import Line, Tool
from ctk.package.records import spec_name
from ctk.plan.conda_forge import CONDA_FORGE
from ctk.plan.names import (
    OtherName,
    foreign_channel,
    is_about_cuda_elsewhere,
    known_substitutes,
    pip_project_with_cuda,
)
from ctk.solve.advice import (
    checkout_of,
    has_conda_forge,
    how_to_build,
    how_to_lock,
    planned_of,
)
from ctk.solve.hidden import Hidden, hidden, matching, without_channel
from ctk.solve.reason import in_words, plain
from ctk.solve.solve import (
    Catalogue,
    Pick,
    Scenario,
    Spec,
    channel_name,
    channel_url,
    older,
    parse_spec,
    spec_of_record,
)


class Answer(StrEnum):
    """What a line is here."""

    HERE = "here"  # as it asks for it
    OTHER_VERSION = "other-version"  # here, and not in that version
    OTHER_NAME = "other-name"  # here, and called differently
    NOT_BUILT = "not-built"  # recipes and locks here make it; the step builds it
    BASE = "base"  # the base channel has it
    HIDDEN = "hidden"  # the base channel has it, and a package of the same name here hides it
    ELSEWHERE = "elsewhere"  # a channel has it that is not asked
    NOWHERE = "nowhere"  # what it asks for ended
    PIP = "pip"  # a wheel that brings a second CUDA
    LEFT = "left"  # left as it is: nothing is known of it


@dataclass(frozen=True)
class Row:
    """The answer to a line.

    Attributes:
        line: The line.
        answer: Its kind.
        words: What it is here, in words.
        specs: The specs of conda in its place, in any client; None if it stays as it is.
        by_channel: The same where what the base channel has is hidden: specs that name the channel,
            for a client with strict priority. () where that is not needed.
        step: A command that helps, in backticks; or "".
        is_elsewhere: Whether a channel has it that is not asked: it can be written, and not solved.
        is_near: Whether `specs` have another version than the line.
        lock: A command that may lock the version that the line asks for, in backticks; or "".
    """

    line: Line
    answer: Answer
    words: str
    specs: tuple[str, ...] | None = None
    by_channel: tuple[str, ...] = ()
    step: str = ""
    is_elsewhere: bool = False
    is_near: bool = False
    lock: str = ""

    @property
    def asked(self) -> tuple[str, ...]:
        """The specs to solve with; () where pip or nobody has it."""
        if self.is_elsewhere:
            return ()
        if self.by_channel:
            return self.by_channel
        if self.specs is not None:
            return self.specs
        is_there = self.answer in (Answer.HERE, Answer.BASE, Answer.NOT_BUILT, Answer.HIDDEN)
        return (self.line.spec,) if is_there and self.line.tool is Tool.CONDA else ()


_ABOUT_CUDA = re.compile(r"cuda|cudnn|[-_]cu1\d|(?:^|[-_])gpu(?:[-_]|$)")
_CUDA_BUILD = re.compile(r"cuda|gpu|cu1\d", re.IGNORECASE)
_MAJOR_OF_CUDA = re.compile(r"cu(?:da)?-?(\d\d)")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
# Channels whose packages conda-forge's took the place of: docs/compared.md.
_REPLACED = re.compile(r"(?:nvidia|pytorch(?:-\w+)?|defaults|main)(?:/.*)?")
# Packages that bring the CUDA libraries that they need.
_FRAMEWORKS = frozenset(
    ("cupy", "jax", "jaxlib", "libtorch", "pytorch", "pytorch-gpu", "tensorflow", "tensorflow-gpu")
)
_FRAMEWORKS_OF_PIP = frozenset(("jax", "jaxlib", "tensorflow", "torch"))
_TOOLKIT = "cuda-version"
_OLDEST_MAJOR = "12"
_CUDA_11_ENDED = "CUDA 11 ended: the packages of today are for CUDA 12 and 13"
_OF_CUDA_11 = "of CUDA 11, which ended"
_OF_A_CHANNEL = "of the channel {channel}, which is not asked here"
_NO_NVCC = "NVIDIA publishes no nvcc for CUDA 12 as a wheel"


def built_for(rows: Iterable[Row], catalogue: Catalogue) -> Catalogue:
    """The channels, with what is not built yet of some rows as if built."""
    lacks = [row for row in rows if row.answer is Answer.NOT_BUILT or row.step]
    if not lacks or planned_of(catalogue) is None:
        return catalogue
    return as_if_built(catalogue, [spec_name(spec) for row in lacks for spec in row.asked])


def cuda_lines(lines: Iterable[Line], catalogue: Catalogue) -> list[Line]:
    """The lines that are about CUDA, of those for the platform of the channels."""
    shelf = _Shelf(catalogue, Scenario((), catalogue.subdir))
    return [line for line in lines if line.is_for(catalogue.subdir) and shelf.is_about_cuda(line)]


def is_replaced(channel: str) -> bool:
    """Whether packages here, or conda-forge's, took the place of a channel's."""
    return bool(_REPLACED.fullmatch(channel))


def answers(
    lines: Sequence[Line], catalogue: Catalogue, scenario: Scenario | None = None
) -> tuple[Row, ...]:
    """The rows of the lines that are about CUDA, in the order of the file.

    Args:
        lines: The lines of one environment.
        catalogue: The channels: those with CUDA first, the base channel last.
        scenario: A machine; its specs are not looked at. By default one that can do anything.
    """
    shelf = _Shelf(catalogue, scenario or Scenario((), catalogue.subdir))
    fitting = [line for line in lines if line.is_for(catalogue.subdir)]
    about = cuda_lines(fitting, catalogue)
    reader = _Reader(shelf, fitting)
    chosen = {line: row for line in about if (row := reader.toolkit_row(line))}
    toolkit = _toolkit_of(chosen.values())
    if shelf.solves(*toolkit) or shelf.planned(*toolkit):  # else its lines contradict each other
        reader.toolkit = toolkit
    rows = [chosen.get(line) or reader.row(line) for line in about]
    return tuple(reader.together(reader.beside_hidden(rows)))


def _toolkit_of(rows: Iterable[Row]) -> tuple[str, ...]:
    """The specs that choose the toolkit of a file."""
    specs = [spec for row in rows for spec in row.asked if spec_name(spec) == _TOOLKIT]
    return tuple(dict.fromkeys(spec for spec in specs if spec != _TOOLKIT))


class _Shelf:
    """What the channels have, and what is known of names that they lack."""

    def __init__(self, catalogue: Catalogue, machine: Scenario) -> None:
        self.catalogue = catalogue
        self.machine = machine
        self.names = checkout_of(catalogue).known_names()
        self.others = checkout_of(catalogue).other_channels()

    @cached_property
    def own(self) -> set[str]:
        """The names of the packages in the channels before the base channel."""
        subdirs = [self.catalogue.subdir, "noarch"]
        return self.catalogue.names(subdirs, self.catalogue.channels[:-1])

    @cached_property
    def there(self) -> set[str]:
        """The names of the packages in all channels."""
        return self.catalogue.names([self.catalogue.subdir, "noarch"])

    @property
    def base(self) -> str:
        """The base channel, as a spec names it."""
        return channel_url(self.catalogue.channels[-1]).rstrip("/")

    @property
    def base_name(self) -> str:
        """The base channel, as people call it."""
        return channel_name(self.base)

    def asks(self, channel: str) -> bool:
        """Whether a channel is one of those that are asked."""
        addresses = [channel_url(asked).rstrip("/") for asked in self.catalogue.channels]
        return any(address.endswith(f"/{channel}") or address == channel for address in addresses)

    def channel_of(self, name: str) -> str:
        """The channel, not conda-forge, that a package is of; "" for others."""
        kept = self.others.kept(name)
        if kept and kept.channel != CONDA_FORGE:
            return kept.channel
        return foreign_channel(name)

    def is_about_cuda(self, line: Line) -> bool:
        """Whether a line is about CUDA: by recipes and locks, and by names that are known."""
        name = line.name
        if name in self.names.own or name in self.own or self.others.kept(name):
            return True
        if name in self.names.base:
            return False
        if self.names.renamed(name) or is_about_cuda_elsewhere(name) or foreign_channel(name):
            return True
        if line.tool is Tool.PIP and pip_project_with_cuda(name):
            return True
        if re.match(r"nvidia(?:/|$)", line.channel):
            return True
        return bool(_ABOUT_CUDA.search(name)) or _asks_for_cuda_build(line)

    def solves_there(self, *specs: str) -> bool:
        """Whether specs have a solution on the machine."""
        return self.catalogue.solves(replace(self.machine, specs=specs))

    def solves(self, *specs: str) -> bool:
        """Whether specs have a solution on a machine that can do anything."""
        return self.pick(*specs) is not None

    def pick(self, *specs: str) -> Pick | None:
        """The pick of specs on a machine that can do anything; None without a solution."""
        return self.catalogue.pick(replace(self.machine.ideal, specs=specs))

    def planned(self, *specs: str) -> bool:
        """Whether specs have a solution if all recipes and locks here were built."""
        planned = planned_of(self.catalogue)
        return planned is not None and planned.solves(replace(self.machine.ideal, specs=specs))


def _asks_for_cuda_build(line: Line) -> bool:
    """Whether the build string or the extras of a line ask for CUDA."""
    if line.tool is Tool.PIP:
        return any(_CUDA_BUILD.search(extra) for extra in _extras(line))
    try:
        return bool(_CUDA_BUILD.search(parse_spec(line.spec).build))
    except BadValue:
        return False


def _extras(line: Line) -> set[str]:
    """The extras of a requirement of pip."""
    try:
        return Requirement(line.spec).extras
    except InvalidRequirement:
        return set()


class _Reader:
    """Answers the lines of one environment.

    Attributes:
        toolkit: The specs that choose its toolkit, as far as its other lines are to know it.
        is_old: Whether it was for CUDA 11 or older.
    """

    def __init__(self, shelf: _Shelf, lines: Sequence[Line]) -> None:
        self._shelf = shelf
        self._lines = lines
        self.toolkit: tuple[str, ...] = ()
        self.is_old = False

    # --- lines that choose the toolkit

    def toolkit_row(self, line: Line) -> Row | None:
        """The row of a line that chooses the toolkit; None for others."""
        if line.tool is Tool.CONDA and line.name == _TOOLKIT:
            return self._cuda_version(line)
        meant = self._shelf.names.renamed(line.name)
        if line.tool is Tool.CONDA and meant and _first_name(meant) == _TOOLKIT:
            return self._chooser(line, meant)
        return None

    def _cuda_version(self, line: Line) -> Row:
        """The row of cuda-version."""
        spec = parse_spec(line.spec)
        if _is_before_cuda_12(spec.version):
            self.is_old = True
            specs = (f"{_TOOLKIT}={_OLDEST_MAJOR}",)
            return Row(line, Answer.NOWHERE, _CUDA_11_ENDED, specs)
        return self._package(line, spec)

    def _chooser(self, line: Line, meant: OtherName) -> Row:
        """The row of a package that chose the toolkit elsewhere: cudatoolkit, pytorch-cuda."""
        version = _first_number(parse_spec(line.spec).version)
        major = version.split(".")[0]
        is_old = bool(major) and older(major, _OLDEST_MAJOR)
        toolkit = _TOOLKIT
        if major:
            toolkit = f"{_TOOLKIT}={_OLDEST_MAJOR if is_old else major}"
        specs = [toolkit]
        for name in meant.requests[0].split()[1:]:
            is_brought = name == "cuda-libraries" and self._has_framework
            if not is_brought and name not in _FRAMEWORKS and not self._asks_for(name):
                specs.append(name)
        step = "" if self._shelf.solves(*specs) else self._step_for(specs)
        if is_old:
            self.is_old = True
            words = _CUDA_11_ENDED
            if self._shelf.others.has(line.name, parse_spec(line.spec).version):
                words = f"{words}; conda-forge keeps it for packages of its time"
            return Row(line, Answer.NOWHERE, words, tuple(specs), step=step)
        return Row(line, Answer.OTHER_NAME, meant.sentence, tuple(specs), step=step)

    @cached_property
    def _has_framework(self) -> bool:
        """Whether a line asks for a package that brings the CUDA libraries that it needs."""
        return any(
            line.name in (_FRAMEWORKS if line.tool is Tool.CONDA else _FRAMEWORKS_OF_PIP)
            for line in self._lines
        )

    def _asks_for(self, name: str) -> bool:
        return any(line.tool is Tool.CONDA and line.name == name for line in self._lines)

    @cached_property
    def _with_toolkit(self) -> Catalogue:
        """The channels, with the toolkit of the file as if built if it is not."""
        catalogue = self._shelf.catalogue
        is_here = self._shelf.solves(*self.toolkit)
        if is_here or planned_of(catalogue) is None:
            return catalogue
        return as_if_built(catalogue, [])

    @property
    def _toolkit_words(self) -> str:
        """The toolkit of the file, in words."""
        return in_words(parse_spec(self.toolkit[-1])) if self.toolkit else "this platform"

    # --- other lines

    def row(self, line: Line) -> Row:
        """The row of a line that does not choose the toolkit."""
        if line.tool is Tool.PIP:
            return self._of_pip(line)
        try:
            spec = parse_spec(line.spec)
        except BadValue as error:
            return Row(line, Answer.LEFT, f"this is no spec of conda: {error.cause}")
        row = self._package(line, spec)
        if is_replaced(line.channel) and row.specs is None:
            words = f"without the channel {line.channel}: {row.words}"
            answer = Answer.OTHER_NAME if row.answer in (Answer.HERE, Answer.BASE) else row.answer
            is_elsewhere = row.answer in (Answer.ELSEWHERE, Answer.NOWHERE)
            specs = (without_channel(spec),)
            return replace(row, answer=answer, words=words, specs=specs, is_elsewhere=is_elsewhere)
        return row

    def _package(self, line: Line, spec: Spec) -> Row:
        """The row of a spec of conda."""
        shelf = self._shelf
        if spec.name.startswith("__"):
            return Row(line, Answer.HERE, "what the machine has")
        if spec.name in shelf.own:
            return self._own(line, spec)
        if spec.name in shelf.there:
            return self._of_base(line, spec)
        if checkout_of(shelf.catalogue).maker(spec.name):
            return self._makeable(line, spec)
        if meant := shelf.names.renamed(spec.name):
            return self._renamed(line, spec, meant)
        if kept := self._kept_elsewhere(line, spec):
            return kept
        return self._unknown(line, spec.name)

    def _makeable(self, line: Line, spec: Spec) -> Row:
        """The row of a package that no channel has, and a recipe here makes."""
        if self._is_planned(spec):
            return self._not_built(line, spec)
        if kept := self._kept_elsewhere(line, spec):
            return kept
        planned = planned_of(self._shelf.catalogue)
        if planned is None or not self._shelf.planned(spec.name, *self.toolkit):
            return self._substitute(line, spec)
        row = self._near_version(line, spec, planned)
        if row is None:
            return self._substitute(line, spec)
        return replace(
            row, words=f"{row.words} can be built here", step=self._step_for([spec.name])
        )

    def _substitute(self, line: Line, spec: Spec) -> Row:
        """The row of a package that the toolkit of the file lacks, and that others stand in for."""
        for substitute in known_substitutes(spec.name):
            specs = tuple(substitute.split())
            is_here = self._shelf.solves(*specs, *self.toolkit)
            if is_here or self._shelf.planned(*specs, *self.toolkit):
                words = f"not for {self._toolkit_words}: {_NO_NVCC}"
                step = "" if is_here else self._step_for(specs)
                return Row(line, Answer.OTHER_NAME, words, specs, step=step)
        return self._not_for_toolkit(line, spec)

    def _own(self, line: Line, spec: Spec) -> Row:
        """The row of a package that a channel before the base channel has."""
        shelf = self._shelf
        found = matching(spec, shelf.catalogue.records(spec.name))
        wanted = (without_channel(spec), *self._toolkit_beside(spec))
        there = shelf.solves_there(*wanted) if found else False
        if there:
            return self._here(line, spec, found)
        is_possible = bool(found) and shelf.solves(*wanted)
        if not is_possible and self._is_planned(spec):
            return self._not_built(line, spec)
        if behind := self._hidden(line, spec):
            return behind
        if is_possible:
            return self._here(line, spec, found)
        if found:
            return self._substitute(line, spec)
        return self._other_version(line, spec)

    def _here(self, line: Line, spec: Spec, found: Sequence[RepoDataRecord]) -> Row:
        """The row of a package that is here as the file asks for it."""
        beside = self._toolkit_beside(spec)
        if not beside:
            return Row(line, Answer.HERE, _versions(found))
        pick = self._shelf.pick(without_channel(spec), *beside)
        return Row(line, Answer.HERE, pick.version(spec.name) if pick else _versions(found))

    def _toolkit_beside(self, spec: Spec) -> tuple[str, ...]:
        """The toolkit of the file, for a spec that does not choose it itself."""
        return () if spec.name == _TOOLKIT else self.toolkit

    def _is_planned(self, spec: Spec) -> bool:
        return self._shelf.planned(without_channel(spec), *self._toolkit_beside(spec))

    def _not_built(self, line: Line, spec: Spec) -> Row:
        """The row of what `ctk build` would make."""
        planned = planned_of(self._shelf.catalogue)
        assert planned is not None
        ideal = self._shelf.machine.ideal
        wanted = (without_channel(spec), *self._toolkit_beside(spec))
        pick = planned.pick(replace(ideal, specs=wanted))
        maker = checkout_of(self._shelf.catalogue).maker(spec.name)
        packages = [] if maker is None or maker.is_default else [spec.name]
        release = pick.toolkit if pick and self._names_toolkit(spec) else ""
        step = how_to_build(packages, self._shelf.machine, release)
        words = "not built here"
        version = pick.version(spec.name) if pick else ""
        if version:
            words = f"{version} can be built here"
        return Row(line, Answer.NOT_BUILT, words, step=step)

    def _names_toolkit(self, spec: Spec) -> bool:
        """Whether a spec, or the file's choice of a toolkit, needs a release of its own."""
        asked = [spec.text] if spec.name == _TOOLKIT else list(self.toolkit)
        return any(re.search(r"\d+\.\d+", text) for text in asked)

    def _of_base(self, line: Line, spec: Spec) -> Row:
        """The row of a package that the base channel alone has."""
        shelf = self._shelf
        found = matching(spec, shelf.catalogue.records(spec.name))
        if found and all(map(self._is_of_cuda_11, found)):
            words = f"{_versions(found)} of {shelf.base_name} is {_OF_CUDA_11}"
            return Row(line, Answer.NOWHERE, words, (spec.name,))
        if found:
            return self._there(line, spec, found)
        if checkout_of(shelf.catalogue).maker(spec.name) and self._is_planned(spec):
            return self._not_built(line, spec)
        return self._other_version(line, spec)

    def _there(self, line: Line, spec: Spec, found: Sequence[RepoDataRecord]) -> Row:
        """The row of a package that the base channel has as the file asks for it."""
        shelf = self._shelf
        wanted = (without_channel(spec), *self._toolkit_beside(spec))
        versions = _versions(found)
        if self.toolkit:
            pick = self._with_toolkit.pick(replace(shelf.machine.ideal, specs=wanted))
            versions = pick.version(spec.name) if pick else versions
        is_plain = self._with_toolkit.solves(replace(shelf.machine.ideal, specs=wanted))
        behind = None if is_plain else self._hidden(line, spec)
        if behind:
            return behind
        return Row(line, Answer.BASE, f"{versions} of {shelf.base_name}")

    def _is_of_cuda_11(self, record: RepoDataRecord) -> bool:
        """Whether a record needs CUDA 11 or older."""
        needs = [spec_of_record(text) for text in record.depends]
        if any(need.name == "cudatoolkit" for need in needs):
            return True
        bounds = [
            VersionSpec(need.version) for need in needs if need.name == _TOOLKIT and need.version
        ]
        versions = [Version(toolkit.version) for toolkit in self._shelf.catalogue.toolkits]
        return any(not any(map(bound.matches, versions)) for bound in bounds)

    def _hidden(self, line: Line, spec: Spec) -> Row | None:
        """The row of a package of which the base channel has what the file needs; else None."""
        machine = replace(self._shelf.machine, specs=self._toolkit_beside(spec))
        found = hidden(spec, machine, self._with_toolkit)
        return self._row_of_hidden(line, found) if found else None

    def _row_of_hidden(self, line: Line, found: Hidden) -> Row:
        """The row of a package that the base channel has, and that is hidden."""
        name = parse_spec(line.spec).name
        hides = f"which {name} here hides"
        if name not in self._shelf.own:
            hides = "whose needs packages here hide"
        words = (
            f"{found.version} of {found.channel}, {hides} where the priority of channels is"
            " strict, as pixi's is by default"
        )
        return Row(line, Answer.HIDDEN, words, by_channel=found.specs)

    def beside_hidden(self, rows: Sequence[Row]) -> list[Row]:
        """The rows, with more packages of the base channel where those that are hidden need it.

        cuda-nvvm here needs libNVVM of here; nvcc of conda-forge needs that of conda-forge.
        """
        found = list(rows)
        names = _names_behind(found)
        while names:
            clashing = [row for row in found if self._clashes(row, names)]
            if not clashing:
                break
            for row in clashing:
                spec = parse_spec(row.line.spec)
                found[found.index(row)] = self._hidden(row.line, spec) or row
            before, names = names, _names_behind(found)
            if names == before:
                break
        return found

    def together(self, rows: Sequence[Row]) -> list[Row]:
        """The rows, without versions that were only near, if they cannot be had together."""
        found = list(rows)
        if self._solves_built(found):
            return found
        if behind := self._one_from_behind(found):
            return behind
        loose = [_without_near_version(row) for row in found]
        if self._solves_built(loose):
            return loose
        return self._without_one(found) or self._without_one(loose) or found

    def _without_one(self, rows: Sequence[Row]) -> list[Row] | None:
        """The rows, without one that could be built here in another version, if that solves.

        None if that gives no solution. cuTensorNet of here needs a newer cuTENSOR than a file pins.
        """
        for row in rows:
            if not row.is_near or not row.step:
                continue
            words = f"{row.words}; that does not go with the other lines"
            left = replace(row, words=words, specs=None, step="", is_elsewhere=True)
            others = [left if other is row else other for other in rows]
            if self._solves_built(others):
                return others
        return None

    def _one_from_behind(self, rows: Sequence[Row]) -> list[Row] | None:
        """The rows, with one package of the base channel in the place of that of here.

        None if that gives no solution. nvcc of CUDA 12 beside a jaxlib that is for CUDA 12 alone.
        """
        for row in rows:
            if row.answer is not Answer.HERE or row.line.name == _TOOLKIT:
                continue
            others = [other for other in rows if other is not row]
            specs = tuple(spec for other in others for spec in other.asked)
            machine = replace(self._shelf.machine, specs=specs)
            found = hidden(parse_spec(row.line.spec), machine, self._with_toolkit)
            if found:
                behind = self._row_of_hidden(row.line, found)
                return [behind if other is row else other for other in rows]
        return None

    def _solves_built(self, rows: Sequence[Row]) -> bool:
        """Whether rows have a solution together on a machine that can do anything."""
        specs = tuple(spec for row in rows for spec in row.asked)
        catalogue = built_for(rows, self._shelf.catalogue)
        return catalogue.solves(replace(self._shelf.machine.ideal, specs=specs))

    def _clashes(self, row: Row, names: set[str]) -> bool:
        """Whether a package here needs builds of here, of packages that come from behind."""
        if row.answer not in (Answer.HERE, Answer.NOT_BUILT):
            return False
        catalogue = self._with_toolkit
        spec = parse_spec(row.line.spec)
        wanted = (without_channel(spec), *self._toolkit_beside(spec))
        pick = catalogue.pick(replace(self._shelf.machine.ideal, specs=wanted))
        record = pick.record(spec.name) if pick else None
        needs = map(spec_of_record, record.depends) if record else ()
        return any(
            need.name in names and not matching(need, catalogue.hidden(need.name)) for need in needs
        )

    def _not_for_toolkit(self, line: Line, spec: Spec) -> Row:
        """The row of a package that the toolkit of the file does not have."""
        fitting = [
            toolkit.version
            for toolkit in reversed(self._shelf.catalogue.toolkits)
            if self._shelf.solves(without_channel(spec), f"{_TOOLKIT}={toolkit.version}")
        ]
        words = f"not for {self._toolkit_words}"
        if fitting:
            words = f"{words}: here it is for toolkit {listing(fitting, 'or', most=6)}"
        return self._kept_elsewhere(line, spec) or Row(line, Answer.NOWHERE, words)

    def _kept_elsewhere(self, line: Line, spec: Spec) -> Row | None:
        """The row of what a channel is known to have that is not asked; else None."""
        kept = self._shelf.others.kept(spec.name)
        if kept is None or self._shelf.asks(kept.channel):
            return None
        if not self._shelf.others.has(spec.name, spec.version):
            return None
        bound = VersionSpec(spec.version or "*")
        versions = [version for version in kept.versions if bound.matches(Version(version))]
        newest = versions[-1] if versions else "it"
        of_today = VersionSpec(kept.cuda12 or "*")
        if versions and not any(of_today.matches(Version(version)) for version in versions):
            words = f"{newest} of {kept.channel} is {_OF_CUDA_11}"
            return Row(line, Answer.NOWHERE, words, (spec.name,))
        words = f"{newest} is in {kept.channel}, which is not asked here"
        if kept.channel == CONDA_FORGE:
            words = f"{words}: name it with --base {CONDA_FORGE}"
        lock = how_to_lock(spec, self._shelf.catalogue)
        return Row(line, Answer.ELSEWHERE, words, lock=lock)

    def _other_version(self, line: Line, spec: Spec) -> Row:
        """The row of a package that is here in other versions."""
        if kept := self._kept_elsewhere(line, spec):
            return kept
        if channel := self._shelf.channel_of(spec.name):
            return Row(line, Answer.ELSEWHERE, _OF_A_CHANNEL.format(channel=channel))
        near = self._near_version(line, spec, self._shelf.catalogue)
        records = self._shelf.catalogue.records(spec.name)
        if near:
            return near
        lock = how_to_lock(spec, self._shelf.catalogue)
        return Row(line, Answer.NOWHERE, f"here: {_versions(records)}", lock=lock)

    def _near_version(self, line: Line, spec: Spec, catalogue: Catalogue) -> Row | None:
        """The row of a package whose versions are others; None if the toolkit has none of them."""
        records = catalogue.records(spec.name)
        asked = _first_number(spec.version)
        for text, words in self._nearest(spec, asked):
            near = parse_spec(text)
            found = matching(near, records)
            wanted = (text, *self._toolkit_beside(spec))
            if not found or not catalogue.solves(replace(self._shelf.machine.ideal, specs=wanted)):
                continue
            specs = self._written(spec, near, found, catalogue)
            if self.is_old:
                words = f"{_OF_CUDA_11}; here: {_versions(found)}"
                return Row(line, Answer.NOWHERE, words, specs, is_near=True)
            words = f"{words}{_versions(found)}"
            lock = how_to_lock(spec, self._shelf.catalogue)
            return Row(line, Answer.OTHER_VERSION, words, specs, is_near=True, lock=lock)
        return None

    def _nearest(self, spec: Spec, asked: str) -> Iterator[tuple[str, str]]:
        """Specs for versions that are near to the asked one, and the words before them."""
        parts = asked.split(".")
        if len(parts) > 2:
            yield f"{spec.name}={parts[0]}.{parts[1]}", f"not {asked}; of {'.'.join(parts[:2])}: "
        if len(parts) > 1 and parts[0] != "0":  # the minor is what 0.x changes by
            yield f"{spec.name}={parts[0]}", f"not {asked}; of {parts[0]}: "
        yield spec.name, f"not {plain(spec.version) or spec.build}; here: "

    def _written(
        self, spec: Spec, near: Spec, found: Sequence[RepoDataRecord], catalogue: Catalogue
    ) -> tuple[str, ...]:
        """What to write for a version that is near to the asked one.

        A package of the toolkit is chosen by cuda-version: there is one patch of each minor.
        """
        minor = ".".join(_first_number(near.version).split(".")[:2])
        is_of_toolkit = catalogue.toolkit(minor) is not None
        tied = all(any(need.startswith(_TOOLKIT) for need in r.depends) for r in found)
        if is_of_toolkit and tied and near.version:
            toolkit = () if self.toolkit else (f"{_TOOLKIT}={minor}",)
            return (spec.name, *toolkit)
        return (near.text,)

    def _renamed(self, line: Line, spec: Spec, meant: OtherName) -> Row:
        """The row of a name that other channels or pip have for a package."""
        for request in meant.requests:
            first, *more = request.split()
            specs = tuple(dict.fromkeys([first, *more]))
            is_here = self._shelf.solves(*specs, *self.toolkit)
            if is_here or self._shelf.planned(*specs, *self.toolkit):
                step = "" if is_here else self._step_for(specs)
                return Row(line, Answer.OTHER_NAME, meant.sentence, specs, step=step)
        if meant.requests:
            first_request = tuple(meant.requests[0].split())
            return Row(line, Answer.OTHER_NAME, meant.sentence, first_request)
        if not self._shelf.names.at_conda_forge(meant.instead or spec.name):
            words = "; ".join(filter(None, [meant.sentence, meant.step]))
            return Row(line, Answer.NOWHERE, words)
        unknown = self._unknown(line, meant.instead or spec.name)
        words = f"{meant.sentence}; {unknown.words}"
        return replace(unknown, words=words)

    def _step_for(self, specs: Sequence[str]) -> str:
        names = [parse_spec(spec).name for spec in specs]
        maker = checkout_of(self._shelf.catalogue).maker
        made = [name for name in names if (by := maker(name)) and not by.is_default]
        return how_to_build(made, self._shelf.machine)

    def _unknown(self, line: Line, name: str) -> Row:
        """The row of a package that no channel here has."""
        if channel := self._shelf.channel_of(name):
            return Row(line, Answer.ELSEWHERE, _OF_A_CHANNEL.format(channel=channel))
        if not self._shelf.names.at_conda_forge(name):
            return Row(line, Answer.LEFT, "nothing is known of it here")
        if has_conda_forge(self._shelf.catalogue):
            words = f"conda-forge has none for {self._shelf.catalogue.subdir}"
            return Row(line, Answer.NOWHERE, words)
        return Row(line, Answer.ELSEWHERE, "conda-forge has it: name it with --base conda-forge")

    # --- lines of pip

    def _of_pip(self, line: Line) -> Row:
        """The row of a requirement of pip."""
        if _asks_for_cuda_build(line):
            return self._extra(line)
        if line.name in ("jax", "jaxlib"):
            words = "the wheel is for CPUs: for a GPU, take jax of conda"
            return Row(line, Answer.LEFT, words)
        if line.name in self._shelf.names.own:
            return self._project(line, line.name)
        renamed = self._shelf.names.renamed(line.name)
        if renamed and renamed.requests:
            return self._wheel(line, renamed)
        project = pip_project_with_cuda(line.name)
        if project is not None:
            return self._project(line, project.package)
        return Row(line, Answer.LEFT, "whether it brings a CUDA of its own is not known")

    def _extra(self, line: Line) -> Row:
        """The row of a project with an extra for CUDA: ``jax[cuda12]``."""
        extras = _extras(line)
        toolkit = self._toolkit_of_wheel(_MAJOR_OF_CUDA.findall(" ".join(sorted(extras))))
        package = self._same_of_conda(line, _conda_name(line.name))
        words = f"the extra {listing(sorted(extras))} brings a second CUDA; {package.words}"
        specs = package.specs and (*package.specs, *toolkit)
        return replace(package, line=line, answer=Answer.PIP, words=words, specs=specs)

    def _wheel(self, line: Line, meant: OtherName) -> Row:
        """The row of a wheel of NVIDIA, or of a framework under pip's name for it."""
        names = [word for word in meant.requests[-1].split() if "=" not in word]
        is_of_nvidia = line.name.startswith("nvidia-")
        if is_of_nvidia and self._has_framework:
            words = f"conda's {listing(names)} has its files, and the framework brings it"
            return Row(line, Answer.PIP, words, ())
        toolkit = self._toolkit_of_wheel(_MAJOR_OF_CUDA.findall(line.name))
        if is_of_nvidia or len(names) > 1:
            is_here = self._shelf.solves(*names, *self.toolkit)
            step = "" if is_here else self._step_for(names)
            words = f"conda's {listing(names)} has its files"
            return Row(line, Answer.PIP, words, (*names, *toolkit), step=step)
        package = self._same_of_conda(line, names[0])
        words = f"{meant.sentence}; {package.words}"
        specs = package.specs and (*package.specs, *toolkit)
        return replace(package, line=line, answer=Answer.PIP, words=words, specs=specs)

    def _toolkit_of_wheel(self, majors: Sequence[str]) -> tuple[str, ...]:
        """The toolkit for the CUDA majors in a name, if the file chooses none."""
        if self.toolkit or not majors:
            return ()
        return (f"{_TOOLKIT}={majors[0]}",)

    def _project(self, line: Line, name: str) -> Row:
        """The row of a project that brings CUDA libraries, or needs a framework that does."""
        if not name:
            return Row(line, Answer.LEFT, "no package of conda is known for it")
        package = self._same_of_conda(line, name)
        words = f"a wheel beside conda's CUDA; the package is {package.words}"
        return replace(package, line=line, answer=Answer.PIP, words=words)

    def _same_of_conda(self, line: Line, name: str) -> Row:
        """The row of the package of conda that is the same as a project of pip."""
        wanted = name
        version = _pin_of(line)
        if version:
            wanted = f"{name}={version}"
        spec = parse_spec(wanted)
        row = self._package(replace(line, tool=Tool.CONDA, name=name, spec=wanted), spec)
        words = f"{name}: {row.words}"
        if row.specs is not None or row.answer in (Answer.LEFT, Answer.NOWHERE):
            return replace(row, words=words)
        if row.answer is not Answer.ELSEWHERE:
            return replace(row, words=words, specs=(wanted,))
        is_there = wanted == name or self._shelf.others.has(name, spec.version)
        specs = (wanted,) if is_there else None
        return replace(row, words=words, specs=specs, is_elsewhere=True)


def _names_behind(rows: Iterable[Row]) -> set[str]:
    """The packages that rows take from behind the channels here."""
    return {spec_name(spec.rpartition("::")[2]) for row in rows for spec in row.by_channel}


def _without_near_version(row: Row) -> Row:
    """The row with names alone, where it names versions that are near to what the line asks for."""
    if not row.is_near or row.specs is None:
        return row
    names = {spec: parse_spec(spec).name for spec in row.specs}
    specs = [spec if name == _TOOLKIT else name for spec, name in names.items()]
    return replace(row, specs=tuple(dict.fromkeys(specs)))


def _conda_name(project: str) -> str:
    """The name that conda has for a project of pip."""
    return "pytorch" if project == "torch" else project


def _pin_of(line: Line) -> str:
    """The version that a requirement of pip pins exactly; "" without one."""
    try:
        specifiers = list(Requirement(line.spec).specifier)
    except InvalidRequirement:
        return ""
    exact = [specifier for specifier in specifiers if specifier.operator == "=="]
    return exact[0].version.split("+")[0] if exact else ""


def _first_name(meant: OtherName) -> str:
    """The package to ask for first in the place of a name; "" if nothing is."""
    return meant.requests[0].split()[0] if meant.requests else ""


def _first_number(version: str) -> str:
    """The first version in a bound: ``12.9.2`` of ``>=12.9.2,<13.0``; "" without one."""
    found = _NUMBER.search(version)
    return found[0] if found else ""


def _is_before_cuda_12(version: str) -> bool:
    """Whether a bound on the toolkit is for CUDA 11 or older, and for nothing newer."""
    number = _first_number(version)
    is_floor = version.startswith((">", "!=")) and "<" not in version
    return bool(number) and not is_floor and older(number, _OLDEST_MAJOR)


def _versions(records: Iterable[RepoDataRecord]) -> str:
    """The newest versions of records, in words."""
    versions = list(dict.fromkeys(str(record.version) for record in records))
    return listing(versions, most=3)
