"""Channels for files of users: the default set and all that can be built, beside conda-forge.

conda-forge is a stand-in: its GPU packages and RAPIDS' in the versions that they keep, and the
universe below them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.plan.conda_forge import other_channels
from ctk.plan.names import known_names
from ctk.plan.plan import (
    Request,
    plan,
    planned_repodata,
    published_set,
    python_tags,
    small,
    write_repodata,
)
from ctk.solve.advice import Checkout, CheckoutCatalogue
from ctk.solve.channels import makers, planned, universe
from kit import kept_channel
from kit.small_channel import write

SUBDIR = "linux-64"


def file_world(project: Workspace, folder: Path) -> CheckoutCatalogue:
    """The channels of a checkout with the default build, and conda-forge behind it.

    Args:
        project: The checkout.
        folder: Where the channels are written.
    """
    request = small(
        Request((), (), [SUBDIR], ()),
        project,
        all_releases=False,
        all_components=False,
        libraries=False,
    )
    made = plan(published_set(project), request, python_tags(project.build_config))
    ours = write_repodata(planned_repodata(made), folder / "channel")
    every = write_repodata(planned(project, [SUBDIR]), folder / "planned" / "channel")
    forge = [*kept_channel.records(project), *_universe()]
    base = write(folder / "conda-forge", iter(forge))
    names = partial(known_names, project)
    others = partial(other_channels, project)
    planned_checkout = Checkout(is_planned=True, known_names=names, other_channels=others)
    whole = CheckoutCatalogue([every, base], SUBDIR, planned_checkout)
    checkout = Checkout(
        maker=makers(project),
        planned=lambda: whole,
        known_names=names,
        other_channels=others,
    )
    return CheckoutCatalogue([ours, base], SUBDIR, checkout)


def _universe() -> list[dict[str, object]]:
    """The records of the universe."""
    return [
        dict(record)
        for content in universe().values()
        for kind in ("packages", "packages.conda")
        for record in content.get(kind, {}).values()
    ]
