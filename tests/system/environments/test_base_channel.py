"""The base channel: its lock, packages for this machine's programs, and an environment made from it
alone.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from ctk import audit
from ctk.audit.binaries import binaries
from ctk.audit.exempt import EXEMPTIONS, is_exempt
from ctk.base import base
from ctk.build.build import BuildReport
from ctk.build.finished import Built
from ctk.build.one import machine_paths
from ctk.channel import local
from ctk.core.checkout import Workspace
from ctk.core.console import Reporter
from ctk.core.errors import AuditFailed, NotPublished
from ctk.core.platforms import NOARCH, this_platform
from ctk.core.versions import this_python, version_key
from ctk.env import environment
from ctk.fetch.fetch import fetch, stored
from ctk.index.index import Index
from ctk.lock.model import load
from ctk.package.binaries import oldest_glibc_of
from ctk.package.reader import record_of
from ctk.package.records import glibc_floor
from ctk.package.scan import Scanner
from ctk.pipeline import Pipeline
from ctk.rules import Finding
from ctk.solve.channels import Repodata
from ctk.solve.solve import Scenario, solve
from kit.binaries import elf
from kit.packages import Draft

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the base channel is made on Linux"
)


@pytest.fixture
def checkout(project: Workspace, tmp_path: Path) -> Workspace:
    """A checkout with an empty cache: the base recipes, their lock, and the matrix."""
    shutil.copytree(project.base_recipes, tmp_path / "base")
    shutil.copytree(project.recipes / "common", tmp_path / "recipes" / "common")
    shutil.copy(project.build_config, tmp_path)
    return Workspace(tmp_path)


def test_this_machine_adds_its_interpreter_and_runtime_once_and_a_lost_one_again_byte_for_byte(
    checkout: Workspace,
) -> None:
    first = base.prepare(checkout)
    own = [
        first[0].components[name].artefacts[this_platform()] for name in ("cpython", "gcc-runtime")
    ]
    assert all(
        a and hashlib.sha256(stored(a, checkout).read_bytes()).hexdigest() == a.sha256 for a in own
    )
    before = {p: p.stat().st_mtime_ns for p in checkout.cache.rglob("*") if p.is_file()}
    assert base.prepare(checkout) == first
    assert {p: p.stat().st_mtime_ns for p in checkout.cache.rglob("*") if p.is_file()} == before
    assert own[0]
    stored(own[0], checkout).unlink()
    assert base.prepare(checkout) == first
    assert stored(own[0], checkout).exists()


def test_the_plan_is_for_the_running_python_only(checkout: Workspace) -> None:
    made = base.plan_base(checkout)
    names = {o.name for b in made.builds for o in b.outputs}
    machine = {
        f"{n}_{t}"
        for t in base.installed_compilers()
        for n in ("gcc", "gxx", "gcc_impl", "sysroot")
    }
    machine |= base.installed_tools().keys()
    if this_platform() in base.installed_compilers():
        machine |= {"c-compiler", "cxx-compiler"}
    if base.is_loadable(base.OPENMP):
        machine |= {"libgomp", "_openmp_mutex"}
    empty = {"libgcc", "libstdcxx", "libzlib", "rdma-core", "ocl-icd", "setuptools_scm"}
    assert {n.replace("_", "-") for n in names} == {
        n.replace("_", "-") for n in ("python", "python_abi", *empty, *base.PROJECTS, *machine)
    }
    assert {b.python for b in made.builds} <= {"", this_python().tag}


def test_the_machine_s_compilers_and_tools_are_there_by_name_and_version_or_not_at_all(
    checkout: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        base, "installed_compilers", lambda: {"linux-64": "12.2.0", "linux-aarch64": "13.1.0"}
    )
    made = {o.name: o.version for b in base.plan_base(checkout).builds for o in b.outputs}
    assert {made[f"{name}_linux-64"] for name in ("gcc", "gxx", "gcc_impl")} == {"12.2.0"}
    assert {made[f"{name}_linux-aarch64"] for name in ("gcc", "gxx", "gcc_impl")} == {"13.1.0"}
    assert made["sysroot_linux-64"] == base.glibc()
    # For programs of this machine, not of another.
    assert (
        made["c-compiler"]
        == made["cxx-compiler"]
        == {"linux-64": "12.2.0", "linux-aarch64": "13.1.0"}[this_platform()]
    )
    monkeypatch.setattr(base, "installed_compilers", dict)
    monkeypatch.setattr(base, "installed_tools", lambda: {"cmake": "3.25.1"})
    made = {o.name: o.version for b in base.plan_base(checkout).builds for o in b.outputs}
    assert not [name for name in made if "_linux-" in name or name.endswith("-compiler")]
    assert {name: made.get(name) for name in base.BUILD_TOOLS} == {
        **dict.fromkeys(base.BUILD_TOOLS),
        "cmake": "3.25.1",
    }
    monkeypatch.setattr(base, "installed_tools", dict)
    assert (
        not {o.name for b in base.plan_base(checkout).builds for o in b.outputs}
        & base.BUILD_TOOLS.keys()
    )


def test_what_is_compiled_against_the_base_channel_requires_what_conda_forge_s_would(
    checkout: Workspace, project: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "installed_compilers", lambda: {this_platform(): "12.2.0"})
    exports = {o.name: o.run_exports for b in base.plan_base(checkout).builds for o in b.outputs}
    python = this_python()
    assert exports["python"] == {
        "noarch": ("python",),
        "weak": (f"python_abi {python.minor}.* *_{python.tag}",),
    }
    assert exports[f"sysroot_{this_platform()}"] == {
        "strong": (f"__glibc >={base.glibc()},<3.0.a0",)
    }
    assert exports["numpy"] == {"weak": ("numpy >=1.23,<3",)}
    artefact = (
        load(project.base_recipes / "base.lock")
        .components["numpy"]
        .artefacts[f"{this_platform()}-{python.tag}"]
    )
    (wheel,) = fetch([artefact], project, Index) if artefact else ()
    with zipfile.ZipFile(wheel) as files:
        header = files.read(
            next(name for name in files.namelist() if name.endswith("/numpyconfig.h"))
        ).decode()
    assert (
        "#else\n    /* Use the default" in header
        and "define NPY_FEATURE_VERSION NPY_1_23_API_VERSION" in header
    )


def test_what_our_packages_ask_for_and_we_do_not_make_is_in_the_base_channel(
    checkout: Workspace, planned: Repodata, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that every one of them, the group cuda-toolkit too, can be installed where the machine has
    the compilers. The tool itself is for conda-forge: with the base channel, people have its wheel.
    """
    compilers = {"linux-64": "12.2.0", "linux-aarch64": "12.2.0"}
    monkeypatch.setattr(base, "installed_compilers", lambda: compilers)
    records = [
        r
        for subdir in (this_platform(), NOARCH)
        for r in planned[subdir]["packages.conda"].values()
        if r["name"] != "ctk"
    ]
    wanted = {spec.split()[0] for record in records for spec in record["depends"]}
    there = {o.name for b in base.plan_base(checkout).builds for o in b.outputs} | {
        r["name"] for r in records
    }
    assert {name for name in wanted - there if not name.startswith("__")} == set()


