"""The GPUs and drivers that the code in files is for: of packages, wheels, environments, files.

A driver compiles PTX up to the ISA version of its own toolkit, and runs machine code of its CUDA
major.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ctk.core.disk import refuse_unreadable
from ctk.core.errors import AuditFailed, BadValue, UnknownName
from ctk.core.files import read_json, read_plain
from ctk.core.inside import outside
from ctk.core.mistake import Mistake
from ctk.core.platforms import PLATFORMS
from ctk.core.versions import version_key
from ctk.package import reader
from ctk.package.binaries import UnreadableBinary, read_binary
from ctk.package.gpu_fatbin import (
    FileCode,
    may_have_code,
    read_file,
    read_members,
    read_tree,
    read_wheel,
    together,
)
from ctk.package.gpu_known import Known
from ctk.package.gpu_metadata import FOR_SOME_GPUS, Comparison, allowed_gpus, mistake_of
from ctk.package.gpu_support import (
    How,
    Runs,
    best,
    one_for_each_cuda,
    one_for_each_gpu,
    present,
    runs,
    within,
    worst,
)
from ctk.package.reader import IndexJson, index_of


@dataclass(frozen=True)
class Subject:
    """A subject of `ctk gpu-code`: a package, a wheel, a library, or a package in an environment.

    Attributes:
        kind: ``package``, ``wheel`` or ``files``.
        files: Path inside -> its code; files without code are left out.
        index: The metadata of a package.
        ranges: The GPUs of each file whose code is not at hand, as specs for ``__cuda_arch``.
    """

    name: str
    kind: str
    files: Mapping[str, FileCode]
    index: IndexJson | None = None
    subdir: str = ""
    ranges: tuple[str, ...] = ()
    known: Known = field(repr=False, kw_only=True)

    @cached_property
    def by_file(self) -> dict[str, dict[str, Runs]]:
        """File -> GPU -> how its code runs."""
        gpus = present(self.known.gpus, self.subdir)
        return {path: found for path, file in self.files.items() if (found := runs(file, gpus))}

    @cached_property
    def loaded(self) -> list[dict[str, Runs]]:
        """GPU -> how it runs, of each file that is loaded; files for one GPU each count as one."""
        return [
            best(self.by_file[path] for path in paths) for paths in one_for_each_gpu(self.by_file)
        ]

    @cached_property
    def alternatives(self) -> tuple[Subject, ...]:
        """Its files for each CUDA version, if it has alternatives, of which a program loads one.

        Else empty.
        """
        sets = one_for_each_cuda({path: self.files[path] for path in self.by_file})
        return tuple(
            replace(self, name=n, files={p: self.files[p] for p in paths})
            for n, paths in sets.items()
        )

    @cached_property
    def runs(self) -> dict[str, Runs]:
        """GPU -> how all of it runs: like its worst file.

        Of alternatives, like the best of them.
        """
        return (
            best(each.runs for each in self.alternatives)
            if self.alternatives
            else worst(self.loaded)
        )

    def gpus(self, *hows: How) -> tuple[str, ...]:
        """The GPUs on which it runs in one of these ways."""
        return tuple(gpu for gpu, found in self.runs.items() if found.how in hows)

    @property
    def damaged(self) -> tuple[str, ...]:
        return tuple(path for path, file in self.files.items() if file.damaged)

    def driver(self, gpu: str) -> str:
        """The CUDA version of the oldest driver that runs it on a GPU.

        "" if its files do not show it.
        """
        if self.alternatives:
            enough = {
                each.driver(gpu)
                for each in self.alternatives
                if each.runs[gpu].how == self.runs[gpu].how
            }
            return min(enough - {""}, key=version_key, default="")
        isas = [found[gpu].isa for found in self.loaded if found[gpu].isa]
        stated = {self.known.driver_for(isa) for isa in isas} | {
            f"{major}.0" for major in self.majors
        }
        return max(stated - {""}, key=version_key, default="")

    @cached_property
    def majors(self) -> frozenset[str]:
        """The CUDA majors of the runtimes that its files contain or need.

        Else of the toolkits that wrote its PTX.
        Of several runtimes that a file can open the oldest is enough.
        """
        majors = set()
        for file in self.files.values():
            texts = file.needed or file.runtimes if file.cudart in ("", "?") else (file.cudart,)
            found = (re.search(r"(?:^|so\.|64_)(\d\d)", text) for text in texts)
            majors.add(min((match[1] for match in found if match), default=""))
        if majors := majors - {""}:
            return frozenset(majors)
        isas = {
            code.isa for file in self.files.values() for code in file.code if code.isa and code.size
        }
        return frozenset(self.known.driver_for(isa).partition(".")[0] for isa in isas) - {""}

    @cached_property
    def comparison(self) -> Comparison | None:
        """Its metadata compared with its code; None without metadata.

        `ctk gpu-code`, `ctk build-recipe` and `ctk publish` judge packages by it, and the check
        `CodeIsForItsGpus` of `ctk check`.
        """
        if self.index is None:
            return None
        allowed = allowed_gpus(self.index, self.subdir, self.known)
        without_code = tuple(gpu for gpu in allowed if self._lacks_code(gpu))
        return Comparison(allowed, without_code, FOR_SOME_GPUS.get(self.index.name, ""))

    def _lacks_code(self, gpu: str) -> bool:
        """Whether some file has no code for a GPU, or little."""
        found = self.runs.get(gpu)
        if found and found.how in ("none", "part"):
            return True
        return not all(within(gpu, spec) for spec in self.ranges)

    @property
    def mistake(self) -> Mistake | None:
        """What is wrong if its metadata allows GPUs without code, and how to correct it."""
        if self.comparison is None:
            return None
        known = present(self.known.gpus, self.subdir)
        return mistake_of(self.comparison, self.gpus("native", "jit"), known)

    def as_json(self) -> dict[str, Any]:
        compared = self.comparison
        return {
            "name": self.name,
            "kind": self.kind,
            "files": {
                path: {
                    "code": [
                        {
                            "kind": c.kind,
                            "target": str(c),
                            "isa": c.isa,
                            "packed": c.packed,
                            "objects": c.count,
                        }
                        for c in file.code
                    ],
                    "cudart": file.cudart or None,
                    "uses": list(file.uses),
                    "damaged": file.damaged,
                }
                for path, file in self.files.items()
            },
            "gpus": self._gpus_as_json(),
            "alternatives": [
                {"name": each.name, "files": list(each.files), "gpus": each._gpus_as_json()}
                for each in self.alternatives
            ],
            "promised": list(compared.allowed) if compared else None,
            "promised_in_vain": list(compared.wrongly_allowed) if compared else [],
        }

    def _gpus_as_json(self) -> dict[str, Any]:
        return {
            gpu: {"runs": found.how, "driver": self.driver(gpu) or None}
            for gpu, found in self.runs.items()
        }


# ---- reading


def subjects(path: Path, known: Known) -> Iterator[Subject]:
    """The subjects at a path: a package, a wheel, a file, or a folder.

    A folder is an environment, a channel or neither.

    Raises:
        BadValue: A file is none of these, such as a text.
        UnknownName: Nothing is there.
        AuditFailed: It cannot be read.
    """
    if path.is_dir():
        yield from _folder(path, known)
    elif not path.is_file():
        raise UnknownName(
            f"there is no {path}", "name a package, a wheel, a library, an environment or a channel"
        )
    elif path.suffix == ".conda":
        yield _package(path, known)
    elif path.suffix in (".whl", ".zip"):
        yield Subject(path.name, "wheel", read_wheel(path), subdir=_subdir(path.name), known=known)
    elif not may_have_code(path):
        kind = (
            "no library, program, wheel, .conda package or folder"
            if path.stat().st_size
            else "empty"
        )
        raise BadValue(
            f"{path} is {kind}",
            "name one of these, such as the folder to which an archive was unpacked",
        )
    else:
        yield Subject(
            path.name, "files", {path.name: read_file(path)}, subdir=_subdir_of([path]), known=known
        )


def _folder(path: Path, known: Known) -> Iterator[Subject]:
    records = sorted(path.glob("conda-meta/*.json"))
    # glob skips files that may not be read.
    refuse_unreadable(path, path / "conda-meta", *records)
    below = []
    if not records:
        refuse_unreadable(
            *(place for place in path.rglob("*") if place.is_dir() and not place.is_symlink())
        )
        below = [file for file in sorted(path.rglob("*")) if file.is_file()]
        records = [*path.glob("info/index.json")]  # of a package that is unpacked
    inside = [
        name
        for file in below
        if not (name := file.relative_to(path).as_posix()).startswith("info/")
    ]
    for record in records:
        content = read_json(record)
        try:
            index, names = (
                index_of(content),
                inside if below else [str(file) for file in content["files"]],
            )
        except (TypeError, KeyError, ValueError, AttributeError):
            raise AuditFailed(f"{record} is not a record of a package", "make it again") from None
        for name, why in outside(path, names).items():
            cause = f"{record} names {name!a}: {why}"
            raise AuditFailed(cause, "make the environment again in a new folder")
        yield Subject(
            index.identity, "package", read_tree(path, names), index, index.subdir, known=known
        )
    if records:
        return
    archives = [file for file in below if file.suffix in (".conda", ".whl")]
    for archive in archives:
        yield from subjects(archive, known)
    names = [file.relative_to(path).as_posix() for file in below if file not in archives]
    if (loose := read_tree(path, names)) or not archives:
        of_wheels = "".join(
            read_plain(file).decode("utf-8", "replace") for file in path.glob("*.dist-info/WHEEL")
        )
        binaries = (path / name for name in loose if not name.endswith("*.cubin"))
        subdir = _subdir(of_wheels) or _subdir_of(binaries)
        yield Subject(path.name, "files", loose, subdir=subdir, known=known)


def _subdir(tags: str) -> str:
    """The platform that a wheel's name or its ``WHEEL`` file states; "" for any."""
    return next(
        (subdir for subdir, platform in PLATFORMS.items() if re.search(platform.wheel_tag, tags)),
        "",
    )


def _subdir_of(files: Iterable[Path]) -> str:
    """A platform of the libraries and programs of loose files, if all of them are for x86-64.

    "" for any.
    """
    machines = set()
    for file in files:
        with suppress(UnreadableBinary):
            machines |= {binary.machine} if (binary := read_binary(file)) else set()
    return "linux-64" if machines - {"cuda"} == {"x86_64"} else ""


def _package(path: Path, known: Known) -> Subject:
    index = reader.read_info(path).index
    with reader.readable(path):
        files = together(dict(read_members((m.path, s) for m, s in reader.members(path, "pkg"))))
    return Subject(path.name, "package", files, index, index.subdir, known=known)
