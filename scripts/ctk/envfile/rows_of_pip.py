"""The rows of lines that ask for projects of pip: wheels that bring a CUDA of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import Version

from ctk.core.console import listing
from ctk.envfile.model import Line, Tool
from ctk.envfile.rewrite_edits import readable_spec
from ctk.envfile.row import Answer, Row
from ctk.envfile.rows_of_conda import RowsOfConda, conda_name
from ctk.envfile.shelf import TOOLKIT, asks_for_cuda_build, extras_of
from ctk.plan.names import OtherName, pip_project_with_cuda
from ctk.solve.advice import planned_of
from ctk.solve.hidden import matching
from ctk.solve.solve import parse_spec

_MAJOR_OF_CUDA = re.compile(r"cu(?:da)?-?(\d\d)")
_MINOR_OF_CUDA = re.compile(rf"{TOOLKIT} >=(\d+\.\d+),")


class RowsOfPip:
    """Answers the lines of one environment that ask for projects of pip.

    Args:
        conda: Answers its lines of conda: a project is answered by the package that is the same.
    """

    def __init__(self, conda: RowsOfConda) -> None:
        self._conda = conda
        self._shelf = conda.shelf

    def row(self, line: Line) -> Row:
        """The row of a requirement of pip."""
        if asks_for_cuda_build(line):
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
        extras = extras_of(line)
        toolkit = self._toolkit_of_wheel(_MAJOR_OF_CUDA.findall(" ".join(sorted(extras))))
        package = self._same_of_conda(line, conda_name(line.name))
        words = f"the extra {listing(sorted(extras))} brings a second CUDA; {package.words}"
        specs = package.specs and (*package.specs, *toolkit)
        return replace(package, line=line, answer=Answer.PIP, words=words, specs=specs)

    def _wheel(self, line: Line, meant: OtherName) -> Row:
        """The row of a wheel of NVIDIA, or of a framework under pip's name for it."""
        names = [word for word in meant.requests[-1].split() if "=" not in word]
        is_of_nvidia = line.name.startswith("nvidia-")
        if is_of_nvidia and self._conda.framework:
            brings = f"{self._conda.framework} of conda brings it"
            words = f"the files of this wheel are in conda's {listing(names)}, and {brings}"
            return Row(line, Answer.PIP, words, ())
        if is_of_nvidia or len(names) > 1:
            return self._files_of_wheel(line, names)
        toolkit = self._toolkit_of_wheel(_MAJOR_OF_CUDA.findall(line.name))
        package = self._same_of_conda(line, names[0])
        words = f"{meant.sentence}; {package.words}"
        specs = package.specs and (*package.specs, *toolkit)
        return replace(package, line=line, answer=Answer.PIP, words=words, specs=specs)

    def _files_of_wheel(self, line: Line, names: Sequence[str]) -> Row:
        """The row of a wheel whose files are in packages of here, in a version that fits."""
        wanted = _with_bounds(names[0], line)
        toolkit = self._toolkit_of_wheel(_MAJOR_OF_CUDA.findall(line.name))
        beside = (*self._conda.toolkit, *toolkit)
        specs = list(names)
        words = f"the files of this wheel are in conda's {listing(names)}"
        if parse_spec(wanted).version:
            minors = self._minors_of_version(wanted)
            if minors:
                words += self._of_toolkits(minors)
            elif self._has(wanted, *beside):
                specs[0] = wanted
            else:
                words += ", and not in that version, which is left out"
        step = ""
        if not self._shelf.solves(*specs, *beside):
            step = self._conda.step_for([*specs, *toolkit])
        return Row(line, Answer.PIP, words, (*specs, *toolkit), step=step)

    def _of_toolkits(self, minors: Sequence[str]) -> str:
        """What is said of a version that these toolkits have, after a comma."""
        if self._conda.toolkit:
            return ", in the version of the toolkit that the file names"
        return f"; its version is that of toolkit {listing(minors, 'or', most=3)}"

    def _has(self, *specs: str) -> bool:
        """Whether specs have a solution, or would have one if all were built."""
        return self._shelf.solves(*specs) or bool(self._shelf.planned(*specs))

    def _toolkit_of_wheel(self, majors: Sequence[str]) -> tuple[str, ...]:
        """The toolkit for the CUDA majors in a name, if the file chooses none.

        That of the versions of NVIDIA's wheels, if the file names any.
        """
        if self._conda.toolkit or not majors:
            return ()
        major = majors[0]
        return (self._toolkits_of_versions.get(major, f"{TOOLKIT}={major}"),)

    @cached_property
    def _toolkits_of_versions(self) -> dict[str, str]:
        """CUDA major -> the spec of the toolkits that all wheels of NVIDIA in the file are of."""
        found: dict[str, set[str]] = {}
        for line in self._conda.lines:
            majors = _MAJOR_OF_CUDA.findall(line.name)
            renamed = self._shelf.names.renamed(line.name)
            is_wheel = line.tool is Tool.PIP and line.name.startswith("nvidia-")
            if not is_wheel or not majors or renamed is None or not renamed.requests:
                continue
            minors = self._minors_of_version(_with_bounds(renamed.requests[-1].split()[0], line))
            if minors:
                found[majors[0]] = found.get(majors[0], set(minors)) & set(minors)
        return {major: _toolkit_of(major, minors) for major, minors in found.items() if minors}

    def _minors_of_version(self, wanted: str) -> list[str]:
        """The toolkits that have the asked version of a package, oldest first; [] for any."""
        catalogue = planned_of(self._shelf.catalogue) or self._shelf.catalogue
        records = catalogue.records(parse_spec(wanted).name)
        for text in _less_exact(wanted):
            found = matching(parse_spec(text), records)
            needs = " ".join(need for record in found for need in record.depends)
            if minors := set(_MINOR_OF_CUDA.findall(needs)):
                return sorted(minors, key=Version)
        return []

    def _project(self, line: Line, name: str) -> Row:
        """The row of a project that brings CUDA libraries, or needs a framework that does."""
        if not name:
            return Row(line, Answer.LEFT, "no conda package is known for it")
        package = self._same_of_conda(line, name)
        words = f"a wheel, next to conda's CUDA; the package is {package.words}"
        return replace(package, line=line, answer=Answer.PIP, words=words)

    def _same_of_conda(self, line: Line, name: str) -> Row:
        """The row of the package of conda that is the same as a project of pip."""
        wanted = _with_bounds(name, line)
        spec = parse_spec(wanted)
        row = self._conda.package(replace(line, tool=Tool.CONDA, name=name, spec=wanted), spec)
        words = f"{name}: {row.words}"
        if row.specs is not None or row.answer in (Answer.LEFT, Answer.NOWHERE):
            return replace(row, words=words)
        if row.answer is not Answer.ELSEWHERE:
            return replace(row, words=words, specs=(wanted,))
        is_there = not spec.version or self._shelf.others.has(name, spec.version)
        specs = (wanted,) if is_there else None
        return replace(row, words=words, specs=specs, is_elsewhere=True)


