"""Runs the tests that NVIDIA ships in the wheels of its Python projects, inside an environment or a venv of pip's.

With the network, once, what the tests import (`upstream.txt`), for the Python of the environments:

    python3 tests/gpu/tools/upstream.py prepare FOLDER --python-version 3.11

Then on the GPU machine, with no network, for ours and for pip's, and both side by side:

    python3 tests/gpu/tools/upstream.py run ENVIRONMENT/bin/python FOLDER -o ours.json --limit 540 --jobs 12
    python3 tests/gpu/tools/upstream.py run VENV/bin/python FOLDER -o pips.json --limit 540 --jobs 12
    python3 tests/gpu/tools/upstream.py compare ours.json pips.json

What is run is what the installed files say: every ``tests/**/test_*.py`` that the RECORD of one of the projects lists.
With `--sources`, it is the tests of an unpacked source distribution: each ``test_*.py`` below its `tests`, with
its own settings of pytest. `--sample 5` takes every fifth test or so, by its name: the same on both sides.
Each module runs in processes of its own, several at a time, and goes on behind a test that crashes or hangs. What was
not reached within the limit is `not run`. Tests that link prebuilt GPU code (NUMBA_CUDA_TEST_BIN_DIR) are skipped by
themselves: making that code takes nvcc. Exit code 1 of `compare` when a test fails in ours and not in pip's, or was run
there and not here; 2 for what cannot be run or compared. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from gpu_machine import detect, search_path  # noqa: E402

PROJECTS = (
    "numba-cuda",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "cuda-core",
    "cuda-bindings",
    "numba-cuda-mlir",
    "cuda-cccl",
    "cuda-pathfinder",
)
OUTCOMES = ("passed", "failed", "error", "crashed", "timeout", "skipped", "xfailed", "xpassed", "not run")
BAD = ("failed", "error", "crashed", "timeout")
WORST = ("passed", "xfailed", "skipped", "xpassed", "failed", "error")
# numba_cuda/numba/cuda is numba.cuda: its redirector says so.
_LIST = r"""
import json, re, sys
from importlib.metadata import PackageNotFoundError, distribution
found = {"python": sys.version.split()[0], "projects": {}, "modules": []}
for name in sys.argv[1:]:
    try:
        project = distribution(name)
    except PackageNotFoundError:
        continue
    files = [re.sub("^numba_cuda/(?=numba/)", "", str(f)) for f in project.files or ()]
    tests = sorted(f for f in files if re.search(r"(^|/)tests/(.*/)?test_\w+\.py$", f) and "/benchmarks/" not in f)
    found["projects"][name] = {"version": project.version, "modules": len(tests)}
    found["modules"] += [f.removesuffix(".py").replace("/", ".") for f in tests]
print(json.dumps(found))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare", help="put what the tests import into a folder; needs the network")
    first.add_argument("folder", type=Path)
    first.add_argument("--python-version", default=f"{sys.version_info[0]}.{sys.version_info[1]}")
    second = commands.add_parser("run", help="run the tests; needs no network")
    second.add_argument("python", type=Path, help="the interpreter of an environment or venv")
    second.add_argument("folder", type=Path, help="what `prepare` made")
    second.add_argument("-o", "--output", type=Path, required=True, help="JSON")
    second.add_argument("--limit", type=float, default=540, help="seconds for everything")
    second.add_argument("--each", type=float, default=240, help="seconds for one process of one module")
    second.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1), help="processes at a time")
    second.add_argument("--only", action="append", default=[], help="modules with this in their name; repeatable")
    second.add_argument("--sources", type=Path, help="an unpacked source distribution: its tests")
    second.add_argument("--sample", type=int, default=1, metavar="N", help="of N tests, one")
    third = commands.add_parser("compare", help="two results side by side")
    third.add_argument("ours", type=Path)
    third.add_argument("pips", type=Path)
    options = parser.parse_args()
    if options.command == "prepare":
        return prepare(options.folder, options.python_version)
    return run(options) if options.command == "run" else compare(options.ours, options.pips)


def prepare(folder: Path, python_version: str) -> int:
    """pip's own exit code, and its own words."""
    words = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--upgrade"]
    words += ["--python-version", python_version, "--target", str(folder), "-r", str(HERE / "upstream.txt")]
    return subprocess.run([sys.executable, "-m", "pip", "install", *words], check=False).returncode


