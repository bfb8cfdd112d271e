"""The programs of an environment: they activate it, run a command in it, compile its modules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ctk.core.children import run_program
from ctk.core.inside import place_in
from ctk.env.prefix import Installed, rewrite
from ctk.solve.solve import Pick

PROGRAMS = Path(__file__).parent / "programs"
"""Programs for an environment's own Python or shell, which import nothing of ctk.

Packs contain some of them.
"""
RUNNER = PROGRAMS / "run-in-environment"
"""Runs a command in the environment that it is in."""
ACTIVATION = {
    f"bin/{name}": PROGRAMS / name
    for name in ("activate", "activate-module", "deactivate", "activate.fish", RUNNER.name)
}
"""Path in an environment -> the program there."""
MODULE = "bin/activate-module"
"""The program that module files run."""
STARTUP = PROGRAMS / "_ctk_conda_prefix.pth"
"""Is read by each Python that finds it in its site-packages."""


def command_in(prefix: Path, command: Sequence[str]) -> list[str]:
    """The words that run a command in an activated environment, even if `RUNNER` is not in it."""
    # With -c, the word after the script is $0, from which the script takes its place.
    return [
        "sh",
        "-c",
        RUNNER.read_text(encoding="utf-8"),
        str(prefix / "bin" / RUNNER.name),
        *command,
    ]


def compile_modules(prefix: Path) -> str:
    """Compiles modules without bytecode with the environment's own Python.

    Returns why it could not, or "".
    """
    python = prefix / "bin/python"
    if not python.exists():
        return ""
    options = ["-I", "-S", "-B", "-W", "ignore"]
    try:
        done = run_program([python, *options, PROGRAMS / "bytecode.py", prefix])
    except OSError as error:
        return f"its Python does not start: {error.strerror}"
    if not done.returncode:
        return ""
    lines = done.stderr.splitlines() or ["nothing"]
    return f"its Python says {lines[-1]}"


def remove_bytecode(installed: Installed) -> None:
    """Removes the bytecode that `compile_modules` wrote.

    It would stay when its package is removed, and so would its folders.
    """
    prefix = installed.prefix
    own = installed.named_files
    for folder in [*prefix.glob("lib/python3*/**/__pycache__")]:
        if place_in(prefix, folder.relative_to(prefix).as_posix()) is None:
            continue
        if folder.is_symlink():  # Python would write through it
            folder.unlink()
            continue
        for file in folder.glob("*.pyc"):
            if file.relative_to(prefix).as_posix() not in own:
                file.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()


def write_activation(pick: Pick, prefix: Path) -> None:
    """Writes the programs that activate an environment, wherever it is moved to.

    Packs have them too.
    """
    if pick.record("conda"):  # the package has its own scripts
        return
    write_startup(prefix)
    for target, source in ACTIVATION.items():
        place = prefix / target
        place.parent.mkdir(exist_ok=True)
        rewrite(place, source.read_bytes())
    (prefix / "bin" / RUNNER.name).chmod(0o755)  # shells read the others


def write_startup(prefix: Path) -> None:
    """Makes the environment's Python set CONDA_PREFIX itself.

    An IDE or a service starts it by its path, not activated. cuda-pathfinder then takes headers and
    libNVVM from the environment, and not from CUDA_HOME or /usr/local/cuda.
    """
    for folder in prefix.glob("lib/python3*/site-packages"):
        startup = folder.relative_to(prefix) / STARTUP.name
        if not folder.parent.is_symlink() and place_in(prefix, startup.as_posix()):
            rewrite(folder / STARTUP.name, STARTUP.read_bytes())