def _toolkit_of(major: str, minors: set[str]) -> str:
    """A spec for toolkits of a CUDA major: the only one, or from the oldest one on."""
    oldest = min(minors, key=Version)
    if len(minors) == 1:
        return f"{TOOLKIT}={oldest}"
    return f"{TOOLKIT} >={oldest},<{int(major) + 1}"


def _less_exact(wanted: str) -> Iterator[str]:
    """A spec with a version, then with fewer numbers of it: ``=12.5.8.93``, ``=12.5.8``, ``=12.5``.

    A range is itself alone, and a name without a version nothing.
    """
    name, is_exact, version = wanted.partition("=")
    if parse_spec(wanted).version:
        yield wanted
    if is_exact and name == parse_spec(wanted).name:
        numbers = version.split(".")
        for count in range(len(numbers) - 1, 1, -1):
            yield f"{name}={'.'.join(numbers[:count])}"


def _with_bounds(name: str, line: Line) -> str:
    """A package of conda in the versions that a requirement of pip accepts: ``pytorch >=2.4,<2.9``.

    The name alone where the requirement is an address, or has bounds that conda cannot read.
    """
    try:
        specifiers = list(Requirement(line.spec).specifier)
    except InvalidRequirement:
        return name
    bounds = []
    for specifier in specifiers:
        version = specifier.version.split("+")[0]  # without a label of a build: 2.5.1+cu121
        if specifier.operator in ("==", "==="):
            return f"{name}={version.removesuffix('.*')}"
        bounds.append(f"{specifier.operator}{version}")
    wanted = f"{name} {','.join(sorted(bounds, reverse=True))}".strip()
    return wanted if readable_spec(wanted) else name
