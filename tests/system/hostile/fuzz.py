"""The coverage-guided run behind ``scripts/fuzz``: atheris changes what it has, and keeps what executes something new.

Each target is a process of its own, so that one that crashes or hangs ends nothing else; all are forks of this one,
where the modules are instrumented once. The corpus is below ``.cache/fuzz``, and the next run starts from it.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import atheris

if TYPE_CHECKING:
    from targets import Target

CACHE = Path(__file__).resolve().parents[3] / ".cache" / "fuzz"
# Megabytes of a process, seconds and bytes of one input.
LIMITS = ("-rss_limit_mb=2048", "-timeout=20", f"-max_len={1 << 16}")


def main() -> int:
    """The program: libFuzzer's own lines for each target, and 1 when something crashed."""
    with atheris.instrument_imports(include=["ctk", "ruamel", "packaging", "elftools"]):
        from targets import TARGETS
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz", description="Feeds the parsers of what others wrote, led by what they execute."
    )
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"all of them, unless some of {', '.join(TARGETS)} are named"
    )
    parser.add_argument("--seconds", type=int, default=600, help="how long in all (600)")
    options = parser.parse_args()
    names = options.targets or list(TARGETS)
    if unknown := [name for name in names if name not in TARGETS]:
        parser.error(f"no target: {' '.join(unknown)}")
    crashed = [name for name in names if run(name, TARGETS[name], max(1, options.seconds // len(names)))]
    print(f"crashed: {', '.join(crashed) or 'none'}")
    return int(bool(crashed))


def run(name: str, target: Target, seconds: int) -> int:
    """Fuzzes one target in a process of its own; its exit status."""
    corpus, crashes = CACHE / name / "corpus", CACHE / name / "crashes"
    for folder in (corpus, crashes):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    print(f"{name}: {seconds} s", flush=True)
    process = os.fork()
    if not process:
        fuzz(target, [f"-max_total_time={seconds}", f"-artifact_prefix={crashes}/", *LIMITS, str(corpus)])
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def fuzz(target: Target, options: list[str]) -> NoReturn:
    """What the process of a target does: libFuzzer's loop, which ends it."""
    try:
        atheris.Setup([sys.argv[0], *options], target)
        atheris.Fuzz()
    finally:
        os._exit(1)  # libFuzzer never comes back


if __name__ == "__main__":
    sys.exit(main())
