"""Code for GPUs in binaries: how it is read, the GPUs that run it, and the comparison with
metadata.
"""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rattler import MatchSpec, PackageRecord
from rattler.package import BuildString

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.package.gpu_fatbin import FileCode, GpuCode, read, read_file
from ctk.package.gpu_known import Known
from ctk.package.gpu_metadata import FOR_SOME_GPUS, Comparison
from ctk.package.gpu_subject import Subject
from ctk.package.gpu_support import bound, common, present, runs, runs_on, spans
from ctk.package.reader import index_of
from kit.binaries import code, elf, fatbin, together
from kit.packages import Draft, wheel

GPUS = (
    "5.0",
    "6.0",
    "7.0",
    "7.2",
    "7.5",
    "8.0",
    "8.6",
    "9.0",
    "10.0",
    "10.3",
    "11.0",
    "12.0",
    "12.1",
)
ISA = {"12.0": "8.0", "12.9": "8.8", "13.0": "9.0", "13.5": "9.5"}
KNOWN = Known(GPUS, ISA, {"12.9": GPUS[:10] + GPUS[11:], "13.0": GPUS[4:]})


def library(*entries: bytes, more: bytes = b"") -> bytes:
    return elf(soname="liba.so.1", payload=b"".join(map(fatbin, entries)) + more)


def targets(content: bytes) -> list[str]:
    return [f"{c.count} {c.kind} {c} {c.isa} {c.packed}".strip() for c in read(content).code]


# ---- reading


def test_each_kind_of_code_is_read_with_its_target_and_compression() -> None:
    content = library(
        code("cubin", "75"),
        code("cubin", "90a", zstd=False),
        code("cubin", "90a", zstd=False) + code("ptx", "120f", "8.8"),
        code("lto", "75"),
        together("100", "120f"),
    )
    assert targets(content) == [
        "1 cubin sm_100  zstd",
        "1 cubin sm_120f  zstd",
        "1 cubin sm_75  zstd",
        "2 cubin sm_90a  lz4",
        "1 lto lto_75  zstd",
        "1 ptx compute_120f 8.8 zstd",
    ]


@pytest.mark.parametrize(
    ("kind", "target", "plain", "is_stub"),
    [
        ("cubin", "75", 1596, True),
        ("cubin", "75", 2312, False),
        ("cubin", "100", 2284, True),
        ("cubin", "100", 4842, False),
        ("ptx", "75", 56, True),
        ("ptx", "75", 93, False),
    ],
)
def test_objects_without_a_kernel_do_not_count(
    kind: str, target: str, plain: int, is_stub: bool
) -> None:
    """nvcc makes an object for every target of every source file."""
    found = read(library(code(kind, target, size=40, plain=plain)))
    assert [c.kind == "stub" for c in found.code] == [is_stub]
    assert (runs(found, GPUS) == {}) is is_stub


def test_code_outside_fat_binaries_is_found_and_text_of_ptx_does_not_count() -> None:
    cubin = bytearray(elf(machine="cuda"))
    cubin[7:9] = b"\x41\x08"
    struct.pack_into("<I", cubin, 48, 0x06005A04)
    text = b"//\n.version 8.4\n.target sm_80, debug\n.address_size 64\n"
    found = read(library(code("cubin", "75"), more=bytes(cubin) + b"\0" * 40 + text))
    assert [str(c) for c in found.code] == ["sm_75", "sm_90", "compute_80"]
    assert runs(found, GPUS)["8.0"].how == "none"
    assert runs(found, GPUS)["9.0"].how == "native"


@pytest.mark.parametrize(
    ("text", "cudart"),
    [
        (b"", ""),
        (b"\xc7\x00\xfa\x32\0\0" * 2, "13.0"),  # movl $13050, (%rax) is 13.5
        (b"\xc7\x00\xc8\x32\0\0" * 2 + b"\xc7\x45\xfc\x38\x31\0\0", "13.0"),
        (b"\xc7\x00\xc8\x32\0\0" * 2 + b"\xc7\x00\x3a\x2f\0\0" * 2, "?"),
    ],
)
def test_a_runtime_inside_says_its_version_where_it_stores_one_number_twice(
    text: bytes, cudart: str
) -> None:
    message = b"\0startup failure in cuda runtime\0" if text else b""
    expected = "13.5" if b"\xfa\x32" in text else cudart
    assert read(elf(payload=message + text)).cudart == expected


