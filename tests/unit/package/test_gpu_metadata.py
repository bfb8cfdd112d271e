"""What is said of a package whose metadata allows GPUs for which it has no code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ctk.cli.gpu_code import show_subject
from ctk.core.console import Reporter
from ctk.package.gpu_fatbin import FileCode, GpuCode
from ctk.package.gpu_known import Known
from ctk.package.gpu_subject import Subject
from ctk.package.reader import index_of
from kit.packages import Draft

GPUS = ("5.0", "7.0", "8.0", "9.0", "10.0")
KNOWN = Known(GPUS, {"12.9": "8.8"}, {"12.9": GPUS})


def package(
    *targets: str, ranges: Sequence[str] = (), name: str = "one", bounds: Sequence[str] = ()
) -> Subject:
    """A package with machine code for architectures, which any GPU may install without `bounds`."""
    code = [GpuCode("cubin", f"{target}a", "", "", 9, 9) for target in targets]
    index = replace(index_of(Draft(name).index_json()), constrains=tuple(bounds))
    files = {"lib/one.so": FileCode(tuple(code))}
    return Subject(name, "package", files, index, "linux-64", tuple(ranges), known=KNOWN)


@pytest.mark.parametrize(
    ("targets", "gpus", "step"),
    [
        ((), "", ""),
        (("50", "70", "80", "90", "100"), "", ""),
        (
            ("80", "90", "100"),
            "5.0 to 7.0",
            "compile it for 5.0 to 7.0, too, or write cuda-arch 8.0.* in host",
        ),
        (
            ("50", "80"),
            "7.0, 9.0 to 10.0",
            "add PTX of 5.0 (nvcc -gencode arch=compute_50,code=compute_50), which drivers compile"
            " for newer GPUs, or compile it for 7.0, 9.0 to 10.0, too, or write __cuda_arch"
            " >=5.0,<7.0|>=8.0,<9.0 in run_constraints",
        ),
        (
            ("50", "90", "100"),
            "7.0 to 8.0",
            "add PTX of 5.0 (nvcc -gencode arch=compute_50,code=compute_50), which drivers compile"
            " for newer GPUs, or compile it for 7.0 to 8.0, too, or write __cuda_arch"
            " >=5.0,<7.0|>=9.0 in run_constraints",
        ),
    ],
)
def test_an_author_reads_which_gpus_lack_code_and_what_to_write(
    targets: Sequence[str], gpus: str, step: str
) -> None:
    mistake = package(*targets).mistake
    if not gpus:
        assert mistake is None
        return
    assert mistake
    assert mistake.cause == f"its metadata allows GPUs for which it has little or no code: {gpus}"
    assert mistake.step == step


@pytest.mark.parametrize("targets", [("50", "80"), ("50", "90", "100"), ("70",)])
def test_the_bound_that_an_author_is_told_to_write_corrects_the_metadata(
    targets: Sequence[str],
) -> None:
    mistake = package(*targets).mistake
    assert mistake
    (bound,) = re.findall(r"write (__cuda_arch \S+) in run_constraints", mistake.step)
    assert package(*targets, bounds=[bound]).mistake is None


def test_a_file_that_is_not_at_hand_counts_by_its_range() -> None:
    """`ctk lint --planned` knows of such a file only the GPUs that its code runs on."""
    mistake = package(ranges=(">=7.0", ">=5.0,<10")).mistake
    assert mistake
    assert mistake.cause.endswith("little or no code: 5.0, 10.0")
    assert package(ranges=(">=5.0",)).mistake is None


def test_a_package_that_may_lack_code_may_lack_it_in_files_that_are_not_at_hand() -> None:
    assert package(ranges=(">=7.0",), name="libcufile").mistake is None


@pytest.mark.parametrize(
    ("targets", "name", "line"),
    [
        (
            ("80", "90", "100"),
            "one",
            "WRONG: its metadata allows GPUs for which it has little or no code: 5.0 to 7.0",
        ),
        (
            ("80", "90", "100"),
            "libcufile",
            "its metadata also allows 5.0 to 7.0, intentionally: cuda-libraries brings it: a bound"
            " would refuse all libraries to a GPU that this one leaves out",
        ),
        (("50", "70", "80", "90", "100"), "one", "its metadata allows 5.0 to 10.0: correct"),
    ],
)
def test_gpu_code_says_whether_the_metadata_agrees(
    targets: Sequence[str], name: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_subject(package(*targets, name=name), Reporter())
    assert f"  {line}" in capsys.readouterr().out.splitlines()
