"""Activation scripts of cuda-nvcc: what they set, and that deactivation leaves the shell exactly as it was.

Each scenario runs in a shell of its own, with the options that users have. The .bat files are read, not run.
"""

from __future__ import annotations

import re
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from activation_shells import CLEAN, OPTIONS, compiler, difference, run

from conftest import NEWEST
from ctk.core.checkout import Workspace
from ctk.fetch.fetch import laid_out
from ctk.lock.lock import Artefact, ReleaseLock, release_locks

pytest_plugins = ["shell_fixtures"]
HERE = Workspace(Path(__file__).resolve().parents[2])
VARIABLES = ("CFLAGS", "CPPFLAGS", "CXXFLAGS", "LDFLAGS", "CMAKE_ARGS", "CMAKE_PREFIX_PATH", "CUDA_PATH", "CUDA_HOME")
VARIABLES += ("CUDAARCHS", "NVCC_GENCODE", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")
BUILD = {"CONDA_BUILD": "1", "PREFIX": "/host env", "BUILD_PREFIX": "/build env", "HOST": "x86_64-conda-linux-gnu"}
# The targets that an nvcc names in its file, in any order, and what the list of a package build is made of.
NAMES = b"\0compute_100f\0compute_75\0sm_20\0compute_90\0sm_90a\0compute_90a\0compute_100\0compute_100a\0"
LISTED = ("75", "90a", "100f")
WITHOUT_LIBRARY = ("8.7", "8.8")


@dataclass(frozen=True)
class Scripts:
    """The installed scripts of one platform.

    Attributes:
        prefix: The environment.
        activate, deactivate: The scripts.
    """

    prefix: Path
    activate: Path
    deactivate: Path


def install(project: Workspace, prefix: Path, target: str, platform: str = "linux-64", nvcc: bytes = NAMES) -> Scripts:
    program = prefix / ("Library/bin/nvcc.exe" if target.startswith("win") else "bin/nvcc")
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_bytes(nvcc)
    subprocess.run(
        ["bash", project.recipes / "cuda-nvcc" / "activation.sh"],
        env={
            **CLEAN,
            "PREFIX": str(prefix),
            "RECIPE_DIR": str(project.recipes / "cuda-nvcc"),
            "PKG_VERSION": "13.5.37",
            "TARGET": target,
            "target_platform": platform,
        },
        check=True,
    )
    kind = "bat" if target.startswith("win") else "sh"
    conda = prefix / "etc" / "conda"
    folders = (conda / f"{change}.d" / f"~cuda-nvcc_{change}.{kind}" for change in ("activate", "deactivate"))
    return Scripts(prefix, *folders)


@pytest.fixture(scope="module")
def scripts(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Scripts:
    return install(project, tmp_path_factory.mktemp("environment"), "linux-64")


def both(scripts: Scripts) -> str:
    return f". '{scripts.activate}'; . '{scripts.deactivate}'"


def values(
    shell: str, scripts: Scripts, after: str = "", options: str = "set -eu", **environment: str
) -> dict[str, str]:
    """The environment after activation."""
    done = run(
        shell, f"{options}; . '{scripts.activate}'; {after}\nenv -0", CONDA_PREFIX=str(scripts.prefix), **environment
    )
    assert done.returncode == 0, done.stderr
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


USERS: Mapping[str, Mapping[str, str]] = {
    "nothing": {},
    "all empty": dict.fromkeys(VARIABLES, ""),
    "all set": {name: f"-D{name}='a b'  $HOME \"*\" \\ x=y;z\n-Dsecond" for name in VARIABLES},
    "a compiler": {"CXX": "clang++"},
    "a compiler with spaces": {"CXX": "/my tools/g++"},
    "a build": BUILD,
    "a build, all set": {**BUILD, **dict.fromkeys(VARIABLES, "-DX"), "CXX": "x86_64-conda-linux-gnu-c++"},
}


@pytest.mark.parametrize(
    ("user", "options"),
    [
        pytest.param(user, options, marks=[] if "all set" in user or options == "set -eu" else pytest.mark.sweep)
        for user in USERS
        for options in OPTIONS
    ],
)
def test_activate_then_deactivate_leaves_the_shell_as_it_was(
    scripts: Scripts, tmp_path: Path, shell: str, options: str, user: str
) -> None:
    environment = {**USERS[user], "CONDA_PREFIX": str(scripts.prefix)}
    assert difference(shell, options, f". '{scripts.activate}'", tmp_path, **environment)
    assert not difference(shell, options, both(scripts), tmp_path, **environment)


def test_a_variable_that_is_not_exported_is_not_exported_afterwards(
    scripts: Scripts, tmp_path: Path, shell: str
) -> None:
    before = "CFLAGS='-O2 -g'; LDFLAGS=; NVCC_PREPEND_FLAGS=-v"
    environment = {"CONDA_PREFIX": str(scripts.prefix)}
    assert not difference(shell, "set -eu", both(scripts), tmp_path, before, **environment)


def test_a_second_activation_adds_nothing(scripts: Scripts, tmp_path: Path, shell: str) -> None:
    activate, deactivate = f". '{scripts.activate}'", f". '{scripts.deactivate}'"
    assert values(shell, scripts) == values(shell, scripts, activate)
    twice = f"{activate}; {activate}; {deactivate}"
    environment = {"CONDA_PREFIX": str(scripts.prefix)}
    assert not difference(shell, "set -eu", twice, tmp_path, **environment)
    assert not difference(shell, "set -eu", f"{twice}; {deactivate}", tmp_path, **environment)


def test_deactivation_alone_does_nothing(scripts: Scripts, tmp_path: Path, shell: str) -> None:
    environment = {**USERS["all set"], "CONDA_PREFIX": str(scripts.prefix)}
    assert not difference(shell, "set -eu", f". '{scripts.deactivate}'", tmp_path, **environment)


def test_stacked_environments_are_left_one_by_one(
    project: Workspace, scripts: Scripts, tmp_path: Path, shell: str
) -> None:
    upper = install(project, tmp_path / "upper one", "linux-64")

    def at(one: Scripts, script: Path) -> str:
        return f"CONDA_PREFIX='{one.prefix}'; . '{script}'"

    first, second = at(scripts, scripts.activate), at(upper, upper.activate)
    back, home = at(upper, upper.deactivate), at(scripts, scripts.deactivate)
    environment = {"CONDA_PREFIX": str(scripts.prefix), "CFLAGS": "-O2"}
    stack = f"{first}; {second}; case $CFLAGS in '-O2 '*env*upper*) ;; *) exit 1 ;; esac; {back}"
    assert not difference(shell, "set -eu", f"{stack}; {home}", tmp_path, **environment)
    assert not difference(
        shell, "set -eu", f"{second}; {back}; CONDA_PREFIX='{scripts.prefix}'", tmp_path, first, **environment
    )


def test_without_an_active_environment_nothing_happens(scripts: Scripts, tmp_path: Path, shell: str) -> None:
    assert not difference(shell, "set -eu", f". '{scripts.activate}'", tmp_path)


def test_the_variables_are_those_of_conda_forge(scripts: Scripts, shell: str) -> None:
    found = values(shell, scripts, CFLAGS="-O2", CXX="x86_64-conda-linux-gnu-c++")
    target = f"{scripts.prefix}/targets/x86_64-linux"
    assert found["CFLAGS"] == f"-O2 -I{target}/include -I{target}/include/cccl"
    assert found["CPPFLAGS"] == found["CXXFLAGS"] == f"-I{target}/include -I{target}/include/cccl"
    rpath = f"-Wl,--disable-new-dtags -Wl,-rpath,{scripts.prefix}/lib -Wl,-rpath-link,{scripts.prefix}/lib"
    assert found["LDFLAGS"] == f"-L{target}/lib -L{target}/lib/stubs {rpath}"
    rpath = f"-Xlinker=--disable-new-dtags,-rpath={scripts.prefix}/lib,-rpath-link={scripts.prefix}/lib"
    assert found["NVCC_PREPEND_FLAGS"] == f"{rpath} -ccbin=x86_64-conda-linux-gnu-c++"
    assert not found.keys() & {"CMAKE_ARGS", "CUDAARCHS", "NVCC_GENCODE", "NVCC_APPEND_FLAGS"}


def test_the_environment_is_the_toolkit_that_build_systems_find(scripts: Scripts, shell: str) -> None:
    """Whatever the user, an installer or an image had said; after the environment itself."""
    other = {"CUDA_PATH": "/usr/local/cuda", "CUDA_HOME": "/opt/cuda", "CMAKE_PREFIX_PATH": str(scripts.prefix)}
    for user in ({}, other):
        found = values(shell, scripts, **user)
        assert found["CUDA_PATH"] == found["CUDA_HOME"] == f"{scripts.prefix}/lib/cuda"
        before = f"{scripts.prefix}:" if user else ""
        assert found["CMAKE_PREFIX_PATH"] == f"{before}{scripts.prefix}/targets/x86_64-linux"
    home = scripts.prefix / "lib" / "cuda"
    assert (home / "version.txt").read_text() == "CUDA Version 13.5.37\n"
    leads = {"bin": "bin", "include": "targets/x86_64-linux/include", "targets": "targets", "nvvm": "nvvm"}
    leads |= dict.fromkeys(("lib", "lib64"), "targets/x86_64-linux/lib")
    links = [path for path in home.iterdir() if path.is_symlink()]
    assert {path.name: str(path.resolve().relative_to(scripts.prefix)) for path in links} == leads


def test_a_package_build_sees_the_host_environment_first(scripts: Scripts, shell: str) -> None:
    found = values(shell, scripts, **BUILD, CMAKE_ARGS="-DX=1")
    host, build = "/host env/targets/x86_64-linux", f"{scripts.prefix}/targets/x86_64-linux"
    assert found["CFLAGS"] == " ".join(f"-I{p}/include -I{p}/include/cccl" for p in (host, build))
    assert found["NVCC_APPEND_FLAGS"] == f"-I{host}/include -L{host}/lib -L{host}/lib/stubs"
    sysroot = f"{scripts.prefix}/x86_64-conda-linux-gnu/sysroot"
    assert found["CMAKE_ARGS"] == f"-DX=1 -DCMAKE_FIND_ROOT_PATH=/host env;{sysroot};{host};{build}"
    assert found["LDFLAGS"] == f"-L{host}/lib -L{host}/lib/stubs -L{build}/lib -L{build}/lib/stubs"
    assert (found["CMAKE_PREFIX_PATH"], "NVCC_PREPEND_FLAGS" in found) == (f"{host}:{build}", False)
    assert found["CUDAARCHS"] == ";".join([*(f"{name.rstrip('f')}-real" for name in LISTED), "100-virtual"])
    code = [f"-gencode arch=compute_{name},code=sm_{name}" for name in LISTED]
    assert found["NVCC_GENCODE"] == " ".join([*code, "-gencode arch=compute_100,code=compute_100"])
    for own in ({"CUDAARCHS": "80"}, {"NVCC_GENCODE": ""}):
        assert own.items() <= values(shell, scripts, **BUILD, **own).items()


NVCCS = [
    pytest.param(
        lock, artefact, id=f"{lock.minor}-{subdir}", marks=[] if lock.minor in ("13.0", NEWEST) else pytest.mark.sweep
    )
    for lock in release_locks(HERE).values()
    if lock.is_ctk and lock.major == "13"
    for subdir, artefact in lock.components["nvcc"].artefacts.items()
    if artefact
]


@pytest.mark.parametrize(("lock", "artefact"), NVCCS)
def test_the_gpus_of_a_package_build_are_those_that_were_measured(
    project: Workspace, tmp_path: Path, lock: ReleaseLock, artefact: Artefact
) -> None:
    """Of each nvcc in the cache, for every platform: it names the targets that the release's NVRTC has.

    Two are left out, which libcudadevrt.a has no code for: tests/environments/test_nvcc.py links for all others.
    """
    if not laid_out(artefact, project).exists():
        pytest.skip(f"not in the cache: ctk fetch --release {lock.minor} --recipe cuda-nvcc -p {artefact.target}")
    with zipfile.ZipFile(laid_out(artefact, project)) as wheel:
        (name,) = (name for name in wheel.namelist() if re.search(r"/bin/(\w+/)?nvcc(\.exe)?$", name))
        made = install(project, tmp_path, artefact.target, artefact.target, wheel.read(name))
    (listed,) = re.findall(r"\bCUDAARCHS\b.*?((?:\d+[af]?-(?:real|virtual);?)+)", made.activate.read_text())
    assert lock.facts is not None
    measured = [arch.replace(".", "") for arch in lock.facts.gpu_architectures if arch not in WITHOUT_LIBRARY]
    numbers = [re.sub("[af]?-", "-", one) for one in listed.split(";")]
    assert numbers == [*(f"{number}-real" for number in measured), f"{measured[-1]}-virtual"]


@pytest.mark.parametrize(
    "own", [{"NVCC_CCBIN": "clang++"}, {"NVCC_PREPEND_FLAGS": "-ccbin clang++"}, {"NVCC_APPEND_FLAGS": "-ccbin=a"}]
)
def test_a_compiler_that_the_user_chose_for_nvcc_stays(scripts: Scripts, shell: str, own: Mapping[str, str]) -> None:
    found = values(shell, scripts, CXX="c++", **own)
    assert all(found[name].startswith(value) for name, value in own.items())
    assert "-ccbin=c++" not in found["NVCC_PREPEND_FLAGS"]


def test_a_path_with_spaces_reaches_nvcc_whole(scripts: Scripts, tmp_path: Path, shell: str) -> None:
    cxx = str(compiler(tmp_path / "my tools") / "g++")
    found = values(shell, scripts, CXX=cxx)
    assert found["NVCC_CCBIN"] == cxx
    assert "-ccbin" not in found["NVCC_PREPEND_FLAGS"]


def test_an_environment_whose_path_has_spaces_gives_nvcc_no_flag_that_it_would_split(
    project: Workspace, tmp_path: Path, shell: str
) -> None:
    assert "NVCC_PREPEND_FLAGS" not in values(shell, install(project, tmp_path / "my environment", "linux-64"))


@pytest.mark.parametrize(
    ("target", "cxx"), [("linux-64", "g++"), ("linux-aarch64", "aarch64-linux-gnu-g++")], ids=["native", "cross"]
)
def test_a_missing_compiler_is_one_sentence_and_no_failure(
    project: Workspace, tmp_path: Path, shell: str, target: str, cxx: str
) -> None:
    made = install(project, tmp_path / "environment", target)
    empty = {"PATH": str(tmp_path / "none"), "CONDA_PREFIX": str(made.prefix)}
    code = f"set -eu; . '{made.activate}'; echo done; . '{made.deactivate}'"
    done = run(shell, code, **empty)
    assert (done.returncode, done.stdout) == (0, "done\n")
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("cuda-nvcc: nvcc needs a C++ compiler")
    assert f"gxx_{target} " in sentence and f"or {cxx} on" in sentence and "CXX" in sentence
    for found in ({"PATH": str(compiler(tmp_path / "bin", cxx))}, {"CXX": "c++"}, {"NVCC_CCBIN": "c++"}):
        assert not run(shell, code, **{**empty, **found}).stderr


def test_for_another_platform_nvcc_is_told_target_and_compiler(project: Workspace, tmp_path: Path, shell: str) -> None:
    made = install(project, tmp_path / "environment", "linux-aarch64")
    path = f"{compiler(tmp_path / 'bin', 'aarch64-linux-gnu-g++')}:{CLEAN['PATH']}"
    found = values(shell, made, PATH=path)
    assert found["NVCC_PREPEND_FLAGS"] == "-target-dir=sbsa-linux -ccbin=aarch64-linux-gnu-g++"
    include = f"-I{made.prefix}/targets/sbsa-linux/include"
    assert found["CFLAGS"] == f"{include} {include}/cccl"
    assert "rpath" not in found["LDFLAGS"]  # a program for another machine runs somewhere else
    # Where meson looks for targets/sbsa-linux; nothing in the package has the layout for one target.
    assert found["CUDA_HOME"] == found["CUDA_PATH"] == str(made.prefix) and not (made.prefix / "lib").exists()
    assert not difference(shell, "set -eu", both(made), tmp_path, PATH=path, CONDA_PREFIX=str(made.prefix))


@pytest.mark.parametrize("target", ["win-64", "win-arm64"])
def test_what_the_batch_file_sets_the_other_one_takes_back(project: Workspace, tmp_path: Path, target: str) -> None:
    made = install(project, tmp_path, target, target)
    texts = [path.read_text() for path in (made.activate, made.deactivate)]
    assert not [line for text in texts for line in text.splitlines() if not line.startswith("@")]
    assert "\n@exit /b 0\n" in texts[0]  # `where` sets an error level, and clients look at it
    assert f"vs2022_{target} " in texts[0]
    assigned, released = [re.findall(r'\bset "(\w+(?:%\w+%\w*)?)=([^"]*)"', text) for text in texts]
    lasting = {name for name, _ in assigned} - {name for name, value in assigned if not value}
    marks = {f"CUDA_NVCC_OWN_%CONDA_SHLVL%_{name}" for name in ("CUDAARCHS", "NVCC_GENCODE")}
    kept = ("INCLUDE", "CMAKE_PREFIX_PATH", "CUDA_PATH", "CUDA_HOME")
    own = {*kept, "CUDAARCHS", "NVCC_GENCODE", *marks}
    assert lasting == {
        *own,
        "CUDA_NVCC_ACTIVE_%CONDA_SHLVL%",
        *(f"CUDA_NVCC_OLD_%CONDA_SHLVL%_{name}" for name in kept),
    }
    assert {name for name, value in released if not value} == lasting
    for name in ("CUDAARCHS", "NVCC_GENCODE"):  # in a package build alone, and taken back only where it was set here
        mark = f"CUDA_NVCC_OWN_%CONDA_SHLVL%_{name}"
        first = f'@if "%CONDA_BUILD%"=="1" if not defined {name} set "{mark}=1" & set "{name}='
        assert re.search(f"^{re.escape(first)}.*(90a|_100)", texts[0], re.M)
        assert f'\n@if defined {mark} set "{name}="\n' in texts[1]
    assert {(name, f"%%CUDA_NVCC_OLD_%CONDA_SHLVL%_{name}%%") for name in kept} <= set(released)
    assert ("CUDA_PATH", r"%CONDA_PREFIX%\Library") in assigned
    machine = {"win-64": "x64", "win-arm64": "arm64"}[target]
    assert ("CMAKE_PREFIX_PATH", rf"%CMAKE_PREFIX_PATH%;%CUDA_NVCC_ROOT%\lib\{machine}\cmake") in assigned


@pytest.mark.parametrize("target", ["linux-64", "win-64"])
def test_no_template_is_left(project: Workspace, tmp_path: Path, target: str) -> None:
    made = install(project, tmp_path, target, target)
    assert not re.search(r"@\w+@", made.activate.read_text() + made.deactivate.read_text())


def test_an_nvcc_that_names_no_gpu_is_refused(project: Workspace, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        install(project, tmp_path, "linux-64", nvcc=b"sm_20")


@pytest.mark.parametrize("prefix", ["/x/$(touch touched)", "/x/`touch touched`", '/x/"; touch touched; "', "/x/a b"])
def test_activation_takes_the_environments_path_for_one(tmp_path: Path, prefix: str) -> None:
    """Whoever unpacks an artefact chooses the folder; a name like this must not run when the environment is entered."""
    for script in ("activate", "deactivate"):
        text = (HERE.root / "recipes/cuda-nvcc" / f"{script}.sh").read_text()
        (tmp_path / f"{script}.sh").write_text(re.sub("@(targets|cxx|flags|target_platform)@", "x", text))
    program = ". ./activate.sh; . ./deactivate.sh; echo done"
    for shell in ("sh", "bash"):
        environment = {**CLEAN, "CONDA_PREFIX": prefix, "CONDA_BUILD": "1", "PREFIX": prefix}
        done = subprocess.run(
            [shell, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.stdout == "done\n", done.stderr
    assert not (tmp_path / "touched").exists()