def test_names_of_nvidia_s_libraries_are_found() -> None:
    content = elf(
        ("libcudart.so.13", "libc.so.6"), payload=b"\0libnvrtc.so.13\0libcuda.so.1\0libcudaxyz\0"
    )
    assert read(content).uses == ("libcuda.so.1", "libcudart.so.13", "libnvrtc.so.13")
    assert read(b"MZ\0cudart64_13.dll\0nvcuda.dll").uses == ("cudart64_13.dll", "nvcuda.dll")


def test_a_fat_binary_whose_entries_do_not_fit_is_damaged() -> None:
    entry = bytearray(code("cubin", "75"))
    struct.pack_into("<Q", entry, 8, 1 << 40)
    found = read(library(code("cubin", "80"), bytes(entry)))
    assert (found.damaged, [str(c) for c in found.code]) == (1, ["sm_80"])


# ---- the rules


@pytest.mark.parametrize(
    ("kind", "target", "expected"),
    [
        ("cubin", "75", "7.5"),
        ("cubin", "80", "8.0 8.6"),
        ("cubin", "86", "8.6"),
        ("cubin", "90a", "9.0"),
        ("cubin", "100f", "10.0 10.3"),
        ("cubin", "103f", "10.3"),
        ("cubin", "101f", ""),
        ("ptx", "75", "7.5 8.0 8.6 9.0 10.0 10.3 11.0 12.0 12.1"),
        ("ptx", "90a", "9.0"),
        ("ptx", "120f", "12.0 12.1"),
    ],
)
def test_a_target_runs_on_the_gpus_of_the_programming_guide(
    kind: Any, target: str, expected: str
) -> None:
    """As the CUDA Programming Guide has it (5.1, compute capabilities)."""
    assert " ".join(gpu for gpu in GPUS if runs_on(GpuCode(kind, target), gpu)) == expected
    assert runs_on(GpuCode(kind, target), "10.1") == (
        target == "101f" or (kind, target) == ("ptx", "75")
    )


def file_of(**counts: int) -> FileCode:
    """``c75=64`` is 64 cubins for 7.5, ``p100=82`` as many of PTX."""
    kinds = {"c": "cubin", "p": "ptx"}
    return FileCode(
        tuple(
            GpuCode(kinds[name[0]], name[1:], "8.8" if name[0] == "p" else "", "", count, 100)  # type: ignore[arg-type]
            for name, count in counts.items()
        )
    )


def hows(file: FileCode) -> dict[str, str]:
    found = runs(file, GPUS)
    return {
        how: spans([g for g in GPUS if found[g].how == how], GPUS)
        for how in ("native", "jit", "part", "none")
    }


def test_much_less_than_usual_is_a_part_as_in_libraries_that_were_measured() -> None:
    cublaslt = file_of(
        c50=64, c60=65, c70=76, c75=121, c80=321, c90=1436, c100=509, c120=1231, p52=1
    )
    assert hows(cublaslt)["native"] == "5.0 to 10.3, 12.0 to 12.1"
    assert hows(cublaslt)["part"] == "11.0"
    cutensor = file_of(c75=99, c80=141, c90=150, c100f=184, c120f=141, p50=1, p75=23, p100=78)
    assert hows(cutensor) == {
        "native": "7.5 to 10.3, 12.0 to 12.1",
        "jit": "11.0",
        "part": "5.0 to 7.2",
        "none": "",
    }
    cusolver = file_of(c75=173, c80=176, c90=177, c100=176, c120=176, p75=21)
    assert hows(cusolver)["part"] == "11.0"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([file_of(c75=9, c80=9, c90a=9, c100f=9, c120f=9)], ">=7.5,<11.0|>=12.0,<13"),
        ([file_of(c75=9, c80=9, c90=9, p90=9)], ">=7.5"),
        ([file_of(c75=9, c80=9, c90=9, c100=9, c110=9, c120=9)], ">=7.5,<13"),
        ([file_of(c100=9, c120=9)], ">=10.0,<11.0|>=12.0,<13"),
        ([file_of(c75=9), file_of(c80=9)], "<0"),
        ([FileCode()], ""),
        ([], ""),
    ],
)
def test_the_bound_in_metadata(files: list[FileCode], expected: str) -> None:
    assert bound(files, GPUS) == expected


