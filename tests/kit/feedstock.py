"""A feedstock of somebody else, built against channels as `ctk build-recipe` builds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from rattler import Gateway

from ctk.authors.order import order
from ctk.authors.run import Made, Workshop
from ctk.core.checkout import Workspace
from ctk.core.errors import BuildFailed, UnknownName
from ctk.core.platforms import this_platform
from ctk.package.reader import IndexJson
from ctk.plan.recipes import Recipe
from ctk.solve.solve import Catalogue, Pick, Scenario, solve


@dataclass(frozen=True)
class Feedstock:
    """A built feedstock.

    Attributes:
        channels: Its own channel, then those that it was built against.
        made: CUDA major -> what was made.
        shop: Where it was made.
        gateway: Reads the channels once.
    """

    channels: tuple[Path, ...]
    made: Mapping[str, Made]
    shop: Workshop
    gateway: Gateway

    @property
    def packages(self) -> dict[str, Path]:
        """CUDA major -> the package."""
        return {major: one.file for major, one in self.made.items()}

    def index(self, major: str) -> IndexJson:
        return self.made[major].index

    def pick(self, *specs: str, driver: str | None = None, arch: str | None = None) -> Pick:
        return solve(Scenario(specs, this_platform(), driver, arch), self.channels, self.gateway)

    def run_tests(self, major: str) -> None:
        """The tests that its recipe has, as on a machine without a driver."""
        (tested,) = self.shop.test([self.made[major]], [None])
        assert tested.state == "passed", tested.detail


def build(
    recipe: Recipe,
    variant_files: Sequence[Path],
    own: Path,
    channels: Sequence[Path],
    where: Workspace,
) -> Feedstock:
    """Builds every variant of a feedstock for this machine's platform and Python.

    Its tests are not run.

    Args:
        recipe: The feedstock.
        variant_files: In rising precedence.
        own: An empty folder, in which its channel is made.
        channels: What it may depend on, in order of priority.
        where: The checkout, for its cache.
    """
    against = Catalogue(channels, this_platform())
    (folder := own / "channel").mkdir()
    try:
        ordered = order(recipe, variant_files, against, own)
    except UnknownName as error:  # run-exports are held by test_picks and the golden files
        pytest.skip(error.cause)
    shop = Workshop(ordered, against, folder, where, own / "log")
    try:
        made = {one.variant.toolkit.partition(".")[0]: one for one in shop.build()}
    except BuildFailed as error:
        pytest.fail(error.cause, pytrace=False)
    return Feedstock((folder, *channels), made, shop, Gateway())
