"""Checks of what conda-smithy reads: `conda-forge.yml`, for all recipes and of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING

from ctk.check.lint.check import TreeCheck
from ctk.check.lint.finding import Problem
from ctk.check.lint.source import mapping
from ctk.core.platforms import PLATFORMS

if TYPE_CHECKING:
    from ctk.check.lint.tree import Tree

_PLATFORMS = frozenset(s.replace("-", "_") for s in PLATFORMS)
# Of conda-smithy's published model of the file: the keys that are used here, and their values.
SETTINGS: Mapping[str, Set[str]] = {
    "conda_build_tool": {"rattler-build"},
    "provider": {"github_actions", "azure", "default", "native", "emulated", "None"},
    "build_platform": _PLATFORMS,
    "noarch_platforms": _PLATFORMS,
    "test": {"all", "native", "native_and_emulated"},
    "linter": {"lint_noarch_selectors", "hint_os_version", "hint_pip_no_build_backend", "hint_python_min"},
    "exclusive_config_file": {"recipe/conda_build_config.yaml"},
}


class SettingsAreKnown(TreeCheck):
    """A conda-forge.yml has keys and values of conda-smithy's model, of those that make sense for these recipes."""

    fix = "see https://conda-forge.org/docs/maintainer/conda_forge_yml, and scripts/ctk/check/lint/settings.py"

    def check(self, tree: Tree) -> Iterator[Problem]:
        for file in tree.settings:
            for key, value in file.top.items():
                if key not in SETTINGS:
                    yield file.problem((key,), f"there is no setting {key}")
                    continue
                values = list(value.values()) if isinstance(value, dict) else [value]
                for v in (v for x in values for v in (x if isinstance(x, list) else [x])):
                    if str(v) not in SETTINGS[key]:
                        yield file.problem((key,), f"{v!r} is no value of {key}")


class PlatformsHaveABuilder(TreeCheck):
    """Every platform of the channel is built by a machine that conda-forge.yml names a provider for."""

    fix = "add the platform below build_platform, or a provider for it"

    def check(self, tree: Tree) -> Iterator[Problem]:
        for file in tree.settings[:1]:
            built, providers = mapping(file.top.get("build_platform")), mapping(file.top.get("provider"))
            for platform in sorted(_PLATFORMS):
                if file.path.parent == tree.workspace.root and built.get(platform, platform) not in providers:
                    yield file.problem(("build_platform",), f"no machine builds {platform}")