@given(st.lists(st.sampled_from(GPUS), unique=True), st.lists(st.sampled_from(GPUS), unique=True))
def test_common_bounds_match_the_gpus_that_both_match(one: list[str], other: list[str]) -> None:
    """Asked of the solver's own reading of them."""

    def admits(spec: str, gpu: str) -> bool:
        record = PackageRecord("__cuda_arch", gpu, BuildString("0"), 0, "noarch")
        return MatchSpec(f"__cuda_arch {spec}").matches(record)

    first, second = (
        bound(
            [
                FileCode(
                    tuple(
                        GpuCode("cubin", f"{g.replace('.', '')}a", "", "", 9, 9)
                        for g in sorted(gpus)
                    )
                )
            ],
            GPUS,
        )
        for gpus in (one, other)
    )
    if first and second:
        both = common([first, second])
        for gpu in GPUS:
            assert admits(both, gpu) == (admits(first, gpu) and admits(second, gpu))
            assert admits(first, gpu) == (gpu in one)


def test_gpus_of_arm_boards_are_in_no_other_machine() -> None:
    assert present(GPUS, "linux-64") == tuple(g for g in GPUS if g not in ("7.2", "11.0"))
    assert present(GPUS, "linux-aarch64") == present(GPUS, "") == GPUS


def hows_of(found: Subject) -> dict[str, str]:
    return {how: spans(found.gpus(how), GPUS) for how in ("native", "jit", "none")}  # type: ignore[arg-type]


def subject(
    *files: FileCode,
    depends: tuple[str, ...] = (),
    constrains: tuple[str, ...] = (),
    name: str = "a",
) -> Subject:
    index = Draft(name, depends=depends, index={"constrains": constrains})
    named = {f"lib/{number}.so": file for number, file in enumerate(files)}
    return Subject("a", "package", named, index_of(index.index_json()), "linux-64", known=KNOWN)


def comparison(found: Subject) -> Comparison:
    assert found.comparison
    return found.comparison


@pytest.mark.parametrize(
    ("depends", "constrains", "in_vain"),
    [
        ((), (), "5.0 6.0 7.0"),
        (("cuda-version >=12,<13.0a0",), (), "5.0 6.0 7.0"),
        (("cuda-version >=13.0,<13.1.0a0",), (), ""),
        (("cuda-version >=12.9,<12.10.0a0 native_*",), ("__cuda_arch >=7.0",), "7.0"),
        (("cuda-version >=12,<13.0a0",), ("__cuda_arch >=7.5,<13",), ""),
        (("cuda-version >=12,<13.0a0",), ("__cuda_arch >=6.0",), "6.0 7.0"),
        (("cuda-arch >=7.0",), (), "7.0"),
        (("cuda-arch 7.5.*",), (), ""),
        ((), ("cuda-arch >=7.5",), "5.0 6.0 7.0"),
    ],
)
def test_metadata_that_allows_gpus_without_code_is_found(
    depends: tuple[str, ...], constrains: tuple[str, ...], in_vain: str
) -> None:
    found = subject(
        file_of(c75=9, c80=9, c90=9, c100=9, c120=9), depends=depends, constrains=constrains
    )
    assert " ".join(comparison(found).wrongly_allowed) == in_vain


def test_a_package_that_lacks_code_on_purpose_says_why() -> None:
    lacking = file_of(c75=9, c80=9, c90=9, c100=9, c120=9)
    (name, why), *_ = FOR_SOME_GPUS.items()
    of_that_name = subject(lacking, depends=("cuda-version >=12,<13.0a0",), name=name)
    compared = comparison(of_that_name)
    assert (compared.without_code, compared.wrongly_allowed) == (("5.0", "6.0", "7.0"), ())
    assert compared.exemption == why
    assert of_that_name.mistake is None


# ---- alternatives


def needing(runtime: str, **counts: int) -> FileCode:
    return replace(file_of(**counts), uses=("libcuda.so.1", runtime))


def of_wheel(files: dict[str, FileCode]) -> Subject:
    return Subject("a.whl", "wheel", files, subdir="linux-64", known=KNOWN)


def verdicts(found: Subject) -> dict[str, str]:
    """Alternative -> the GPUs on which it runs."""
    return {each.name: spans(each.gpus("native", "jit"), GPUS) for each in found.alternatives}


TO_90 = {"c60": 9, "c70": 9, "c75": 9, "c80": 9, "c90": 9}
FROM_75 = {"c75": 9, "c80": 9, "c90": 9, "c100": 9, "c120": 9}


