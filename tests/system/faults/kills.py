"""Kills the main job at random points, and looks at what is left: `scripts/test-faults --points 200
--seed 1`.

Half of the points are moments, spread over the whole time of the job. The other half are changes of
the disk, spread over the steps that make them: the process is killed right before it renames, links
or writes something. Each kill is SIGKILL, either for all processes of the run at once, or for the
main process only, so that its builds are orphans.

After each kill the channel must be whole, as it was or as it shall be; the next run must end well,
and leave the same bytes as a run that nothing disturbed, and no process.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from kit.job import STEPS, Job, Outcome, Point, Undisturbed
from kit.world import NEW, built_world, publish_release, serve


def points(number: int, right: Undisturbed, chance: random.Random) -> list[Point]:
    """That many points: moments of the whole run and changes of each step in turn, whoever is
    killed in turn.
    """
    moments = (number + 1) // 2
    found = [Point("", *right.moment((i + chance.random()) / moments)) for i in range(moments)]
    steps = [s for s in STEPS if right.changes.get(s)]
    # One step after another; the last one first, which is the shortest.
    found += [
        Point("", change=chance.choice(right.changes[steps[-1 - i % len(steps)]]))
        for i in range(number // 2)
    ]
    return [replace(point, whom=("group", "main")[i % 2]) for i, point in enumerate(found)]


def run(job: Job, right: Undisturbed, chosen: Sequence[Point], console: Console) -> list[Outcome]:
    """Kills at one point after another, and shows each; what was done until somebody stops it."""
    outcomes: list[Outcome] = []
    for signal_ in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_, signal.default_int_handler)
    try:
        for number, point in enumerate(chosen, 1):
            outcomes.append(job.killed(point, right))
            console.print(
                f"{number}/{len(chosen)} killed {point} at: {outcomes[-1].step}", markup=False
            )
            for line in outcomes[-1].complaints:
                console.print(line, style="bold red", markup=False, soft_wrap=True)
    except KeyboardInterrupt:
        console.print("stopped")
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=200, help="how many kills (200)")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the random numbers; by default another each time"
    )
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    with tempfile.TemporaryDirectory(prefix="ctk-kills-") as folder, serve() as index:
        world = built_world(Path(folder) / "checkout", index)
        publish_release(world, NEW, "1.9.3")
        job = Job(world)
        right = job.undisturbed()
        console.print(
            f"seed {seed}; the job takes {sum(right.seconds.values()):.1f} s when nothing"
            " disturbs it"
        )
        chance = random.Random(seed)
        chosen = points(options.points, right, chance)
        chance.shuffle(chosen)
        outcomes = run(job, right, chosen, console)
    console.print(dict(Counter(o.step for o in outcomes)))
    bad = sum(bool(o.complaints) for o in outcomes)
    console.print(
        f"{bad} of {len(outcomes)} kills did harm"
        if bad
        else f"none of {len(outcomes)} kills did any harm"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