def test_a_python_without_wheels_is_refused_with_the_reason(checkout: Workspace) -> None:
    lock_file = checkout.base_recipes / "base.lock"
    lock = json.loads(lock_file.read_text())
    lock["components"]["numpy"]["artefacts"][f"{this_platform()}-{this_python().tag}"] = None
    lock_file.write_text(json.dumps(lock))
    with pytest.raises(NotPublished, match=r"numpy .* is not published for") as refused:
        base.plan_base(checkout)
    assert "conda-forge" in refused.value.step


# --- what its packages need of a machine


def test_each_package_names_the_glibc_of_its_newest_symbol(built: Workspace) -> None:
    """So that a solver does not put it on a machine where its binaries cannot be loaded."""
    scanner, needed = Scanner([], None), {}
    for package in local.packages(built.base_channel):
        scan = scanner.scan(package)
        headers = {file.path: binary for file, binary in binaries(scan) if binary.format == "elf"}
        if headers:
            oldest = max(oldest_glibc_of(headers), "2.17", key=version_key)
            needed[scan.name] = (oldest, glibc_floor(scan.info.index.depends))
    assert {"python", "libgcc", "libstdcxx", "numpy", "llvmlite"} <= needed.keys()
    assert {name: declared for name, (_, declared) in needed.items()} == {
        name: oldest for name, (oldest, _) in needed.items()
    }