def test_a_library_for_each_cuda_version_is_an_alternative_as_in_bitsandbytes() -> None:
    """Its wheel of 0.50.2 has such files.

    It loads the one that is for the CUDA version of its torch.
    """
    found = of_wheel(
        {
            "b/libb_cuda118.so": needing("libcudart.so.11.0", **TO_90),
            "b/libb_cuda126.so": needing("libcudart.so.12", **TO_90),
            "b/libb_cuda128.so": needing("libcudart.so.12", **FROM_75, c70=9),
            "b/libb_cuda130.so": needing("libcudart.so.13", **FROM_75),
        }
    )
    assert verdicts(found) == {
        "cuda118": "6.0 to 7.0, 7.5 to 9.0",
        "cuda126": "6.0 to 7.0, 7.5 to 9.0",
        "cuda128": "7.0, 7.5 to 10.3, 12.0 to 12.1",
        "cuda130": "7.5 to 10.3, 12.0 to 12.1",
    }
    assert [each.driver("8.0") for each in found.alternatives] == ["11.0", "12.0", "12.0", "13.0"]
    best = {gpu: (found.runs[gpu].how, found.driver(gpu)) for gpu in ("5.0", "6.0", "7.0", "10.0")}
    assert best["5.0"][0] == "none"
    assert (best["6.0"], best["7.0"], best["10.0"]) == (
        ("native", "11.0"),
        ("native", "11.0"),
        ("native", "12.0"),
    )
    metadata = index_of(Draft("b", index={"constrains": ["__cuda_arch >=5.0"]}).index_json())
    assert comparison(replace(found, index=metadata)).wrongly_allowed == ("5.0",)


def test_libraries_that_need_different_runtimes_are_alternatives_and_share_what_needs_none() -> (
    None
):
    files = {
        "a/old.so": needing("libcudart.so.12", **TO_90),
        "a/new.so": needing("libcudart.so.13", **FROM_75),
        "a/both.so": file_of(c70=9, c75=9, c80=9, c90=9, c100=9, c120=9),
    }
    found = of_wheel(files)
    assert {each.name: list(each.files) for each in found.alternatives} == {
        "libcudart.so.12": ["a/old.so", "a/both.so"],
        "libcudart.so.13": ["a/new.so", "a/both.so"],
    }
    assert verdicts(found) == {
        "libcudart.so.12": "7.0, 7.5 to 9.0",
        "libcudart.so.13": "7.5 to 10.3, 12.0 to 12.1",
    }


@pytest.mark.parametrize(
    "files",
    [
        {"cu12/liba.so": file_of(**TO_90), "cu12/libb.so": file_of(**FROM_75)},
        {
            "a_1.so": needing("libcudart.so.12", **TO_90),
            "a_2.so": needing("libcudart.so.12", **FROM_75),
        },
        # It opens the runtime that it finds.
        {
            "a.so": replace(file_of(**TO_90), uses=("libcudart.so.12", "libcudart.so.13")),
            "b.so": file_of(**FROM_75),
        },
        # A runtime that is linked in does not exclude another.
        {
            "a.so": replace(file_of(**TO_90), cudart="12.9"),
            "b.so": needing("libcudart.so.13", **FROM_75),
        },
        {"a.so": file_of(**TO_90)},
        {},
    ],
)
def test_files_that_a_program_loads_together_are_no_alternatives(
    files: dict[str, FileCode],
) -> None:
    assert of_wheel(files).alternatives == ()


def test_of_a_library_for_each_gpu_the_best_counts_as_in_sgl_kernel() -> None:
    """Its wheel of 0.3.21 has such folders; it loads the one for its GPU."""
    found = of_wheel(
        {
            "s/sm90/ops.so": file_of(c90=9),
            "s/sm100/ops.so": file_of(c80=9, c100=9),
            "s/a.so": file_of(p75=9),
        }
    )
    assert hows_of(found) == {
        "native": "",
        "jit": "8.0 to 10.3",
        "none": "5.0 to 7.0, 7.5, 12.0 to 12.1",
    }


