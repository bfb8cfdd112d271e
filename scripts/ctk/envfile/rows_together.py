"""The rows of one environment as one request: others, where they exclude each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ctk.core.console import listing
from ctk.envfile.built import built_for
from ctk.envfile.model import Tool
from ctk.envfile.rewrite_edits import readable_spec
from ctk.envfile.row import Answer, Row
from ctk.envfile.rows_of_conda import RowsOfConda
from ctk.envfile.shelf import TOOLKIT
from ctk.package.records import spec_name
from ctk.plan.conda_forge import CONDA_FORGE
from ctk.solve.hidden import hidden, matching, without_channel
from ctk.solve.solve import Spec, parse_spec, spec_of_record


@dataclass(frozen=True)
class _Needed:
    """What a package here needs, in the place of what the file takes elsewhere.

    Attributes:
        package: Its name and version.
        bound: The spec that the file takes elsewhere.
        what: The package that it needs, with its version.
    """

    package: str
    bound: Spec
    what: str


class RowsTogether:
    """Changes rows that have no solution together.

    Args:
        conda: What answered the lines of conda.
    """

    def __init__(self, conda: RowsOfConda) -> None:
        self._conda = conda
        self._shelf = conda.shelf

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
                found[found.index(row)] = self._conda.hidden_row(row.line, spec) or row
            before, names = names, _names_behind(found)
            if names == before:
                break
        return found

    def beside_elsewhere(self, rows: Sequence[Row]) -> list[Row]:
        """The rows, without packages that need another version of what the file takes elsewhere.

        torchcodec of here needs the PyTorch of here; a file may ask for an older one.
        """
        bounds = [spec for row in rows if (spec := _bound_elsewhere(row))]
        found = []
        for row in rows:
            needed = self._other_version_of(row, bounds)
            found.append(self._also_elsewhere(row, needed) if needed else row)
        return found

    def _other_version_of(self, row: Row, bounds: Sequence[Spec]) -> _Needed | None:
        """The bound that a package here breaks by what it needs; None if it breaks none.

        For the machine if it has a pick, as the words of the row are: an ideal one gets the newest.
        """
        if not bounds or not row.asked or row.line.name == TOOLKIT:
            return None
        catalogue = built_for([row], self._shelf.catalogue)
        specs = (*row.asked, *self._conda.toolkit)
        pick = catalogue.pick(replace(self._shelf.machine, specs=specs))
        pick = pick or catalogue.pick(replace(self._shelf.machine.ideal, specs=specs))
        name = spec_name(row.asked[0])
        for bound in bounds:
            record = pick.record(bound.name) if pick else None
            if record and not matching(bound, [record]):
                own = pick.version(name) if pick else ""
                return _Needed(f"{name} {own}", bound, f"{bound.name} {record.version}")
        return None

    def _also_elsewhere(self, row: Row, needed: _Needed) -> Row:
        """The row of a package that does not go with what the file takes elsewhere."""
        bound = needed.bound
        words = f"{row.words}; {needed.package} needs {needed.what}, and not {bound.text}"
        own = parse_spec(row.asked[0])
        are_there = self._is_at_conda_forge(bound) and self._is_at_conda_forge(own)
        if are_there and not self._shelf.asks(CONDA_FORGE):
            words = f"{words}; conda-forge has both: name it with --base {CONDA_FORGE}"
        is_of_pip = row.line.tool is Tool.PIP
        answer = row.answer if is_of_pip else Answer.ELSEWHERE
        specs = row.specs if is_of_pip and are_there else None
        return replace(row, answer=answer, words=words, specs=specs, step="", is_elsewhere=True)

    def _is_at_conda_forge(self, spec: Spec) -> bool:
        """Whether conda-forge is known to have a package in a version."""
        others = self._shelf.others
        kept = others.kept(spec.name)
        if kept is None or kept.channel != CONDA_FORGE:
            return self._shelf.names.at_conda_forge(spec.name)
        return others.has(spec.name, spec.version) is True

    def together(self, rows: Sequence[Row]) -> list[Row]:
        """The rows, without versions that were only near, if they cannot be installed together."""
        found = list(rows)
        if self._solves_built(found):
            return found
        if behind := self._one_from_behind(found):
            return behind
        of_others = [_without_major_of_wheel(row) for row in found]
        if self._solves_built(of_others):
            return self._with_cause(found, of_others)
        loose = [_without_near_version(row) for row in found]
        if self._solves_built(loose):
            return loose
        return self._without_one(found) or self._without_one(loose) or found

    def _with_cause(self, before: Sequence[Row], after: Sequence[Row]) -> list[Row]:
        """The rows after their wheels' majors went, with the line because of which they had to."""
        changed = {row.line: row for row in after if row not in before}
        culprit = ""
        for row in before:
            others = [other for other in before if other is not row]
            if row.line not in changed and self._solves_built(others):
                culprit = row.line.text
                break
        cause = f"{culprit} does" if culprit else "other lines do"
        found = []
        for old in before:
            new = changed.get(old.line, old)
            if new is not old:
                dropped = {*(old.specs or ())} - {*(new.specs or ())}
                left_out = f"{listing(sorted(dropped))} is left out"
                words = f"{old.words}; {left_out}, because {cause} not go with it here"
                new = replace(new, words=words)
            found.append(new)
        return found

    def _without_one(self, rows: Sequence[Row]) -> list[Row] | None:
        """The rows, without one that could be built here in another version, if that solves.

        None if that gives no solution. cuTensorNet of here needs a newer cuTENSOR than a file pins.
        """
        for row in rows:
            if not row.is_near or not row.step:
                continue
            words = f"{row.words}; that does not work with the other lines"
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
            if row.answer is not Answer.HERE or row.line.name == TOOLKIT:
                continue
            others = [other for other in rows if other is not row]
            specs = tuple(spec for other in others for spec in other.asked)
            machine = replace(self._shelf.machine, specs=specs)
            found = hidden(parse_spec(row.line.spec), machine, self._conda.with_toolkit)
            if found:
                behind = self._conda.row_of_hidden(row.line, found)
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
        catalogue = self._conda.with_toolkit
        spec = parse_spec(row.line.spec)
        wanted = (without_channel(spec), *self._conda.toolkit_beside(spec))
        pick = catalogue.pick(replace(self._shelf.machine.ideal, specs=wanted))
        record = pick.record(spec.name) if pick else None
        needs = map(spec_of_record, record.depends) if record else ()
        return any(
            need.name in names and not matching(need, catalogue.hidden(need.name)) for need in needs
        )