def test_a_compiled_wheel_needs_no_newer_glibc_on_any_platform_than_its_recipe_says(
    checkout: Workspace, project: Workspace
) -> None:
    """Its tag has the glibc of its symbols: PEP 600. This machine's wheels are measured above."""
    outputs = [output for build in base.plan_base(checkout).builds for output in build.outputs]
    declared = {output.name: glibc_floor(output.depends) for output in outputs}
    tags = re.compile(r"manylinux_(\d+)_(\d+)_")
    for name, component in load(project.base_recipes / "base.lock").components.items():
        for target, artefact in component.artefacts.items():
            if artefact is None or target == NOARCH:
                continue
            found = [f"{major}.{minor}" for major, minor in tags.findall(artefact.file)]
            recipe = name if name in declared else name.replace("-", "_")
            oldest = max(min(found, key=version_key), "2.17", key=version_key)
            assert oldest == declared[recipe], artefact.file


def test_the_audit_finds_nothing_in_the_base_channel_and_each_exemption_is_needed(
    built: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def noted(finding: Finding) -> bool:
        asked.append(finding)
        return is_exempt(finding)

    monkeypatch.setattr(audit, "is_exempt", noted)
    packages, forbidden = local.packages(built.base_channel), machine_paths(built)
    found = audit.audit_packages(packages, forbidden_paths=forbidden)
    assert [str(finding) for finding in found.errors] == []
    unused = [one.why for one in EXEMPTIONS if not any(map(one.covers, asked))]
    assert unused == []


def test_an_unsound_package_does_not_reach_the_base_channel(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = Workspace(tmp_path)
    binary = elf(("libc.so.6",), versions={"libc.so.6": ["GLIBC_2.36"]})
    for depends, is_sound in (((), False), (("__glibc >=2.36,<3.0.a0",), True)):
        home = tmp_path / f"home-{is_sound}"
        package = Draft("libgcc", depends=depends, files={"lib/libgcc_s.so.1": binary}).write(home)
        name = f"{package.parent.name}/{package.name}"
        made = Built("libgcc", home.name, home, {name: record_of(package)}, {}, 0.0, False)
        report = BuildReport((made,), {})
        monkeypatch.setattr(Pipeline, "_fetch_and_build", lambda *_, made=report: made)
        monkeypatch.setattr(base, "plan_base", lambda _: None)
        run = Pipeline(where, Reporter())
        if is_sound:
            assert [path.name for path in local.packages(run.make_base())] == [package.name]
        else:
            with pytest.raises(AuditFailed, match=r"needs glibc 2\.36; no __glibc") as refused:
                run.make_base()
            assert "--base conda-forge" in refused.value.step
            assert not where.base_channel.exists()


PROOF = """
import ctypes, lzma, sqlite3, ssl, sys
import numba, numpy

@numba.njit
def double(x):
    return 2 * x

assert double(21) == 42 and numpy.arange(4).sum() == 6
outside = [line.split()[-1] for line in open("/proc/self/maps") if "libstdc++" in line]
print(sys.prefix, *set(outside))
"""


def test_an_environment_of_the_base_channel_alone_works(built: Workspace, tmp_path: Path) -> None:
    pick = solve(
        Scenario(("python", "numba", "numpy", "pip"), this_platform()), [built.base_channel]
    )
    made = environment.create(pick, tmp_path / "env", built.packages)

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [made.python, *arguments], env={}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("-c", PROOF).split()[0] == str(made.prefix)
    # These packages have their bytecode; of what has the prefix in it there is none.
    lib = f"lib/python{this_python().name}"
    modules = {
        "python": "os",
        "numba": "site-packages/numba/core/types/misc",
        "numpy": "site-packages/numpy/version",
    }
    for name, module in modules.items():
        (file,) = (made.prefix / "conda-meta").glob(f"{name}-[0-9]*.json")
        files = json.loads(file.read_text())["files"]
        bytecode = cache_from_source(f"{lib}/{module}.py")
        assert bytecode in files
        content = (made.prefix / bytecode).read_bytes()
        assert content[4] == 3, "valid by the source's hash: PEP 552"
        assert f"{lib}/{module}.py".encode() in content and b"placehold_placehold" not in content
        assert not [path for path in files if "/_sysconfig" in path and path.endswith(".pyc")]
    assert f"from {made.prefix}/lib" in run("-m", "pip", "--version")


# Name -> its build backend. The example nanobind-extension of docs/recipe-authors.md tries one that
# compiles.
PROJECTS = {
    "hatchling": "hatchling.build",
    "flit-core": "flit_core.buildapi",
    "poetry-core": "poetry.core.masonry.api",
    "setuptools-scm": "setuptools.build_meta",
    "hatch-vcs": "hatchling.build",
}


@pytest.fixture(scope="module")
def with_backends(
    built: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> environment.Environment:
    compiling = ("scikit-build-core", "meson-python", "nanobind", "pybind11")
    names = ("python", "pip", "wheel", "numba", "cython", "setuptools", *compiling, *PROJECTS)
    pick = solve(Scenario(names, this_platform()), [built.base_channel])
    return environment.create(pick, tmp_path_factory.mktemp("backends") / "env", built.packages)


@pytest.mark.parametrize("name", PROJECTS)
def test_pip_installs_a_project_with_the_build_backends_of_the_base_channel(
    with_backends: environment.Environment, tmp_path: Path, name: str
) -> None:
    version = (
        'dynamic = ["version"]' if name in ("setuptools-scm", "hatch-vcs") else 'version = "1"'
    )
    source = {
        "setuptools-scm": "[tool.setuptools_scm]\n",
        "hatch-vcs": '[tool.hatch.version]\nsource = "vcs"\n',
    }
    text = f"""[build-system]
requires = ["{name}"]
build-backend = "{PROJECTS[name]}"
[project]
name = "one"
description = "One"
{version}
{source.get(name, "")}"""
    for file, content in {
        "one/__init__.py": "def answer(): return 42",
        "pyproject.toml": text,
    }.items():
        (tmp_path / "src" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / file).write_text(content)
    words = [
        with_backends.python,
        "-m",
        "pip",
        "install",
        "--no-build-isolation",
        "--no-index",
        "--no-deps",
    ]
    variables = {
        "PATH": f"{with_backends.prefix}/bin:/usr/bin:/bin",
        "SETUPTOOLS_SCM_PRETEND_VERSION": "1",
    }
    command = [*words, "--target", str(tmp_path / "made"), str(tmp_path / "src")]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    program = "import importlib.metadata as m, one; print(one.answer(), m.version('one'))"
    there = {"PYTHONPATH": str(tmp_path / "made")}
    printed = subprocess.run(
        [with_backends.python, "-c", program], env=there, capture_output=True, text=True, check=True
    )
    assert printed.stdout == "42 1\n"


def test_all_have_what_their_wheels_require(with_backends: environment.Environment) -> None:
    done = subprocess.run(
        [with_backends.python, "-m", "pip", "check"], env={}, capture_output=True, text=True
    )
    assert done.stdout == "No broken requirements found.\n", done.stdout + done.stderr


def test_cython_of_the_base_channel_compiles(
    with_backends: environment.Environment, tmp_path: Path
) -> None:
    (tmp_path / "one.pyx").write_text("def answer(): return 42\n")
    subprocess.run([with_backends.prefix / "bin" / "cython", "one.pyx"], cwd=tmp_path, check=True)
    assert (tmp_path / "one.c").read_text().startswith("/* Generated by Cython")
