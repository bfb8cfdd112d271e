"""What cuda-core and numba-cuda cost from this channel and from pip: bytes, time to install, import, first kernel.

In a checkout with a channel, with the network, once: the packages of both picks and the wheels that pip would take for
the same request, with the same versions of numba and NumPy and the same Python:

    .venv/bin/python tests/gpu/tools/cost.py prepare FOLDER --toolkit 13.0 --driver 13.0 --arch 9.0

Then on the machine that is measured, with no network and nothing but Python and pip:

    python3 tests/gpu/tools/cost.py measure FOLDER --rounds 5 --markdown cost.md

    python3 tests/gpu/tools/cost.py pip FOLDER numba-cuda ENVIRONMENT/bin/python DIR   # pip's side alone, as a venv

Each round installs ours and pip's one after the other, from local files, with empty caches, so that both see what else
the machine does; shown are medians. pip compiles bytecode as it installs, which conda clients leave to the first
import: its time without is shown too, and bytes on disk are without bytecode. Ours brings Python itself, pip's has it
(the same one): bytes are shown with and without what conda-forge, or pip's index, has besides CUDA. Kernels are
measured where there is a GPU, and only there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE.parent), str(ROOT / "scripts")]

from gpu_machine import detect, search_path  # noqa: E402

REQUESTS = ("cuda-core", "numba-cuda")
IMPORTS = {"cuda-core": "import cuda.core", "numba-cuda": "from numba import cuda"}
_CUDA = ("cuda-", "cuda_", "nvidia-", "nvidia_", "numba-cuda", "numba_cuda")  # wheels; ours are those of our channel


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare", help="collect packages and wheels; needs the network")
    first.add_argument("folder", type=Path)
    first.add_argument("--channel", type=Path, default=ROOT / "output" / "channel")
    first.add_argument("--base", type=Path, default=ROOT / "output" / "base")
    first.add_argument("--toolkit", default="13.0", help="a CTK minor")
    first.add_argument("--driver", default="13.0", help="the CUDA version that the measured machine's driver supports")
    first.add_argument("--arch", default="9.0", help="compute capability of its GPU")
    first.add_argument("--client-python", default="3.12", help="the python3 of the measured machine, for rattler")
    second = commands.add_parser("measure", help="needs no network")
    second.add_argument("folder", type=Path)
    second.add_argument("--rounds", type=int, default=5)
    second.add_argument("--work", type=Path, help="where to install, on the disk that counts; default: a temporary one")
    second.add_argument("--json", type=Path)
    second.add_argument("--markdown", type=Path)
    third = commands.add_parser("pip", help="make a venv of pip's side, for upstream.py; needs no network")
    third.add_argument("folder", type=Path)
    third.add_argument("request", choices=REQUESTS)
    third.add_argument("python", type=Path, help="of the version that the wheels are for: an environment's")
    third.add_argument("venv", type=Path)
    options = parser.parse_args()
    if options.command == "prepare":
        import cost_prepare

        cost_prepare.prepare(options)
        return 0
    if not (options.folder / "plan.json").is_file():
        print(f"error: {options.folder} has no plan.json\nnext: cost.py prepare {options.folder}", file=sys.stderr)
        return 2
    if options.command == "pip":
        asked = json.loads((options.folder / "plan.json").read_text())["requests"][options.request]
        _pip(options.folder, asked["pip"], options.python, options.venv)
        return 0
    with tempfile.TemporaryDirectory(prefix="cost-", dir=options.work) as scratch:
        found = measure(options.folder.resolve(), Path(scratch), options.rounds)
    text = table(found)
    print(text)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(text + "\n")
    return 0


def measure(folder: Path, scratch: Path, rounds: int) -> dict[str, object]:
    """Everything, as the median of the rounds: seconds and bytes."""
    plan = json.loads((folder / "plan.json").read_text())
    machine = detect()
    client = _client(folder, scratch)
    found: dict[str, object] = {"machine": _words(machine.driver, machine.gpus), "rounds": rounds, "requests": {}}
    for request in REQUESTS:
        asked = plan["requests"][request]
        ours, pips = scratch / f"{request}-ours", scratch / f"{request}-pips"
        times: dict[str, list[float]] = {}

        def install_ours(asked: Mapping[str, list[str]] = asked, ours: Path = ours) -> None:
            shutil.rmtree(scratch / "cache", ignore_errors=True)
            shutil.rmtree(ours, ignore_errors=True)
            words = [f"--virtual={text}" for text in plan["virtual"]]
            words += ["--cache", str(scratch / "cache"), "--platform", plan["platform"], *asked["specs"]]
            _run([sys.executable, HERE / "cost_create.py", folder / "channel", ours, *words], PYTHONPATH=str(client))

        def install_pips(
            *more: str, asked: Mapping[str, list[str]] = asked, ours: Path = ours, pips: Path = pips
        ) -> None:
            shutil.rmtree(pips, ignore_errors=True)
            _pip(folder, [*more, *asked["pip"]], ours / "bin" / "python", pips)

        for _ in range(rounds):
            _clock(times, "ours: install", install_ours)
            _clock(times, "pip: install, no bytecode", lambda: install_pips("--no-compile"))
            _clock(times, "pip: install", install_pips)
        programs = {"import": ["-c", IMPORTS[request]]}
        if not machine.lacks:
            programs["first kernel"] = [HERE / "cost_kernels.py", request]
        for name, words in programs.items():
            for side in (ours, pips) * (rounds + 1):  # the first of each fills the page cache and is not counted
                what = f"{'ours' if side == ours else 'pip'}: {name}"
                _clock(times, what, lambda side=side, words=words: _use(side, words))
            for what in (f"ours: {name}", f"pip: {name}"):
                times[what] = times[what][1:]
        sizes = {
            "ours: download": asked["bytes"]["all"],
            "ours: download, CUDA": asked["bytes"]["cuda"],
            **{f"pip: download{key}": value for key, value in _wheels(folder / "wheels", pips).items()},
            "ours: disk": _disk([ours]),
            "ours: disk, CUDA": _disk(_ours_cuda(ours, asked["cuda"])),
            "pip: disk": _disk(pips.glob("lib/python3*/site-packages")),
            "pip: disk, CUDA": _disk(_pips_cuda(pips)),
        }
        medians = {what: statistics.median(values) for what, values in times.items()}
        found["requests"][request] = {"seconds": medians, "all seconds": times, "bytes": sizes}
    return found


def table(found: Mapping[str, object]) -> str:
    """The same as Markdown: MB are millions of bytes."""
    lines = [f"{found['machine']}; medians of {found['rounds']} rounds", ""]
    lines += ["| what | " + " | ".join(f"{r}, {side}" for r in REQUESTS for side in ("ours", "pip")) + " |"]
    lines += ["| --- |" + " --- |" * (2 * len(REQUESTS))]
    rows = [
        *((f"{what} (MB)", "bytes", what, 1e-6) for what in ("download", "download, CUDA", "disk", "disk, CUDA")),
        *(
            (f"{what} (s)", "seconds", what, 1)
            for what in ("install", "install, no bytecode", "import", "first kernel")
        ),
    ]
    for title, kind, what, factor in rows:
        values = [found["requests"][r][kind].get(f"{side}: {what}") for r in REQUESTS for side in ("ours", "pip")]
        absent = "no GPU" if "kernel" in what else ""
        cells = [absent if v is None else f"{v * factor:.{1 if kind == 'bytes' else 2}f}" for v in values]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _client(folder: Path, scratch: Path) -> Path:
    """Where rattler can be imported from; installed from the folder, without the network."""
    target = scratch / "client"
    words = ["--no-index", "--find-links", folder / "client", "--no-deps", "--target", target, "py-rattler"]
    _run([sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *words])
    return target


def _pip(folder: Path, words: list[str], python: Path, venv: Path) -> None:
    """A venv of an interpreter, filled by this Python's pip from the folder's wheels alone."""
    _run([python, "-m", "venv", "--without-pip", venv])
    pip = [sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "install", "-qq"]
    wheels = ["--no-index", "--find-links", folder / "wheels", "--no-cache-dir", "--only-binary", ":all:"]
    _run([*pip, "--disable-pip-version-check", "--no-warn-script-location", *wheels, *words])


def _use(side: Path, words: list[object]) -> None:
    prefix = {"CONDA_PREFIX": str(side)} if (side / "conda-meta").is_dir() else {}
    clean = {"PATH": f"{side / 'bin'}:/usr/bin:/bin", "HOME": str(side), "LANG": "C.UTF-8", **prefix, **search_path()}
    _run([side / "bin" / "python", "-I", *words], clean)


def _clock(times: dict[str, list[float]], what: str, work: Callable[[], None]) -> None:
    start = time.perf_counter()
    work()
    times.setdefault(what, []).append(time.perf_counter() - start)


def _run(command: list[object], environment: Mapping[str, str] | None = None, **more: str) -> None:
    stated = {**(os.environ if environment is None else environment), **more}
    done = subprocess.run(list(map(str, command)), env=stated, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: {' '.join(map(str, command))} ended with {done.returncode}\n{done.stderr[-3000:]}")


def _disk(paths: Iterable[Path]) -> int:
    """Bytes of all files below, each inode once, without links and bytecode. Folders and files may be mixed."""
    found: dict[tuple[int, int], int] = {}
    for path in paths:
        for file in path.rglob("*") if path.is_dir() else [path]:
            if file.is_file() and not file.is_symlink() and file.suffix != ".pyc":
                stat = file.stat()
                found[stat.st_dev, stat.st_ino] = stat.st_size
    return sum(found.values())


def _ours_cuda(prefix: Path, names: list[str]) -> Iterable[Path]:
    for record in (prefix / "conda-meta").glob("*.json"):
        package = json.loads(record.read_text())
        if package["name"] in names:
            yield from (prefix / file for file in package["files"])


def _pips_cuda(venv: Path) -> Iterable[Path]:
    for site in venv.glob("lib/python3*/site-packages"):
        for info in site.glob("*.dist-info"):
            if info.name.lower().startswith(_CUDA):
                lines = (info / "RECORD").read_text().splitlines()
                yield from (site / line.rsplit(",", 2)[0].strip('"') for line in lines)


def _wheels(folder: Path, venv: Path) -> dict[str, int]:
    """Bytes of the wheels that pip took: those whose name and version are installed."""
    taken = {i.name.removesuffix(".dist-info").lower() for i in venv.glob("lib/python3*/site-packages/*.dist-info")}
    files = [f for f in folder.glob("*.whl") if "-".join(f.name.split("-")[:2]).lower() in taken]
    cuda = [f for f in files if f.name.lower().startswith(_CUDA)]
    return {"": sum(f.stat().st_size for f in files), ", CUDA": sum(f.stat().st_size for f in cuda)}


def _words(driver: str | None, gpus: tuple[str, ...]) -> str:
    gpu = f"{len(gpus)} GPU of {gpus[0]}" if gpus else "no GPU"
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, " + (
        f"driver for CUDA {driver}, {gpu}" if driver else "no driver"
    )


if __name__ == "__main__":
    sys.exit(main())
