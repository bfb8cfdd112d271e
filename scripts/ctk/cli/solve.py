"""`ctk solve`: which packages a solver picks, for one machine, many, or an environment.

Each mode is a function of its own: picks, machines and change in cli/work.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctk.cli.options import (
    Arch,
    Base,
    Driver,
    OtherChannels,
    Python,
    Specs,
    not_both,
    with_json,
)
from ctk.core.errors import BadValue

SolvePlatforms = Annotated[
    list[str] | None,
    typer.Option(
        "--platform",
        "-p",
        help=(
            "The platform; this machine's by default. On another one no driver is assumed. With"
            " --everywhere: all "
            "of the channel by default; may be repeated."
        ),
    ),
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Say why this toolkit was picked and not a newer one.")
]
Everywhere = Annotated[
    bool,
    typer.Option(
        "--everywhere", help="Show on which drivers, GPUs and platforms it installs, and as what."
    ),
]
Pins = Annotated[
    list[str] | None,
    typer.Option(
        "--pin",
        help=(
            "Show everywhere what this spec besides would change, and fail if machines lose;"
            " may be repeated."
        ),
    ),
]
Drivers = Annotated[
    str | None,
    typer.Option(
        help=(
            "The drivers of a fleet, such as 12.4,13.0, each with each of --archs, or with its"
            " own GPU as in "
            "12.4:7.0,13.0:9.0: how few environments serve all?"
        )
    ),
]
Archs = Annotated[str | None, typer.Option(help="The GPUs of a fleet, such as 7.0,9.0.")]
Planned = Annotated[
    bool,
    typer.Option(
        "--planned", help="Solve against what recipes and release locks say, not what was built."
    ),
]
ChangedPrefix = Annotated[
    Path | None,
    typer.Option(
        "--prefix", help="Show what the specs would change in this environment, of any client."
    ),
]

_JSON = """\
- `request`; `machine`: `platform`, `driver`, `gpu`
- `toolkit` and `fit` (`native` or `compat`), `size`, `explain` (sentences, with `--explain`)
- `limit`: what limits a compat toolkit on the machine, or null: `kind` (`no-driver`, `driver`,
  `driver-and-gpu`, `gpu-older`, `gpu-between`, `gpu-newer`, `as-asked-for`)
- `reason`: only without a solution: `kind` (`not-built`, `unnamed-channel`, `no-platform`,
  `no-package`, `other-name`, `no-version`, `no-python`, `no-dependency`, `conflict`, `glibc`,
  `driver`, `gpu`, `driver-and-gpu`, `unknown`)
- `choices`: packages that have CUDA builds and CPU builds, of which the request should name
  one: `package`, `build` (of this pick, `cuda` or `cpu`); `cuda` and `cpu`: `spec`, `toolkit`,
  `fit`, or null if it cannot be installed
- `native_instead`: the native toolkit that is possible instead of this compat one, or null
- `not_built`: the toolkit that would be native and better, and that the channel of this
  checkout lacks, or null
- `support`: a sentence about a stated driver that no toolkit is for
- `packages`: `name`, `version`, `build`, `subdir`, `file`, `channel`, `size`, `sha256`

With `--everywhere` or `--pin`, instead:

- `request` (specs); `pins`
- `surveys`: one for each platform: `asked`, `platform`, `sentences`
  - `machines`: how many pairs of driver and GPU there are; `kinds`: how many of them get
    `native`, `compat`, `CPU build`, `no CUDA`, or are `refused`
  - `changes`: how many of them the pins have `lost`, `gained` or `changed`; `null` without a
    pin
  - `answers`: for each machine `driver`, `gpu`, `kind`, `toolkit`, `builds` (of what was asked
    for), `cpu` (packages that are CPU builds); with `--pin` also `pinned`, with the last four,
    and `change` (`null` for none)

With `--drivers`, instead:

- `request`, `notes` (what is printed below the environments)
- `machines`: a kind of machine each: `platform`, `driver`, `gpu`, `environment` (null if
  nothing can be installed), `alone`: `toolkit` and `fit` that it would get by itself
