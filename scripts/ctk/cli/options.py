"""Options and objects that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctk.core.paths import Workspace

Releases = Annotated[
    list[str] | None, typer.Option("--release", "-r", help="CTK minor such as 13.4, or python-13; may be repeated.")
]
Recipes = Annotated[list[str] | None, typer.Option("--recipe", help="Folder name below recipes/; may be repeated.")]
Platforms = Annotated[
    list[str] | None,
    typer.Option("--platform", "-p", help="linux-64, linux-aarch64, win-64 or win-arm64; may be repeated."),
]
Pythons = Annotated[list[str] | None, typer.Option("--python", help="Such as 3.12 or 3.14t; may be repeated.")]
AllReleases = Annotated[
    bool, typer.Option("--all-releases", help="Every locked release; without it and --release, the default ones.")
]
AllComponents = Annotated[
    bool, typer.Option("--all-components", help="Every recipe; without it and --recipe, the default ones.")
]
Base = Annotated[
    str,
    typer.Option(
        "--base",
        help="Channel with python, numpy and so on: a name like conda-forge, a URL, a folder, or 'local' to make one.",
    ),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="How many at a time; as many as cores by default.")
]
Driver = Annotated[
    str | None,
    typer.Option("--driver", help="CUDA version of the driver, such as 12.4, or none; this machine's by default."),
]


def base_channel(base: str, workspace: Workspace) -> Path | str:
    """The base channel that --base names: the one made here, a folder, or whatever a client understands."""
    if base == "local":
        return workspace.base_channel
    return Path(base).resolve() if Path(base).is_dir() else base
