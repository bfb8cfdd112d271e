"""`ctk gpu-code`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctk.core.checkout import workspace
from ctk.core.console import Reporter, count, listing
from ctk.core.errors import AuditFailed

if TYPE_CHECKING:
    from ctk.package.gpu_fatbin import FileCode, GpuCode
    from ctk.package.gpu_subject import Subject


Paths = Annotated[
    list[Path],
    typer.Argument(
        help="Packages, wheels, libraries, environments, channels, or folders of files."
    ),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain", help="For each GPU, what each file has; and how many objects of each target."
    ),
]
MustAgree = Annotated[
    bool,
    typer.Option("--strict", help="Fail if metadata allows a GPU for which there is no code."),
]


def gpu_code_command(paths: Paths, explain: Explain = False, check: MustAgree = False) -> None:
    """Show which GPUs and drivers the code in binaries is for, and whether their metadata agrees.

    For each binary, it shows machine code, PTX, and the parts of CUDA that the binary uses.

    Example: ctk gpu-code ./cudnn.whl

    JSON:
    - `subjects`: `name`, `kind` (`package`, `wheel` or `files`)
      - `files`: path -> `code` (`kind`: `cubin`, `ptx`, `lto` or `stub`, which has no kernel;
        `target`, `isa`, `packed`, `objects`), `cudart`, `uses`, `damaged` (how many fat binaries)
      - `gpus`: compute capability -> `runs` (`native`, `jit`, `part` or `none`), `driver` (the
        oldest CUDA version that is enough)
      - `alternatives`: sets of files of which a program loads one: `name`, `files` (paths), `gpus`
        as above; then the `gpus` above are those of the best of them for each GPU
      - `promised`: the GPUs that its metadata allows; `promised_in_vain`: those of them for which
        it has no code
    """
    # Late: reading binaries is slow to import, and help does without.
    from ctk.lock.facts import known as known_gpu_code
    from ctk.lock.model import release_locks
    from ctk.package.gpu_subject import subjects

    report, start = Reporter(), time.monotonic()
    known = known_gpu_code(release_locks(workspace()).values())
    found: list[Subject] = []
    for path in paths:
        shown = len(found)
        for subject in subjects(path, known):
            if subject.files or path.is_file():
                found.append(subject)
                show_subject(subject, report, explain)
        if len(found) == shown:
            report.line(str(path), "bold")
            report.line(f"  {_NO_CODE}")
    report.result(subjects=[subject.as_json() for subject in found])
    coded = sum(any(map(_has_code, subject.files.values())) for subject in found)
    report.say(f"{count(coded, 'subject')} with code for GPUs, {time.monotonic() - start:.1f} s")
    wrong = [(subject.name, subject.mistake.step) for subject in found if subject.mistake]
    if check and wrong:
        names = ", ".join(name for name, _ in wrong[:5])
        raise AuditFailed(
            f"{count(len(wrong), 'package')} can be installed for GPUs without code: {names}",
            "; ".join(dict.fromkeys(step for _, step in wrong)),
        )


def _has_code(file: FileCode) -> bool:
    return any(code.kind != "stub" for code in file.code) or bool(file.damaged)


def _targets(file: FileCode, *kinds: str) -> str:
    codes = [code for code in file.code if code.kind in kinds]
    by_number = sorted(codes, key=lambda code: (int(code.target.rstrip("af")), code.target))
    texts = [f"{code.target} ({code.isa})" if code.isa else code.target for code in by_number]
    return " ".join(dict.fromkeys(texts))


def show_subject(subject: Subject, report: Reporter, explain: bool = False) -> None:
    """Prints for which GPUs and drivers a subject has code, and whether its metadata agrees."""
    report.line(subject.name, "bold")
    names = _names(subject.files)
    rows = [
        (
            names[path],
            _targets(file, "cubin"),
            _targets(file, "ptx"),
            _targets(file, "lto"),
            _runtime(file),
            " ".join(sorted({code.packed for code in file.code} - {""})),
        )
        for path, file in subject.files.items()
        if _has_code(file)
    ]
    if not rows:
        report.line(f"  {_NO_CODE}")
        return
    if subject.alternatives:
        report.line("  it has alternatives, of which a program loads one:")
    for each in subject.alternatives:
        report.line(f"  {_alternative(each)}")
        for line in _verdict(each):
            report.line(f"    {line}")
    lines = [] if subject.alternatives else list(_verdict(subject))
    for line in (*lines, *_metadata(subject)):
        report.line(f"  {line}")
    for path in subject.damaged:
        report.line(f"  {path} has damaged fat binaries, which are not counted")
    report.table("code for", ["file", "sm", "PTX (ISA)", "LTO-IR", "CUDA runtime", "packed"], rows)
    if explain:
        _explain(subject, report)


def _runtime(file: FileCode) -> str:
    """The CUDA runtime of a file: the version inside it, else the libraries that it loads."""
    if file.cudart == "?":
        return "inside"
    if file.cudart:
        return f"{file.cudart} inside"
    return " ".join(name for name in file.uses if "cudart" in name.lower())


def _alternative(subject: Subject) -> str:
    """``a_cuda128.so, with libcudart.so.12``."""
    names = listing([*_names(subject.files).values()], most=_NAMED)
    runtimes = sorted({file.runtime for file in subject.files.values()} - {""})
    return f"{names}, with {listing(runtimes)}:" if runtimes else f"{names}:"


def _words(subject: Subject, gpus: Iterable[str]) -> str:
    from ctk.package.gpu_support import present, spans

    return spans(gpus, present(subject.known.gpus, subject.subdir))


def _verdict(subject: Subject) -> Iterable[str]:
    """The GPUs that the code is for, and the drivers."""
    native = subject.gpus("native")
    if native:
        drivers = {subject.driver(gpu) for gpu in native} - {""}
        since = ""
        if drivers:
            since = f", with a driver for CUDA {min(drivers)} or newer that knows the GPU"
        lack_some = any(_files(subject, gpu) for gpu in subject.gpus("part", "none"))
        code = "machine code in every file" if lack_some else "machine code"
        yield f"{code} for {_words(subject, native)}{since}"
    by_driver: dict[str, list[str]] = {}
    for gpu in subject.gpus("jit"):
        by_driver.setdefault(subject.driver(gpu), []).append(gpu)
    for driver, gpus in sorted(by_driver.items()):
        yield (
            f"PTX that a driver for {driver or 'a newer CUDA than any known'} compiles:"
            f" {_words(subject, gpus)}"
        )
    for how, text in (("part", "little code"), ("none", "no code")):
        lacking: dict[str, list[str]] = {}
        for gpu in (gpu for gpu, found in subject.runs.items() if found.how == how):
            lacking.setdefault(_files(subject, gpu), []).append(gpu)
        for files, gpus in lacking.items():
            place = f", in {files}" if files else ""
            yield f"{text} for {_words(subject, gpus)}{place}"


def _metadata(subject: Subject) -> Iterable[str]:
    """Whether the metadata agrees with the code."""
    compared = subject.comparison
    if compared is None:
        if subject.kind == "wheel":
            yield "a wheel's metadata does not say for which GPUs it is"
    elif subject.mistake:
        yield f"WRONG: {subject.mistake.cause}"
    elif compared.without_code:
        lacking = _words(subject, compared.without_code)
        yield f"its metadata also allows {lacking}, intentionally: {compared.exemption}"
    elif subject.runs:
        yield f"its metadata allows {_words(subject, compared.allowed)}: correct"
        runs = {*subject.gpus("native", "jit")}
        kept = sorted(runs.difference(compared.allowed), key=subject.known.gpus.index)
        if kept:
            yield (
                f"it would also run on {_words(subject, kept)}, which its metadata or its"
                " toolkit's does not allow"
            )


def _explain(subject: Subject, report: Reporter) -> None:
    codes: dict[str, list[GpuCode]] = {
        path: list(file.code) for path, file in subject.files.items() if file.code
    }
    names = _names(subject.files)
    rows = [
        (names[path], str(code), code.kind, code.isa, code.packed, code.count, code.size)
        for path, listed in codes.items()
        for code in listed
    ]
    columns = ["file", "target", "kind", "ISA", "packed", "objects", "bytes"]
    report.table("objects; a stub has no kernel", columns, rows, ["objects", "bytes"])
    for gpu, found in subject.runs.items():
        report.line(f"  {gpu}: {_HOW[found.how]}: {_files(subject, gpu) or 'every file'}")
    if uses := sorted({name for file in subject.files.values() for name in file.uses}):
        report.line(f"  it names {', '.join(uses)}")


def _names(paths: Collection[str]) -> dict[str, str]:
    """Path -> its last name; with the folder if another path has the same name."""
    same = Counter(path.rpartition("/")[2] for path in paths)
    names = {}
    for path in paths:
        *folders, name = path.split("/")
        names[path] = name if same[name] == 1 else "/".join([*folders[-1:], name])
    return names


def _files(subject: Subject, gpu: str) -> str:
    """The files that decide how the subject runs on a GPU; "" if all files run alike."""
    names = _names(subject.by_file)
    named = [
        names[path]
        for path, each in subject.by_file.items()
        if each[gpu].how == subject.runs[gpu].how
    ]
    several = len(subject.by_file)
    if len(named) == several:
        return ""
    rest = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"{', '.join(named[:_NAMED])}{rest} (of {several} files)"


_NO_CODE = "no code for GPUs"
_NAMED = 3  # files that a line names
_HOW = {
    "native": "machine code",
    "jit": "PTX for the driver",
    "part": "little code",
    "none": "no code",
}