- `environments`: `name`, `toolkit`, `fit`, `variables` (name -> value), `specs`, `channels`,
  `files` (of the packages), `every_client` (false if only a client that knows the GPU picks the
  same)

With `--prefix`, instead:

- `request` (all that is asked for then), `prefix`, `machine`, `toolkit`, `fit`,
  `choices`, `reason` as above
- `added`, `removed`: `name`, `version`, `build`; `replaced`: `before` and `after`, with these
  three
- `worse`: `kind` (`native-to-compat`, `toolkit-older`, `toolkit-newer`, `toolkit-gone`,
  `python-changes`, `cuda-to-cpu`, `asked-for-gone`, `nvjitlink-leaves`), `before` and `after`
  (null where it is not there)
- `obstacle`: why the toolkit or Python cannot stay, or null; `steps`: command lines that do it
"""


@with_json(_JSON)
def solve_command(
    specs: Specs,
    driver: Driver = None,
    arch: Arch = None,
    platforms: SolvePlatforms = None,
    python: Python = None,
    why: Explain = False,
    everywhere: Everywhere = False,
    pins: Pins = None,
    drivers: Drivers = None,
    archs: Archs = None,
    as_planned: Planned = False,
    prefix: ChangedPrefix = None,
    channel: OtherChannels = None,
    base: Base = "local",
) -> None:
    """Show which packages a solver picks from the channel, on this machine or on another one.

    With --everywhere, show on which drivers, GPUs and platforms they install, and with --pin what a
    pin would change. Of a fleet, show the fewest environments that serve all of its machines, and
    what to type for each. With --prefix, show what the specs would add, remove and replace in an
    environment, whether it gets worse, and what to type.

    Examples: ctk solve cuda-version=12.6 numba-cuda --driver 12.9 --arch 7.0 --explain
    ctk solve cupy --everywhere --planned --pin "cuda-version >=13.4"  # an error
    ctk solve cuda-core --drivers 12.4:7.0,13.0:9.0
    ctk solve numba-cuda --prefix ./my-env
    """
    from ctk.cli.work import change, machines, picks

    everywhere = everywhere or bool(pins)
    not_both("--channel", "--planned", channel and as_planned)
    _refuse_mixed_modes(driver or arch, why, everywhere, drivers, archs)
    if len(platforms or ()) > 1 and not everywhere:
        raise BadValue("several platforms are for every machine", "add --everywhere")
    of_others = everywhere or drivers or as_planned or why
    not_both("--prefix", "--everywhere, --drivers, --planned or --explain", prefix and of_others)
    wanted = picks.wanted_specs(specs, python)
    platform = platforms[0] if platforms else None
    options = picks.ChannelOptions(tuple(channel or ()), base, as_planned)
    if prefix is not None:
        stated = change.Stated(driver, arch, options.channels, base)
        change.solve_in_prefix(prefix, wanted, platforms or (), stated)
    elif everywhere:
        machines.solve_everywhere(wanted, pins or (), platforms or (), options)
    elif drivers is not None:
        machines.solve_fleet(wanted, drivers, archs, platform, options)
    else:
        picks.solve_for_machine(specs, python, (platform, driver, arch), options, why)


def _refuse_mixed_modes(
    stated: str | None, why: bool, everywhere: bool, drivers: str | None, archs: str | None
) -> None:
    """Refuses options of one mode in another; `stated` is that of one machine."""
    not_both("--driver or --arch", "--drivers", drivers and stated)
    not_both("--explain", "--drivers", drivers and why)
    of_others = stated or why or drivers
    not_both(
        "--everywhere or --pin",
        "--driver, --explain, --drivers and the like",
        everywhere and of_others,
    )
    if archs is not None and drivers is None:
        step = f"add --drivers, as in --drivers 13.0 --archs {archs}"
        raise BadValue("--archs says nothing without --drivers", step)