def test_loose_cubins_of_a_folder_count_together(project: Workspace, tmp_path: Path) -> None:
    """A wheel of flashinfer-cubin has 15,970, each a kernel for one GPU."""
    for number, target in enumerate((80, 80, 90)):
        cubin = bytearray(elf(machine="cuda", payload=bytes(512)))
        cubin[7:9] = b"\x41\x08"
        struct.pack_into("<I", cubin, 48, 0x06000004 | target << 8)
        (tmp_path / f"{number}.cubin").write_bytes(cubin)
    (only,) = gpu_code(project, tmp_path)["subjects"]
    assert {
        p: {c["target"]: c["objects"] for c in file["code"]} for p, file in only["files"].items()
    } == {"*.cubin": {"sm_80": 2, "sm_90": 1}}
    assert only["gpus"]["9.0"]["runs"] == only["gpus"]["8.6"]["runs"] == "native"


def test_a_file_of_ptx_counts_unlike_ptx_as_text_in_a_library(
    project: Workspace, tmp_path: Path
) -> None:
    (file := tmp_path / "kernel.ptx").write_text(
        "// from nvcc\n.version 8.4\n.target sm_80\n.address_size 64\n"
    )
    for place in (file, tmp_path):
        (only,) = gpu_code(project, place)["subjects"]
        assert (
            only["gpus"]["8.0"] == {"runs": "jit", "driver": "12.4"}
            and only["gpus"]["7.5"]["runs"] == "none"
        )


