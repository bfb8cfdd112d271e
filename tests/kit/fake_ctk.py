"""A made-up CTK and Python projects for the fake index: small wheels with the shapes that NVIDIA
publishes.
"""

from __future__ import annotations

from kit.fake_index import FakeIndex

LINUX = {
    "x86_64": "manylinux2014_x86_64.manylinux_2_17_x86_64",
    "aarch64": "manylinux2014_aarch64.manylinux_2_17_aarch64",
}
WHEELS_12 = (LINUX["x86_64"], LINUX["aarch64"], "win_amd64")
WHEELS_13 = (*WHEELS_12, "win_arm64")

ON_LINUX = "(sys_platform == 'linux')"
EVERYWHERE_12 = "(sys_platform == 'linux' or sys_platform == 'win32')"
EVERYWHERE_13 = "({})".format(
    " or ".join(
        f"sys_platform == '{system}' and platform_machine == '{machine}'"
        for system, machine in (
            ("linux", "aarch64"),
            ("linux", "x86_64"),
            ("win32", "ARM64"),
            ("win32", "AMD64"),
        )
    )
)


def pins(suffix: str, versions: dict[str, str], everywhere: str) -> list[str]:
    """Requirements of a manifest: a pin for each extra, and once more for the extra that names them
    all.
    """
    projects = {
        "cccl": "nvidia-cuda-cccl",
        "crt": "nvidia-cuda-crt",
        "cudart": "nvidia-cuda-runtime",
        "cufile": "nvidia-cufile",
        "nvcc": "nvidia-cuda-nvcc",
        "nvjitlink": "nvidia-nvjitlink",
        "nvrtc": "nvidia-cuda-nvrtc",
        "nvvm": "nvidia-nvvm",
        "profiler": "nvidia-cuda-profiler-api",
    }
    return [
        f"{projects[extra]}{suffix}=={version}.*; {where} and extra == '{stated}'"
        for extra, version in versions.items()
        for where in [ON_LINUX if extra == "cufile" else everywhere]
        for stated in (extra, "all")
    ]


def add_component(index: FakeIndex, distribution: str, version: str, tags: tuple[str, ...]) -> None:
    for tag in tags:
        index.add_wheel(
            distribution,
            version,
            f"py3-none-{tag}",
            files={f"nvidia/{distribution}.txt": version.encode()},
        )


def add_ctk_12(index: FakeIndex) -> None:
    """CTK 12.9.2 (as 12.9.2.0), with an older patch; nvvm and crt are inside nvcc."""
    versions = {"cudart": "12.9.79", "cufile": "1.14.1", "nvcc": "12.9.86", "nvrtc": "12.9.86"}
    add_component(index, "nvidia-cuda-runtime-cu12", "12.9.79", WHEELS_12)
    # As once tagged.
    add_component(index, "nvidia-cuda-runtime-cu12", "12.9.79", ("manylinux2014_x86_64",))
    add_component(index, "nvidia-cufile-cu12", "1.14.1", WHEELS_12[:2])
    add_component(index, "nvidia-cuda-nvcc-cu12", "12.9.86", WHEELS_12)
    add_component(index, "nvidia-cuda-nvrtc-cu12", "12.9.86", WHEELS_12)
    index.add_wheel(
        "cuda-toolkit",
        "12.9.2.0",
        "py2.py3-none-any",
        requires=pins("-cu12", versions, EVERYWHERE_12),
    )
    index.add_wheel("cuda-toolkit", "12.9.1", "py2.py3-none-any", requires=["nothing-to-see==1"])


def manifest_13() -> list[str]:
    versions = dict.fromkeys(("crt", "cudart", "nvcc", "nvrtc", "nvvm"), "13.4.92") | {
        "cufile": "1.19.1.55"
    }
    return [
        # what nvcc needs is not nvcc
        f"nvidia-cuda-runtime==13.4.92.*; {EVERYWHERE_13} and extra == 'nvcc'",
        *pins("", versions, EVERYWHERE_13),
        f"nvidia-nvjitlink<14,>=13.4.92; {EVERYWHERE_13} and extra == 'nvjitlink'",
    ]


