"""The rows of lines of conda: packages, and what chooses the toolkit of a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from rattler import RepoDataRecord, Version, VersionSpec

from ctk.core.console import listing
from ctk.core.errors import BadValue
from ctk.core.similar import nearest
from ctk.envfile.built import as_if_built
from ctk.envfile.model import Line, Tool
from ctk.envfile.row import Answer, Row
from ctk.envfile.shelf import TOOLKIT, Shelf, is_replaced
from ctk.plan.conda_forge import CONDA_FORGE
from ctk.plan.names import OtherName, known_substitutes
from ctk.solve.advice import checkout_of, has_conda_forge, how_to_build, how_to_lock, planned_of
from ctk.solve.hidden import Hidden, hidden, matching, without_channel
from ctk.solve.reason import in_words, plain
from ctk.solve.solve import Catalogue, Spec, older, parse_spec, spec_of_record

_NUMBER = re.compile(r"\d+(?:\.\d+)*")
# Packages that bring the CUDA libraries that they need.
_FRAMEWORKS = frozenset(
    ("cupy", "jax", "jaxlib", "libtorch", "pytorch", "pytorch-gpu", "tensorflow", "tensorflow-gpu")
)
_FRAMEWORKS_OF_PIP = frozenset(("jax", "jaxlib", "tensorflow", "torch"))
# Its packages have the version of the whole toolkit; conda-forge has them of each patch.
_WHOLE_TOOLKIT = "cuda-toolkit"
_OLDEST_MAJOR = "12"
_CUDA_11_ENDED = "CUDA 11 is no longer supported: current packages are for CUDA 12 and 13"
_OF_CUDA_11 = "for CUDA 11, which is no longer supported"
_OF_A_CHANNEL = "of the channel {channel}, which is not used here"
_NO_NVCC = "NVIDIA publishes no nvcc for CUDA 12 as a wheel"


class RowsOfConda:
    """Answers the lines of one environment that ask for packages of conda.

    Attributes:
        shelf: What the channels have.
        lines: The lines of the environment for the platform.
        toolkit: The specs that choose its toolkit, as far as its other lines are to know it.
        is_old: Whether it was for CUDA 11 or older.
    """

    def __init__(self, shelf: Shelf, lines: Sequence[Line]) -> None:
        self.shelf = shelf
        self.lines = lines
        self.toolkit: tuple[str, ...] = ()
        self.is_old = False

    # --- lines that choose the toolkit

    def toolkit_row(self, line: Line) -> Row | None:
        """The row of a line that chooses the toolkit; None for others."""
        if line.tool is Tool.CONDA and line.name == TOOLKIT:
            return self._cuda_version(line)
        meant = self.shelf.names.renamed(line.name)
        if line.tool is Tool.CONDA and meant and _first_name(meant) == TOOLKIT:
            return self._chooser(line, meant)
        return None

    def _cuda_version(self, line: Line) -> Row:
        """The row of cuda-version."""
        spec = parse_spec(line.spec)
        if _is_before_cuda_12(spec.version):
            self.is_old = True
            specs = (f"{TOOLKIT}={_OLDEST_MAJOR}",)
            return Row(line, Answer.NOWHERE, _CUDA_11_ENDED, specs)
        return self.package(line, spec)

    def _chooser(self, line: Line, meant: OtherName) -> Row:
        """The row of a package that chose the toolkit elsewhere: cudatoolkit, pytorch-cuda."""
        version = _first_number(parse_spec(line.spec).version)
        major = version.split(".")[0]
        is_old = bool(major) and older(major, _OLDEST_MAJOR)
        toolkit = TOOLKIT
        if major:
            toolkit = f"{TOOLKIT}={_OLDEST_MAJOR if is_old else major}"
        specs = [toolkit]
        for name in meant.requests[0].split()[1:]:
            is_brought = name == "cuda-libraries" and bool(self.framework)
            if not is_brought and name not in _FRAMEWORKS and not self._asks_for(name):
                specs.append(name)
        step = "" if self.shelf.solves(*specs) else self.step_for(specs)
        if is_old:
            self.is_old = True
            words = _CUDA_11_ENDED
            if self.shelf.others.has(line.name, parse_spec(line.spec).version):
                words = f"{words}; conda-forge still has it for old packages"
            return Row(line, Answer.NOWHERE, words, tuple(specs), step=step)
        return Row(line, Answer.OTHER_NAME, meant.sentence, tuple(specs), step=step)

    @cached_property
    def framework(self) -> str:
        """The package of a line that brings the CUDA libraries that it needs; "" without any."""
        for line in self.lines:
            if line.name in (_FRAMEWORKS if line.tool is Tool.CONDA else _FRAMEWORKS_OF_PIP):
                return conda_name(line.name)
        return ""

    def _asks_for(self, name: str) -> bool:
        return any(line.tool is Tool.CONDA and line.name == name for line in self.lines)

    @cached_property
    def with_toolkit(self) -> Catalogue:
        """The channels, with the toolkit of the file as if built if it is not."""
        catalogue = self.shelf.catalogue
        is_here = self.shelf.solves(*self.toolkit)
        if is_here or planned_of(catalogue) is None:
            return catalogue
        return as_if_built(catalogue, [])

    @property
    def _toolkit_words(self) -> str:
        """The toolkit of the file, in words."""
        return in_words(parse_spec(self.toolkit[-1])) if self.toolkit else "this platform"

    # --- other lines

    def row(self, line: Line) -> Row:
        """The row of a line of conda that does not choose the toolkit."""
        try:
            spec = parse_spec(line.spec)
        except BadValue as error:
            return Row(line, Answer.LEFT, f"this is not a conda spec: {error.cause}")
        row = self.package(line, spec)
        if is_replaced(line.channel) and row.specs is None:
            words = f"without the channel {line.channel}: {row.words}"
            answer = Answer.OTHER_NAME if row.answer in (Answer.HERE, Answer.BASE) else row.answer
            is_elsewhere = row.answer in (Answer.ELSEWHERE, Answer.NOWHERE)
            specs = (without_channel(spec),)
            return replace(row, answer=answer, words=words, specs=specs, is_elsewhere=is_elsewhere)
        return row

    def package(self, line: Line, spec: Spec) -> Row:
        """The row of a spec of conda."""
        shelf = self.shelf
        if spec.name.startswith("__"):
            return Row(line, Answer.HERE, "a property of the machine")
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
        planned = planned_of(self.shelf.catalogue)
        is_for_toolkit = self.shelf.planned(spec.name, *self.toolkit)
        if planned is not None and not is_for_toolkit and known_substitutes(spec.name):
            return self._substitute(line, spec)
        if kept := self._kept_elsewhere(line, spec):
            return kept
        if planned is None or not is_for_toolkit:
            return self._substitute(line, spec)
        row = self._near_version(line, spec, planned)
        if row is None:
            return self._substitute(line, spec)
        return replace(row, words=f"{row.words} can be built here", step=self.step_for([spec.name]))

    def _substitute(self, line: Line, spec: Spec) -> Row:
        """The row of a package that the toolkit of the file lacks, and that others stand in for.

        Where conda-forge has the package itself, it comes first: what stands in for nvcc compiles
        no program.
        """
        substitutes = known_substitutes(spec.name)  # of the packages of nvcc
        elsewhere = self._kept_elsewhere(line, spec) if substitutes else None
        if elsewhere and elsewhere.answer is Answer.ELSEWHERE:
            words = f"conda-forge has it: name it with --base {CONDA_FORGE}; {_NO_NVCC}"
            return replace(elsewhere, words=f"{words}{self._rest_without_nvcc(spec.name)}")
        if specs := self._standing_in(spec.name):
            is_here = self.shelf.solves(*specs, *self.toolkit)
            words = f"not for {self._toolkit_words}: {_NO_NVCC}"
            step = "" if is_here else self.step_for(specs)
            return Row(line, Answer.OTHER_NAME, words, specs, step=step)
        return self._not_for_toolkit(line, spec)

    def _standing_in(self, name: str) -> tuple[str, ...]:
        """The packages that stand in for one that the toolkit of the file lacks; () without any."""
        for substitute in known_substitutes(name):
            specs = tuple(substitute.split())
            if self.shelf.solves(*specs, *self.toolkit):
                return specs
            if self.shelf.planned(*specs, *self.toolkit):
                return specs
        return ()

    def _rest_without_nvcc(self, name: str) -> str:
        """What here has the rest of a package that nvcc is a part of; "" for nvcc itself."""
        specs = self._standing_in(name)
        if name == "cuda-nvcc" or not specs:
            return ""
        words = f"; if you need no nvcc, write {listing(specs)}, which have the rest here"
        if self.shelf.solves(*specs, *self.toolkit):
            return words
        release = self._release_of_toolkit()
        return f"{words}, after {how_to_build(specs, self.shelf.machine, release)}"

    def _release_of_toolkit(self) -> str:
        """The release that the file's choice of a toolkit names, such as 12.6; or ""."""
        found = [match for text in self.toolkit if (match := re.search(r"\d+\.\d+", text))]
        return found[0][0] if found else ""

    def _own(self, line: Line, spec: Spec) -> Row:
        """The row of a package that a channel before the base channel has."""
        shelf = self.shelf
        found = matching(spec, shelf.catalogue.records(spec.name))
        wanted = (without_channel(spec), *self.toolkit_beside(spec))
        there = shelf.solves_there(*wanted) if found else False
        if there:
            return self._here(line, spec, found)
        is_possible = bool(found) and shelf.solves(*wanted)
        if not is_possible and self._is_planned(spec):
            return self._not_built(line, spec)
        if behind := self.hidden_row(line, spec):
            return behind
        if is_possible and self._is_only_built_for_others(spec):
            return self._not_built(line, spec)
        if is_possible:
            return self._here(line, spec, found)
        if found:
            return self._substitute(line, spec)
        return self._other_version(line, spec)

    def _here(self, line: Line, spec: Spec, found: Sequence[RepoDataRecord]) -> Row:
        """The row of a package that is here as the file asks for it."""
        beside = self.toolkit_beside(spec)
        if not beside:
            return Row(line, Answer.HERE, _versions(found))
        pick = self.shelf.pick(without_channel(spec), *beside)
        return Row(line, Answer.HERE, pick.version(spec.name) if pick else _versions(found))

    def toolkit_beside(self, spec: Spec) -> tuple[str, ...]:
        """The toolkit of the file, for a spec that does not choose it itself."""
        return () if spec.name == TOOLKIT else self.toolkit

    def _is_planned(self, spec: Spec) -> bool:
        return self.shelf.planned(without_channel(spec), *self.toolkit_beside(spec))

    def _is_only_built_for_others(self, spec: Spec) -> bool:
        """Whether the machine can have a package only if `ctk build` makes it for the machine."""
        planned = planned_of(self.shelf.catalogue)
        wanted = (without_channel(spec), *self.toolkit_beside(spec))
        return planned is not None and planned.solves(replace(self.shelf.machine, specs=wanted))

    def _not_built(self, line: Line, spec: Spec) -> Row:
        """The row of what `ctk build` would make."""
        planned = planned_of(self.shelf.catalogue)
        assert planned is not None
        ideal = self.shelf.machine.ideal
        wanted = (without_channel(spec), *self.toolkit_beside(spec))
        pick = planned.pick(replace(self.shelf.machine, specs=wanted))
        pick = pick or planned.pick(replace(ideal, specs=wanted))
        maker = checkout_of(self.shelf.catalogue).maker(spec.name)
        packages = [] if maker is None or maker.is_default else [spec.name]
        release = pick.toolkit if pick and self._names_toolkit(spec) else ""
        step = how_to_build(packages, self.shelf.machine, release)
        words = "not built here"
        version = pick.version(spec.name) if pick else ""
        if version:
            words = f"{version} can be built here"
        return Row(line, Answer.NOT_BUILT, f"{words}{self._built_instead(spec)}", step=step)

    def _built_instead(self, spec: Spec) -> str:
        """Which builds of a package are here that the file or the machine cannot take, in words."""
        if spec.name == TOOLKIT or spec.name not in self.shelf.own:
            return ""
        records = self.shelf.catalogue.records(spec.name)
        if not matching(spec, records):
            return f"; built is {_versions(records)}"
        toolkits = self._toolkits_with(spec)
        if not toolkits:
            return ""
        needs = self._toolkit_words if self.toolkit else "this machine"
        return f" for {needs}; it is built for {listing(toolkits, most=8)}"

    def _toolkits_with(self, spec: Spec) -> list[str]:
        """The toolkits of the channel for which it has a package, oldest first."""
        return [
            toolkit.version
            for toolkit in reversed(self.shelf.catalogue.toolkits)
            if self.shelf.solves(without_channel(spec), f"{TOOLKIT}={toolkit.version}")
        ]

    def _names_toolkit(self, spec: Spec) -> bool:
        """Whether a spec, or the file's choice of a toolkit, needs a release of its own."""
        asked = [spec.text] if spec.name == TOOLKIT else list(self.toolkit)
        return any(re.search(r"\d+\.\d+", text) for text in asked)

    def _of_base(self, line: Line, spec: Spec) -> Row:
        """The row of a package that the base channel alone has."""
        shelf = self.shelf
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
        shelf = self.shelf
        wanted = (without_channel(spec), *self.toolkit_beside(spec))
        versions = _versions(found)
        if self.toolkit:
            pick = self.with_toolkit.pick(replace(shelf.machine.ideal, specs=wanted))
            versions = pick.version(spec.name) if pick else versions
        is_plain = self.with_toolkit.solves(replace(shelf.machine.ideal, specs=wanted))
        behind = None if is_plain else self.hidden_row(line, spec)
        if behind:
            return behind
        return Row(line, Answer.BASE, f"{versions} of {shelf.base_name}")

    def _is_of_cuda_11(self, record: RepoDataRecord) -> bool:
        """Whether a record needs CUDA 11 or older."""
        needs = [spec_of_record(text) for text in record.depends]
        if any(need.name == "cudatoolkit" for need in needs):
            return True
        bounds = [
            VersionSpec(need.version) for need in needs if need.name == TOOLKIT and need.version
        ]
        versions = [Version(toolkit.version) for toolkit in self.shelf.catalogue.toolkits]
        return any(not any(map(bound.matches, versions)) for bound in bounds)

    def hidden_row(self, line: Line, spec: Spec) -> Row | None:
        """The row of a package of which the base channel has what the file needs; else None."""
        machine = replace(self.shelf.machine, specs=self.toolkit_beside(spec))
        found = hidden(spec, machine, self.with_toolkit)
        return self.row_of_hidden(line, found) if found else None

    def row_of_hidden(self, line: Line, found: Hidden) -> Row:
        """The row of a package that the base channel has, and that is hidden."""
        name = parse_spec(line.spec).name
        by = f"by {name} of this channel"
        if name not in self.shelf.own:
            by = "as its dependencies are by packages of this channel"
        words = (
            f"{found.version} of {found.channel}, hidden {by} if channel priority is strict, as it"
            " is in pixi by default"
        )
        return Row(line, Answer.HIDDEN, words, by_channel=found.specs)

    def _not_for_toolkit(self, line: Line, spec: Spec) -> Row:
        """The row of a package that the toolkit of the file does not have."""
        fitting = self._toolkits_with(spec)
        words = f"not for {self._toolkit_words}"
        if fitting:
            words = f"{words}: here it is for toolkit {listing(fitting, 'or', most=6)}"
        return self._kept_elsewhere(line, spec) or Row(line, Answer.NOWHERE, words)

    def _kept_elsewhere(self, line: Line, spec: Spec) -> Row | None:
        """The row of what a channel is known to have that is not asked; else None."""
        kept = self.shelf.others.kept(spec.name)
        if kept is None or self.shelf.asks(kept.channel):
            return None
        if not self.shelf.others.has(spec.name, spec.version):
            return None
        bound = VersionSpec(spec.version or "*")
        versions = [version for version in kept.versions if bound.matches(Version(version))]
        newest = versions[-1] if versions else "it"
        of_today = VersionSpec(kept.cuda12 or "*")
        if versions and not any(of_today.matches(Version(version)) for version in versions):
            words = f"{newest} of {kept.channel} is {_OF_CUDA_11}"
            return Row(line, Answer.NOWHERE, words, (spec.name,))
        words = f"{newest} is in {kept.channel}, which is not used here"
        if kept.channel == CONDA_FORGE:
            words = f"{newest} is in {CONDA_FORGE}, which is not the base channel here"
            words = f"{words}: name it with --base {CONDA_FORGE}"
        if patch := self._patch_of_toolkit(spec):
            words = f"{words}; here each toolkit has one patch, {patch}"
        if other := self._for_another_toolkit(spec):
            return Row(line, Answer.ELSEWHERE, f"{words}; {other}")
        lock = how_to_lock(spec, self.shelf.catalogue)
        return Row(line, Answer.ELSEWHERE, words, lock=lock)

    def _for_another_toolkit(self, spec: Spec) -> str:
        """The version here that a spec accepts, and that the toolkit of the file lacks, in words.

        Of the same CUDA major first; "" if there is none.
        """
        planned = planned_of(self.shelf.catalogue)
        if not self.toolkit or planned is None:
            return ""
        major = _first_number(parse_spec(self.toolkit[-1]).version).split(".")[0]
        for beside in ((f"{TOOLKIT}={major}",), ()):
            wanted = (without_channel(spec), *beside)
            pick = planned.pick(replace(self.shelf.machine.ideal, specs=wanted))
            if pick and pick.toolkit:
                version = pick.version(spec.name)
                return f"{version} of here is for toolkit {pick.toolkit}: loosen {self.toolkit[-1]}"
        return ""

    def _patch_of_toolkit(self, spec: Spec) -> str:
        """The patch that is here, of the toolkit whose patch a spec names; "" for other specs."""
        parts = _first_number(spec.version).split(".")
        maker = checkout_of(self.shelf.catalogue).maker(spec.name)
        if len(parts) != 3 or maker is None or maker.recipe != _WHOLE_TOOLKIT:
            return ""
        catalogue = planned_of(self.shelf.catalogue) or self.shelf.catalogue
        of_minor = parse_spec(f"{spec.name}={parts[0]}.{parts[1]}")
        return _versions(matching(of_minor, catalogue.records(spec.name)))

    def _other_version(self, line: Line, spec: Spec) -> Row:
        """The row of a package that is here in other versions."""
        if kept := self._kept_elsewhere(line, spec):
            return kept
        if channel := self.shelf.channel_of(spec.name):
            return Row(line, Answer.ELSEWHERE, _OF_A_CHANNEL.format(channel=channel))
        near = self._near_version(line, spec, self.shelf.catalogue)
        records = self.shelf.catalogue.records(spec.name)
        if near:
            return near
        lock = how_to_lock(spec, self.shelf.catalogue)
        return Row(line, Answer.NOWHERE, f"here: {_versions(records)}", lock=lock)

    def _near_version(self, line: Line, spec: Spec, catalogue: Catalogue) -> Row | None:
        """The row of a package whose versions are others; None if the toolkit has none of them."""
        records = catalogue.records(spec.name)
        asked = _first_number(spec.version)
        for text, words in self._nearest(spec, asked):
            near = parse_spec(text)
            found = matching(near, records)
            wanted = (text, *self.toolkit_beside(spec))
            if not found or not catalogue.solves(replace(self.shelf.machine.ideal, specs=wanted)):
                continue
            specs = self._written(spec, near, found, catalogue)
            if self.is_old:
                words = f"{_OF_CUDA_11}; here: {_versions(found)}"
                return Row(line, Answer.NOWHERE, words, specs, is_near=True)
            words = f"{words}{_versions(found)}"
            lock = how_to_lock(spec, self.shelf.catalogue)
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
        tied = all(any(need.startswith(TOOLKIT) for need in r.depends) for r in found)
        if is_of_toolkit and tied and near.version:
            toolkit = () if self.toolkit else (f"{TOOLKIT}={minor}",)
            return (spec.name, *toolkit)
        return (near.text,)

    def _renamed(self, line: Line, spec: Spec, meant: OtherName) -> Row:
        """The row of a name that other channels or pip have for a package."""
        for request in meant.requests:
            first, *more = request.split()
            specs = tuple(dict.fromkeys([first, *more]))
            is_here = self.shelf.solves(*specs, *self.toolkit)
            if is_here or self.shelf.planned(*specs, *self.toolkit):
                step = "" if is_here else self.step_for(specs)
                return Row(line, Answer.OTHER_NAME, meant.sentence, specs, step=step)
        if meant.requests:
            first_request = tuple(meant.requests[0].split())
            return Row(line, Answer.OTHER_NAME, meant.sentence, first_request)
        if not self.shelf.names.at_conda_forge(meant.instead or spec.name):
            words = "; ".join(filter(None, [meant.sentence, meant.step]))
            return Row(line, Answer.NOWHERE, words)
        unknown = self._unknown(line, meant.instead or spec.name)
        words = f"{meant.sentence}; {unknown.words}"
        return replace(unknown, words=words)

    def step_for(self, specs: Sequence[str]) -> str:
        names = [parse_spec(spec).name for spec in specs]
        maker = checkout_of(self.shelf.catalogue).maker
        made = [name for name in names if (by := maker(name)) and not by.is_default]
        return how_to_build(made, self.shelf.machine)

    def _unknown(self, line: Line, name: str) -> Row:
        """The row of a package that no channel here has."""
        if channel := self.shelf.channel_of(name):
            return Row(line, Answer.ELSEWHERE, _OF_A_CHANNEL.format(channel=channel))
        if not self.shelf.names.at_conda_forge(name):
            near = nearest(name, {*self.shelf.names.own, *self.shelf.own})
            words = (
                f"not known here; did you mean {listing(near, 'or')}?" if near else "not known here"
            )
            return Row(line, Answer.LEFT, words)
        if has_conda_forge(self.shelf.catalogue):
            words = f"conda-forge has none for {self.shelf.catalogue.subdir}"
            return Row(line, Answer.NOWHERE, words)
        return Row(line, Answer.ELSEWHERE, "conda-forge has it: name it with --base conda-forge")


def conda_name(project: str) -> str:
    """The name that conda has for a project of pip."""
    return "pytorch" if project == "torch" else project


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