def test_an_archive_says_the_same_as_the_folder_to_which_it_was_unpacked(
    project: Workspace, tmp_path: Path
) -> None:
    """Before, files of PTX counted in folders only, and an unpacked package had no metadata."""
    text = b".version 8.4\n.target sm_90\n.address_size 64\n"
    libraries = {"s/lib/liba.so": library(code("cubin", "80"), code("ptx", "80", "8.8"))}
    files = libraries | {"s/b/kernel.ptx": text, "s/tests/a.ptx": text, "s/a.txt": text}
    package = Draft("p", files=files, depends=("cuda-version >=12,<13.0a0",))
    metadata = {
        "info/index.json": json.dumps(package.index_json()).encode(),
        "info/recipe/b.ptx": text,
    }
    tag = "py3-none-manylinux_2_17_x86_64"  # so no Jetson has it
    of_wheel = files | {"s-1.dist-info/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n".encode()}
    for folder, content in (("wheel", of_wheel), ("package", files | metadata)):
        for name, inside in content.items():
            (file := tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(inside)

    def said(path: Path) -> tuple[Any, list[str]]:
        (only,) = gpu_code(project, path)["subjects"]
        lines = ctk(project, "gpu-code", str(path), check=True).stdout.splitlines()[1:]
        return {**only, "name": "", "kind": ""}, [
            line for line in lines if "a wheel's metadata" not in line
        ]

    in_wheel, in_package = (
        said(wheel(tmp_path / f"s-1-{tag}.whl", of_wheel)),
        said(package.write(tmp_path / "channel")),
    )
    assert (said(tmp_path / "wheel"), said(tmp_path / "package")) == (in_wheel, in_package)
    assert [*in_wheel[0]["files"]] == ["s/b/kernel.ptx", "s/lib/liba.so"]
    assert [in_wheel[0]["gpus"][gpu]["runs"] for gpu in ("8.6", "9.0")] == ["none", "jit"]
    assert "8.6" in in_package[0]["promised_in_vain"]


def test_without_a_visible_runtime_the_toolkit_of_the_ptx_says_the_driver_s_major() -> None:
    """As in the wheels of XGBoost, JAX and CatBoost: the last one's PTX is of ISA 7.8, so of CUDA
    11.8.
    """

    def drivers(isa: str) -> list[str]:
        file = FileCode((GpuCode("cubin", "80", "", "", 9, 9), GpuCode("ptx", "90", isa, "", 9, 9)))
        return [of_wheel({"a.so": file}).driver(gpu) for gpu in ("8.0", "9.0")]

    assert drivers("8.8") == ["12.0", "12.9"]
    assert drivers("9.5") == ["13.0", "13.5"]
    assert drivers("7.8") == ["11.0", "11.8"]


def test_of_several_runtimes_that_a_file_can_open_the_oldest_is_enough() -> None:
    """As in libtransformer_engine.so 2.20.2 for CUDA 12, which names libcudart.so.12 and
    libcudart.so.13.
    """
    opens = replace(file_of(c80=9), uses=("libcudart.so.12", "libcudart.so.13"))
    assert of_wheel({"a.so": opens}).driver("8.0") == "12.0"
    assert (
        of_wheel({"a.so": opens, "b.so": needing("libcudart.so.13", c80=9)}).driver("8.0") == "13.0"
    )
    assert of_wheel({"a.so": replace(opens, cudart="13.1")}).driver("8.0") == "13.0"


def test_of_several_runtimes_that_a_file_names_the_one_in_its_headers_counts(
    tmp_path: Path,
) -> None:
    """As in onnxruntime-gpu 1.31.1, which needs libcudart.so.13 and has the other names in
    a text.
    """
    (tmp_path / "a.so").write_bytes(
        elf(
            ("libcudart.so.13",),
            payload=b"libcudart.so libcudart.so.12" + fatbin(code("cubin", "80")),
        )
    )
    found = read_file(tmp_path / "a.so")
    assert found.uses == ("libcudart.so", "libcudart.so.12", "libcudart.so.13")
    assert (found.runtime, of_wheel({"a.so": found}).driver("8.0")) == ("libcudart.so.13", "13.0")


# ---- the command


def conda_package(folder: Path, name: str = "liba", **more: Any) -> Path:
    files = {
        "lib/liba.so.1": library(code("cubin", "75"), code("cubin", "80"), code("ptx", "80", "8.8"))
    }
    return Draft(name, files=files, **more).write(folder)


def gpu_code(project: Workspace, *words: str | Path, code: int = 0) -> Any:
    done = ctk(project, "--json", "gpu-code", *map(str, words))
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_a_package_a_wheel_a_folder_and_an_environment(project: Workspace, tmp_path: Path) -> None:
    package = conda_package(tmp_path / "channel", index={"constrains": ["__cuda_arch >=7.5"]})
    content = library(code("cubin", "75"), code("cubin", "80"), code("ptx", "80", "8.8"))
    own = wheel(tmp_path / "a-1-py3-none-manylinux_2_17_x86_64.whl", {"a/lib/liba.so.1": content})
    folder = tmp_path / "env"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib/liba.so.1").write_bytes(content)
    (folder / "conda-meta").mkdir()
    record = {**Draft("liba").index_json(), "files": ["lib/liba.so.1", "lib/gone.so"]}
    (folder / "conda-meta/liba.json").write_text(json.dumps(record))

    def natives(path: Path) -> list[str]:
        (only,) = gpu_code(project, path)["subjects"]
        return [gpu for gpu, found in only["gpus"].items() if found["runs"] == "native"]

    on_linux_64 = ["7.5", "8.0", "8.6", "8.8", "8.9"]
    assert natives(package) == natives(package.parent.parent) == natives(own) == on_linux_64
    assert natives(folder) == on_linux_64
    assert natives(folder / "lib/liba.so.1") == natives(folder / "lib") == on_linux_64
    on_arm = elf(machine="aarch64", payload=fatbin(code("cubin", "75"), code("cubin", "80")))
    (folder / "lib/libarm.so").write_bytes(on_arm)
    assert (
        natives(folder / "lib/libarm.so")
        == natives(folder / "lib")
        == [*on_linux_64[:3], "8.7", *on_linux_64[3:]]
    )


def test_wheels_and_packages_are_found_at_any_depth_of_a_folder_beside_loose_files(
    project: Workspace, tmp_path: Path
) -> None:
    """Before, a folder of wheels had no code, and neither had the folder of all
    recipes' channels.
    """
    content = library(code("cubin", "75"))
    conda_package(tmp_path / "recipes" / "one")
    wheel(tmp_path / "a-1-py3-none-manylinux_2_17_x86_64.whl", {"a/lib/liba.so.1": content})
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "libb.so").write_bytes(content)
    assert [s["kind"] for s in gpu_code(project, tmp_path)["subjects"]] == [
        "wheel",
        "package",
        "files",
    ]


def test_check_fails_for_a_wrong_bound_and_not_for_a_right_one(
    project: Workspace, tmp_path: Path
) -> None:
    """Metadata as conda-forge's packages have it: of a CUDA major, without a word about GPUs."""
    depends = ("cuda-version >=12,<13.0a0",)
    wrong = conda_package(tmp_path / "one", depends=depends)
    right = conda_package(
        tmp_path / "two", depends=depends, index={"constrains": ["__cuda_arch >=7.5"]}
    )
    assert gpu_code(project, wrong)["subjects"][0]["promised_in_vain"] == [
        "5.0",
        "5.2",
        "6.0",
        "6.1",
        "7.0",
    ]
    error = gpu_code(project, "--strict", wrong, code=9)["error"]
    assert (
        "can be installed for GPUs without code" in error["cause"]
        and "write cuda-arch 7.5.* in host" in error["next"]
    )
    assert gpu_code(project, "--strict", right)["subjects"][0]["promised_in_vain"] == []


