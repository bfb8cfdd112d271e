"""`ctk solve`: which packages a solver picks, for one machine, many, or an environment.

Each mode is a function of its own: picks, machines and change in cli/work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctk.cli.options import (
    Base,
    EnvironmentName,
    OtherChannels,
    Python,
    Specs,
    not_both,
    with_json,
    with_options,
)
from ctk.cli.specs import is_file
from ctk.core.errors import BadValue

if TYPE_CHECKING:  # what it imports is slow to import
    from ctk.cli.work.picks import ChannelOptions

NewFile = Annotated[
    Path | None,
    typer.Option(
        "--write",
        metavar="NEW",
        help="Rewrite the file for this channel into NEW, and show the difference.",
    ),
]

SolvePlatforms = Annotated[
    list[str] | None,
    typer.Option(
        "--platform",
        help=(
            "The platform; this machine's by default. No driver is assumed on another platform."
            " May be repeated with --everywhere, whose default is all platforms of the channel."
        ),
    ),
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Say why this toolkit was picked and not a newer one.")
]
Everywhere = Annotated[
    bool,
    typer.Option(
        "--everywhere",
        help="Show on which drivers, GPUs and platforms the request installs, and what it gives.",
    ),
]
Pins = Annotated[
    list[str] | None,
    typer.Option(
        "--pin",
        help=(
            "Show on every machine what this additional spec would change, and fail if a machine"
            " loses by it; may be repeated."
        ),
    ),
]
Drivers = Annotated[
    list[str] | None,
    typer.Option(
        "--driver",
        help=(
            "CUDA version of the driver, such as 12.4, or none; this machine's by default. Repeat"
            " it for a fleet: each driver with each --arch, or 12.4:7.0 with this GPU only."
        ),
    ),
]
Archs = Annotated[
    list[str] | None,
    typer.Option(
        "--arch",
        help=(
            "Compute capability of the oldest GPU, such as 9.0 or sm_90, or none; this machine's by"
            " default, and not known where --driver is given. Repeat it for a fleet."
        ),
    ),
]
Planned = Annotated[
    bool,
    typer.Option(
        "--planned",
        help="Solve as if everything in the recipes and release locks were built.",
    ),
]
ChangedPrefix = Annotated[
    Path | None,
    typer.Option(
        "--prefix",
        help="Show what the specs would change in this environment, whichever client created it.",
    ),
]

_JSON = """\
- `request`; `machine`: `platform`, `driver`, `gpu`
- `toolkit` and `fit` (`native` or `compat`), `size`, `explain` (sentences, with `--explain`)
- `limit`: what limits a compat toolkit on the machine, or null: `kind` (`no-driver`, `driver`,
  `driver-and-gpu`, `gpu-older`, `gpu-between`, `gpu-newer`, `as-asked-for`,
  `packages`: one has no build for the native toolkit)
- `reason`: only without a solution: `kind` (`not-built`, `unnamed-channel`, `no-platform`,
  `no-package`, `other-name`, `no-version`, `hidden`, `no-python`, `no-dependency`, `conflict`,
  `glibc`, `driver`, `gpu`, `driver-and-gpu`, `unknown`)
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

Of several machines, instead:

- `request`, `notes` (what is printed below the environments)
- `machines`: a kind of machine each: `platform`, `driver`, `gpu`, `environment` (null if
  nothing can be installed), `alone`: `toolkit` and `fit` that it would get by itself,
  `not_built`: the toolkit that would be native and better, and that the channel of this
  checkout lacks, or null
- `environments`: `name`, `toolkit`, `fit`, `variables` (name -> value), `specs`, `channels`,
  `files` (of the packages), `every_client` (false if only a client that knows the GPU picks the
  same)

Of files, instead:

- `files`: for each file `file`, `format`, `environment` (or null), `environments` (their names),
  `others` (how many lines have nothing to do with CUDA), `missing` (packages that no channel
  has), `notes`, and `written` with `--write`
  - `lines`: those about CUDA: `line` (its number), `text`, `tool` (`conda` or `pip`),
    `package`, `answer` (`here`, `other-version`, `other-name`, `not-built`, `base`, `hidden`,
    `elsewhere`, `nowhere`, `pip`, `left`), `words`, `specs` (of conda, in its place; null if it
    stays as it is), `by_channel` (the same for a client with strict priority), `step` (or null),
    `lock` (a command that may lock the version that it asks for, or null)
  - `part` (`whole`, or `cuda` for its lines about CUDA), and what a request has, as above

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


@dataclass(frozen=True)
class MachineOptions:
    """The options of `ctk solve` for one machine."""

    drivers: Drivers = None
    archs: Archs = None
    platforms: SolvePlatforms = None
    python: Python = None

    @property
    def is_fleet(self) -> bool:
        """Whether several machines are stated, or one as DRIVER:GPU."""
        drivers = self.drivers or ()
        has_own_gpu = any(":" in driver for driver in drivers)
        return has_own_gpu or len(drivers) > 1 or len(self.archs or ()) > 1

    @property
    def driver(self) -> str | None:
        """The only --driver; of a fleet, that of the first machine."""
        return self.drivers[0].partition(":")[0] if self.drivers else None

    @property
    def arch(self) -> str | None:
        """The only --arch; of a fleet, that of the first machine."""
        own = self.drivers[0].partition(":")[2] if self.drivers else ""
        return own or (self.archs[0] if self.archs else None)

    @property
    def of_fleet(self) -> tuple[Sequence[str], Sequence[str], str | None]:
        """All of --driver and of --arch, and --platform."""
        return self.drivers or (), self.archs or (), self.stated[0]

    @property
    def stated(self) -> tuple[str | None, str | None, str | None]:
        """--platform, --driver and --arch."""
        platform = self.platforms[0] if self.platforms else None
        return platform, self.driver, self.arch