def _bound_elsewhere(row: Row) -> Spec | None:
    """The spec with a version that is taken from a channel that is not asked; None for others."""
    is_elsewhere = row.answer is Answer.ELSEWHERE or row.is_elsewhere
    text = row.specs[0] if row.specs else row.line.spec
    if not is_elsewhere or (row.line.tool is Tool.PIP and not row.specs):
        return None
    spec = readable_spec(text)
    return spec if spec and spec.version else None


def _names_behind(rows: Iterable[Row]) -> set[str]:
    """The packages that rows take from behind the channels here."""
    return {spec_name(spec.rpartition("::")[2]) for row in rows for spec in row.by_channel}


def _without_major_of_wheel(row: Row) -> Row:
    """The row without the CUDA major that is only in the name of its wheel: cupy-cuda12x."""
    specs = row.specs or ()
    left = tuple(spec for spec in specs if spec_name(spec) != TOOLKIT)
    if row.line.tool is not Tool.PIP or not left or left == specs:
        return row
    return replace(row, specs=left)


def _without_near_version(row: Row) -> Row:
    """The row with names alone, where it names versions that are near to what the line asks for."""
    if not row.is_near or row.specs is None:
        return row
    names = {spec: parse_spec(spec).name for spec in row.specs}
    specs = [spec if name == TOOLKIT else name for spec, name in names.items()]
    return replace(row, specs=tuple(dict.fromkeys(specs)))