def test_explain_names_the_file_that_limits_a_gpu(project: Workspace, tmp_path: Path) -> None:
    files = {
        "lib/libmany.so": library(code("cubin", "50"), code("cubin", "75")),
        "lib/libfew.so": library(code("cubin", "75")),
    }
    package = Draft("both", files=files).write(tmp_path)
    lines = [
        line.strip()
        for line in ctk(
            project, "gpu-code", "--explain", str(package), check=True
        ).stdout.splitlines()
    ]
    assert "5.0: no code: libfew.so (of 2 files)" in lines
    assert "7.5: machine code: every file" in lines
    assert "no code for 5.0 to 5.2, in libfew.so (of 2 files)" in lines


@pytest.mark.parametrize(
    ("name", "content", "cause"),
    [
        ("a.conda", b"PK\5\6nonsense", "a.conda cannot be read"),
        ("a.whl", b"nonsense", "a.whl cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(
    project: Workspace, tmp_path: Path, name: str, content: bytes, cause: str
) -> None:
    (tmp_path / name).write_bytes(content)
    done = ctk(project, "gpu-code", str(tmp_path / name))
    assert done.returncode == 9, done.stderr
    assert cause in done.stderr
    assert "next: " in done.stderr


def test_each_alternative_is_shown_with_its_own_verdict(project: Workspace, tmp_path: Path) -> None:
    libraries = {
        "a/liba_cuda126.so": elf(
            ("libcudart.so.12",), payload=fatbin(code("cubin", "70"), code("cubin", "80"))
        ),
        "a/liba_cuda130.so": elf(("libcudart.so.13",), payload=fatbin(code("cubin", "80"))),
    }
    own = wheel(tmp_path / "a-1-py3-none-manylinux_2_17_x86_64.whl", libraries)
    lines = ctk(project, "gpu-code", str(own), check=True).stdout.splitlines()
    start = lines.index("  liba_cuda126.so, with libcudart.so.12:")
    assert lines[start - 1 : start + 6] == [
        "  it has alternatives, of which a program loads one:",
        "  liba_cuda126.so, with libcudart.so.12:",
        "    machine code for 7.0 to 8.9, with a driver for CUDA 12.0 or newer that knows the GPU",
        "    no code for 5.0 to 6.1, 9.0 to 12.1",
        "  liba_cuda130.so, with libcudart.so.13:",
        "    machine code for 8.0 to 8.9, with a driver for CUDA 13.0 or newer that knows the GPU",
        "    no code for 5.0 to 7.5, 9.0 to 12.1",
    ]
    (only,) = gpu_code(project, own)["subjects"]
    assert [(each["name"], each["files"]) for each in only["alternatives"]] == [
        ("cuda126", ["a/liba_cuda126.so"]),
        ("cuda130", ["a/liba_cuda130.so"]),
    ]
    sevens = [each["gpus"]["7.0"] for each in (only, *only["alternatives"])]
    assert sevens == [{"runs": "native", "driver": "12.0"}] * 2 + [
        {"runs": "none", "driver": "13.0"}
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("README.md", b"# a"),
        ("a.png", b"\x89PNG\r\n"),
        ("a.so", b""),
        ("a.tar.gz", b"\x1f\x8b\x08"),
    ],
)
def test_a_file_that_cannot_have_code_is_an_error(
    project: Workspace, tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    done = ctk(project, "gpu-code", str(tmp_path / name))
    assert done.returncode == 2, done.stdout
    assert f"{name} is {'no library, program, wheel,' if content else 'empty'}" in done.stderr
    assert "next: name one of these, such as the folder" in done.stderr


def test_a_folder_without_code_says_so(project: Workspace, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("text")
    (tmp_path / "liba.so").write_bytes(elf())
    done = ctk(project, "gpu-code", str(tmp_path), check=True)
    assert done.stdout.splitlines() == [str(tmp_path), "  no code for GPUs"]
    assert "0 subjects with code for GPUs" in done.stderr