@dataclass(frozen=True)
class ModeOptions:
    """The options of `ctk solve` that choose what it shows."""

    why: Explain = False
    everywhere: Everywhere = False
    pins: Pins = None
    as_planned: Planned = False
    prefix: ChangedPrefix = None
    environment: EnvironmentName = None
    new: NewFile = None

    @property
    def is_everywhere(self) -> bool:
        """Whether every machine is asked."""
        return self.everywhere or bool(self.pins)

    def refuse_mixed(self, machine: MachineOptions, channels: Sequence[str]) -> None:
        """Refuses options of one mode in another."""
        not_both("--channel", "--planned", channels and self.as_planned)
        not_both("--explain", "several machines", machine.is_fleet and self.why)
        of_one_machine = machine.drivers or machine.archs or self.why
        not_both(
            "--everywhere or --pin",
            "--driver, --arch or --explain",
            self.is_everywhere and of_one_machine,
        )
        archs = machine.archs or []
        if len(archs) > 1 and not machine.drivers:
            step = f"add their driver, as in --driver 13.0 --arch {' --arch '.join(archs)}"
            raise BadValue("several GPUs are for several machines, and no driver is stated", step)
        if len(machine.platforms or ()) > 1 and not self.is_everywhere:
            raise BadValue("several platforms are for every machine", "add --everywhere")
        not_of_prefix = self.is_everywhere or machine.is_fleet or self.as_planned or self.why
        not_both(
            "--prefix",
            "--everywhere, several machines, --planned or --explain",
            self.prefix and not_of_prefix,
        )

    def refuse_for_files(self, files: Sequence[str], machine: MachineOptions) -> None:
        """Refuses options that say nothing of files, or nothing without one."""
        of_file = self.environment or self.new
        if of_file and not files:
            step = "name the file, as in `ctk solve environment.yml`"
            raise BadValue("--environment and --write apply to a file", step)
        others = self.is_everywhere or self.prefix or machine.python
        not_both("a file", "--everywhere, --pin, --prefix or --python", files and others)
        if len(files) > 1 and (of_file or machine.is_fleet):
            cause = "--environment, --write and several machines are for one file"
            raise BadValue(cause, "name one")


@with_json(_JSON)
@with_options
def solve_command(
    specs: Specs,
    machine: MachineOptions,
    modes: ModeOptions,
    channel: OtherChannels = None,
    base: Base = "local",
) -> None:
    """Show which packages a solver picks from the channel, for this machine or another one.

    With --everywhere, show on which drivers, GPUs and platforms the specs can be installed. With
    --pin, show what a pin would change. For a fleet (repeat --driver or --arch), show the fewest
    environments that serve all machines, and what to type for each. With --prefix, show what the
    specs would add, remove and replace in an environment, and what to type.

    Instead of specs, you can name files: environment.yml, pixi.toml, pyproject.toml,
    requirements.txt, an explicit list, conda-lock.yml, pixi.lock or pylock.toml. The command says
    what the channel has for each line about CUDA, and solves the file.

    Examples: ctk solve cuda-version=12.6 numba-cuda --driver 12.9 --arch 7.0 --explain
    ctk solve cupy --everywhere --planned --pin "cuda-version >=13.4"  # an error
    ctk solve cuda-core --driver 12.4:7.0 --driver 13.0:9.0
    ctk solve numba-cuda --prefix ./my-env
    """
    from ctk.cli.work.picks import ChannelOptions  # late: help does without

    names = [spec for spec in specs if is_file(spec)]
    modes.refuse_mixed(machine, channel or ())
    modes.refuse_for_files(names, machine)
    options = ChannelOptions(tuple(channel or ()), base, modes.as_planned)
    if modes.prefix is None:  # else it has the channels that it was made from
        options = options.known()
    if names:
        _solve_files(names, machine, modes, options)
    else:
        _solve_specs(specs, machine, modes, options)


def _solve_specs(
    specs: list[str], machine: MachineOptions, modes: ModeOptions, options: ChannelOptions
) -> None:
    """Solves specs, in the mode that was chosen."""
    from ctk.cli.work import picks  # late, as the others: a mode does without the rest

    wanted = picks.wanted_specs(specs, machine.python)
    if modes.prefix is not None:
        from ctk.cli.work import change

        stated = change.Stated(machine.driver, machine.arch, options.channels, options.base)
        change.solve_in_prefix(modes.prefix, wanted, machine.platforms or (), stated)
    elif modes.is_everywhere:
        from ctk.cli.work import machines

        machines.solve_everywhere(wanted, modes.pins or (), machine.platforms or (), options)
    elif machine.is_fleet:
        from ctk.cli.work import machines

        fleet = machines.stated_machines(*machine.of_fleet)
        machines.solve_fleet(wanted, fleet, options)
    else:
        picks.solve_for_machine(specs, machine.python, machine.stated, options, modes.why)


def _solve_files(
    names: Sequence[str], machine: MachineOptions, modes: ModeOptions, options: ChannelOptions
) -> None:
    """Answers and solves files."""
    from ctk.cli.work import files, files_read
    from ctk.cli.work.machines import stated_machines

    order = files_read.Order(modes.environment, machine.stated, options)
    paths = [Path(name) for name in names]
    if machine.is_fleet:
        fleet = stated_machines(*machine.of_fleet)
        files.solve_fleet_of(paths[0], order, fleet)
    else:
        files.solve_files(paths, order, modes.new, with_reasons=modes.why)