def run(options: argparse.Namespace) -> int:
    python = options.python.absolute()  # not resolved: a venv's interpreter is a link
    if not (options.folder / "pytest").is_dir():
        print(f"error: {options.folder} has no pytest\nnext: upstream.py prepare {options.folder}", file=sys.stderr)
        return 2
    machine = detect()  # also loads the driver's library, which `search_path` looks for
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="upstream-") as scratch:
        environment = clean(python, options.folder.resolve(), Path(scratch))
        asked = subprocess.run(
            [python, "-s", "-c", _LIST, *PROJECTS], env=environment, capture_output=True, text=True, check=False
        )
        if asked.returncode:
            print(f"error: {python} does not work\n{asked.stderr}", file=sys.stderr)
            return 2
        about = json.loads(asked.stdout)
        modules = about.pop("modules")
        (Path(scratch) / "pytest.ini").write_text("[pytest]\n")
        settings = ["--import-mode=importlib", "-c", str(Path(scratch) / "pytest.ini"), "--pyargs"]
        if options.sources:
            sources = options.sources.resolve()
            modules = sorted(str(file.relative_to(sources)) for file in (sources / "tests").rglob("test_*.py"))
            settings = ["-c", str(sources / "pyproject.toml"), "--rootdir", str(sources)]
            environment["UPSTREAM_SOURCES"] = str(sources)
        environment["UPSTREAM_SAMPLE"] = str(options.sample)
        modules = [name for name in modules if not options.only or any(part in name for part in options.only)]
        tests: dict[str, dict[str, object]] = {}
        with ThreadPoolExecutor(options.jobs) as pool:
            work = [
                pool.submit(
                    run_module, python, m, settings, environment, Path(scratch), start + options.limit, options.each
                )
                for m in modules
            ]
            for module, future in zip(modules, work, strict=True):
                tests.update(future.result() or {module: {"outcome": "not run", "why": "the time was over"}})
    counts = Counter(test["outcome"] for test in tests.values())
    seconds = round(time.monotonic() - start, 1)
    found = {**about, "driver": machine.driver, "gpus": machine.gpus, "lacks": machine.lacks, "seconds": seconds}
    options.output.write_text(json.dumps({**found, "counts": counts, "tests": tests}, indent=1) + "\n")
    print(f"{len(modules)} modules in {seconds} s: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return 0


def clean(python: Path, folder: Path, scratch: Path) -> dict[str, str]:
    """What the tests see: their own interpreter, what they import, a home that is thrown away, and the driver."""
    prefix = python.parent.parent
    return {
        "PATH": os.pathsep.join([str(python.parent), "/usr/bin", "/bin"]),
        "PYTHONPATH": os.pathsep.join([str(folder), str(HERE)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "LANG": "C.UTF-8",
        **({"CONDA_PREFIX": str(prefix)} if (prefix / "conda-meta").is_dir() else {}),
        **{k: v for k, v in os.environ.items() if k == "CUDA_VISIBLE_DEVICES"},
        **search_path(),
    }


def run_module(
    python: Path,
    module: str,
    settings: list[str],
    environment: dict[str, str],
    scratch: Path,
    end: float,
    each: float,
) -> dict[str, dict[str, object]]:
    """Every test of a module, in as many processes as it takes; empty when there was no time to begin."""
    name = module.replace("/", ".")
    results, folder = scratch / f"{name}.jsonl", scratch / name
    folder.mkdir()
    command = [python, "-s", "-X", "faulthandler", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    sources = environment.get("UPSTREAM_SOURCES")
    command += ["-p", "upstream_plugin", *settings, str(Path(sources, module)) if sources else module]
    stated = {**environment, "UPSTREAM_RESULTS": str(results), "UPSTREAM_MODULE": module}
    killed: dict[str, dict[str, object]] = {}
    while (left := min(each, end - time.monotonic())) > 0:
        code, said = _process(command, stated, folder, left)
        stopped = [id for id, lines in _read(results).items() if not _ended(lines) and id not in killed]
        if code in (0, 1, 5):  # pytest's own: passed, failed, nothing left to run
            break
        if code is None and time.monotonic() >= end:
            break  # cut off by the limit for everything, which says nothing of the test
        if not stopped:
            # Not in a test: the module cannot be collected, or pytest does not start.
            if not _read(results):
                outcome = "timeout" if code is None else "error"
                killed[module] = {"outcome": outcome, "why": said}
            break
        for id in stopped:
            killed[id] = {"outcome": "timeout" if code is None else "crashed", "why": said}
    return {**{id: _test(lines) for id, lines in _read(results).items()}, **killed}


def _process(
    command: list[object], environment: dict[str, str], folder: Path, seconds: float
) -> tuple[int | None, str]:
    """Exit code, None when it was killed for its time, and what it said last. Its children die with it."""
    with (folder / "output").open("w+", errors="replace") as output:
        child = subprocess.Popen(
            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, 9)
            child.wait()
        output.seek(0)
        said = output.read()
        fatal = said.find("Fatal Python error")  # faulthandler's, with the stack behind it
        return code, said[fatal : fatal + 2000] if fatal >= 0 else said[-2000:]


def _read(results: Path) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = {}
    for line in results.read_text().splitlines() if results.exists() else ():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:  # cut off when the process was killed
            continue
        found.setdefault(entry["id"], []).append(entry)
    return found


def _ended(lines: list[dict[str, object]]) -> bool:
    """Whether a test came to its end; a module that cannot be collected did."""
    return any(line["outcome"] == "ended" for line in lines) or all(line["outcome"] != "started" for line in lines)


def _test(lines: list[dict[str, object]]) -> dict[str, object]:
    """One test, of the lines of its phases and subtests."""
    phases = [line for line in lines if line["outcome"] in WORST]
    if not _ended(lines) or not phases:
        return {"outcome": "not run", "why": "the time was over"}
    worst = max(phases, key=lambda line: WORST.index(str(line["outcome"])))
    seconds = round(sum(float(str(line["seconds"])) for line in phases), 3)
    return {"outcome": worst["outcome"], "why": worst["why"], "seconds": seconds}


def compare(*files: Path) -> int:
    """Prints both sides of every test as a Markdown table, and the tests that are worse in one of them."""
    try:
        sides = [json.loads(file.read_text()) for file in files]
        left, right = (side["tests"] for side in sides)
        python = [side["python"] for side in sides]
        projects = [side["projects"] for side in sides]
    except (OSError, ValueError, TypeError, KeyError):
        print("error: these are no two results\nnext: write them with upstream.py run", file=sys.stderr)
        return 2
    print("|  | ours | pip's |\n| --- | --- | --- |")
    for name in sorted({*projects[0], *projects[1]}):
        shown = ["not there", "not there"]
        for side, project in enumerate(projects):
            if name in project:
                shown[side] = f"{project[name]['version']}, {project[name]['modules'] or 'no'} test modules"
        print(f"| {name} | {' | '.join(shown)} |")
    print(f"| Python | {' | '.join(python)} |")
    for outcome in OUTCOMES:
        numbers = [sum(test["outcome"] == outcome for test in tests.values()) for tests in (left, right)]
        if any(numbers):
            print(f"| {outcome} | {numbers[0]} | {numbers[1]} |")
    found: dict[str, list[str]] = {"worse in ours": [], "fails in pip's only": [], "fails in both": []}
    for name in sorted({*left, *right}):
        here, there = (tests.get(name, {"outcome": "not run"})["outcome"] for tests in (left, right))
        lost = here in ("not run", "skipped") and there in ("passed", "xfailed")
        if here in BAD or there in BAD or lost:
            kind = "fails in both" if here in BAD and there in BAD else "worse in ours"
            kind = kind if here in BAD or lost else "fails in pip's only"
            found[kind].append(f"  {name}: {here}, pip's {there}")
            if kind == "worse in ours":
                found[kind] += [f"    {line}" for line in str(left.get(name, {}).get("why", "")).splitlines()[-3:]]
    for kind, lines in found.items():
        print(f"\n{kind}: {sum(not line.startswith('    ') for line in lines)}", *lines, sep="\n")
    return 1 if found["worse in ours"] else 0


if __name__ == "__main__":
    sys.exit(main())