def add_ctk_13(index: FakeIndex) -> None:
    """CTK 13.4.3, beside an older patch, a withdrawn newer one and a candidate of the
    next minor.
    """
    for project in ("cuda-crt", "cuda-runtime", "cuda-nvcc", "cuda-nvrtc", "nvvm", "nvjitlink"):
        add_component(index, f"nvidia-{project}", "13.4.92", WHEELS_13)
    for version in ("13.5.37", "13.4.46rc1"):
        add_component(index, "nvidia-nvjitlink", version, WHEELS_13)
    add_component(
        index, "nvidia-cufile", "1.19.1.55", ("manylinux_2_27_x86_64", "manylinux_2_27_aarch64")
    )
    index.add_wheel("cuda-toolkit", "13.4.3", "py2.py3-none-any", requires=manifest_13())
    index.add_wheel("cuda-toolkit", "13.4.2", "py2.py3-none-any", requires=["nothing-to-see==1"])
    index.add_wheel(
        "cuda-toolkit", "13.4.9", "py2.py3-none-any", requires=["nothing-to-see==1"], yanked=True
    )
    index.add_wheel("cuda-toolkit", "13.5.0rc1", "py2.py3-none-any", requires=["nothing-to-see==1"])


def add_extension(
    index: FakeIndex,
    name: str,
    version: str,
    requires: list[str],
    tags: tuple[str, ...] = ("cp311", "cp314t"),
) -> None:
    for tag in tags:
        for platform in (*WHEELS_12, "win_arm64") if tag == "cp314t" else WHEELS_12:
            full = f"{tag.removesuffix('t')}-{tag}-{platform}"
            index.add_wheel(name, version, full, requires=requires)


def add_python_13(index: FakeIndex) -> None:
    """A consistent set, beside newer versions that do not fit: they need another project, or
    another Python.
    """
    index.add_wheel(
        "cuda-python",
        "13.4.4",
        requires=["cuda-bindings~=13.4.4", "cuda-core~=1.2.0", "cuda-pathfinder~=1.1"],
    )
    index.add_wheel("cuda-python", "12.9.10", requires=["cuda-bindings~=12.9.10"])
    for version in ("13.4.3", "13.4.4", "13.5.0", "12.9.10"):
        add_extension(
            index,
            "cuda-bindings",
            version,
            ["cuda-pathfinder>=1.4.2", 'cuda-toolkit==13.*; extra == "all"'],
        )
    cores = [
        "numpy",
        'cuda-bindings[all]==12.*; extra == "cu12"',
        'cuda-bindings[all]==13.*; extra == "cu13"',
    ]
    add_extension(index, "cuda-core", "1.2.2", cores)
    add_extension(index, "cuda-core", "1.2.3", ['cuda-bindings==14.*; extra == "cu13"'])
    add_extension(index, "cuda-core", "1.3.0", cores)
    add_extension(index, "numba-cuda", "0.30.4", ["cuda-core<2,>=0.5.1", "cuda-pathfinder<1.9.5"])
    add_extension(index, "numba-cuda", "0.31.0", ["cuda-core<1"])
    add_extension(index, "numba-cuda", "0.32.0", [], tags=("cp310",))
    for version, needed in (("0.5.0", "12.9"), ("0.5.1", "13.4"), ("0.6.0", "13.4")):
        add_extension(
            index, "numba-cuda-mlir", version, [f'cuda-bindings>={needed}; extra == "cu13"']
        )
    own = [
        'cuda-cccl[minimal-cu13]; extra == "cu13"',
        'numba-cuda-mlir[cu13]<0.6,>=0.5; extra == "cu13"',
    ]
    add_extension(
        index, "cuda-cccl", "1.2.1", [*own, 'cuda-bindings<14,>=13; extra == "minimal-cu13"']
    )
    add_extension(
        index, "cuda-cccl", "1.2.2", [*own, 'cuda-bindings<14,>=13.5; extra == "minimal-cu13"']
    )
    for version, python in (
        ("1.9.0", ">=3.11"),
        ("1.9.4", ">=3.12"),
        ("1.10.0", ">=3.11"),
        ("1.9.1.dev1", ""),
    ):
        index.add_wheel("cuda-pathfinder", version, requires_python=python)
