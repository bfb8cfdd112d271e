"""What a pick is on a machine: native or compat, and what limits it.

This is decided here once, as data. Those who print it have the words: `ctk.solve.why` and
`ctk.solve.builds`, `ctk.site.answers`, `ctk.verify.table`, `ctk.env.check`. `ctk.verify.oracle`
decides it again on purpose, to be held against this.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ctk.solve.machine import Machine
from ctk.solve.solve import ChannelToolkit, Pick, Scenario, older, parse_spec


class LimitedBy(StrEnum):
    """What limits a toolkit on a machine."""

    NO_DRIVER = "no-driver"  # its machine code runs where a driver is
    DRIVER = "driver"  # it refuses the toolkit's PTX, which is newer than it (error 222)
    DRIVER_AND_GPU = "driver-and-gpu"  # as above, and the compiler does not know the GPU
    # The compiler does not know the GPU, and the driver loads its PTX.
    GPU_OLDER = "gpu-older"  # than all that it knows
    GPU_BETWEEN = "gpu-between"  # it knows older and newer ones
    GPU_NEWER = "gpu-newer"  # than all that it knows
    # Nothing does:
    AS_ASKED = "as-asked-for"  # the request names a compat build
    PACKAGES = "packages"  # a package has no build for the native toolkit

    @property
    def is_driver(self) -> bool:
        """Whether a newer driver, or one at all, changes it."""
        return self in (LimitedBy.NO_DRIVER, LimitedBy.DRIVER, LimitedBy.DRIVER_AND_GPU)

    @property
    def is_gpu(self) -> bool:
        """Whether another GPU changes it."""
        return self is LimitedBy.DRIVER_AND_GPU or self in _UNKNOWN_GPU


_UNKNOWN_GPU = (LimitedBy.GPU_OLDER, LimitedBy.GPU_BETWEEN, LimitedBy.GPU_NEWER)


@dataclass(frozen=True)
class Fit:
    """What a toolkit is on a machine.

    Attributes:
        toolkit: Its minor, such as 13.0.
        is_native: Whether it is native there; else it is compat.
        limit: What limits it; None for a native toolkit.
        below: The newest GPU that it compiles for and that is older than the machine's; "" if there
            is none, or if the machine's GPU is not known.
        above: The oldest GPU that it compiles for and that is newer, in the same way.
    """

    toolkit: str
    is_native: bool
    limit: LimitedBy | None = None
    below: str = ""
    above: str = ""


def fit_of(pick: Pick, machine: Scenario | Machine, toolkit: ChannelToolkit | None) -> Fit | None:
    """What a pick is on a machine; None for a pick without CUDA.

    The build of cuda-version says native or compat. That of another channel, such as conda-forge,
    has no such builds: there the driver and the GPU decide.

    Args:
        pick: The pick.
        machine: The machine that it runs on: the pick's, or another one.
        toolkit: The toolkit of the pick, as its channel has it.
    """
    if toolkit is None:
        return None
    limit = limit_on(machine.driver, machine.arch, toolkit)
    is_native = pick.fit == "native" or (not pick.fit and limit is None)
    if is_native:
        return Fit(toolkit.version, is_native)
    below, above = toolkit.beside(machine.arch) if machine.arch else ("", "")
    return Fit(toolkit.version, is_native, limit or _chosen_by(pick), below, above)


def _chosen_by(pick: Pick) -> LimitedBy:
    """What chose a compat toolkit that no machine limits: the request, or a package of it."""
    builds = [parse_spec(text).build for text in pick.scenario.specs]
    is_asked = any("compat" in build for build in builds)
    return LimitedBy.AS_ASKED if is_asked else LimitedBy.PACKAGES


def limit_on(driver: str | None, gpu: str | None, toolkit: ChannelToolkit) -> LimitedBy | None:
    """What keeps a toolkit from being native on a machine; None if nothing does.

    Args:
        driver: The newest CUDA version that the driver supports; None without a driver.
        gpu: Compute capability; None if it is not known.
        toolkit: The toolkit. Without GPUs it is taken to know every GPU.
    """
    if not driver:
        return LimitedBy.NO_DRIVER
    is_refused = older(driver, toolkit.driver or toolkit.version)
    is_unknown = gpu is not None and not toolkit.knows(gpu)
    if is_refused:
        return LimitedBy.DRIVER_AND_GPU if is_unknown else LimitedBy.DRIVER
    return _unknown_gpu(gpu, toolkit) if gpu is not None and is_unknown else None


def _unknown_gpu(gpu: str, toolkit: ChannelToolkit) -> LimitedBy:
    below, above = toolkit.beside(gpu)
    if not below:
        return LimitedBy.GPU_OLDER
    return LimitedBy.GPU_BETWEEN if above else LimitedBy.GPU_NEWER
