"""`ctk build-recipe` and `ctk lint`: for authors of recipes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ctk.cli.options import Jobs, RecipeOptions, not_both, with_options


@with_options
def build_recipe_command(
    recipe: Annotated[
        Path, typer.Argument(help="A recipe.yaml, or the folder that has it.", metavar="DIR")
    ],
    options: RecipeOptions,
) -> None:
    """Build a recipe (recipe.yaml) against the channel, test it, and say where its packages run.

    Each build is tested as on machines with the oldest and the newest driver that it is for. Then
    the output of ctk gpu-code and ctk solve --everywhere follows for each package.

    Examples: ctk build-recipe ./examples/cpp-extension
    ctk build-recipe ./my-recipe --cuda 12 --cuda 13.0 --driver 12.8 --output ./packages

    JSON:
    - `recipe` (its file), `output`, `log`, `notes` (what is left out)
    - `packages`: one for each build: `file`, `toolkit` (that it was built with), `variant` (key ->
      value), `requires`, `seconds`, `notes` (mistakes that its log shows)
      - `tests`: for each `driver` (`null` is none) `state` (`passed`, `failed`; `none`, if no
        test runs in an environment; `refused`, if it does not install), `toolkit` and `fit` of the
        environment, `detail`, `lacks` (libraries that it needs and the environment lacks)
      - `gpu_code`: as `subjects` of `ctk gpu-code`
    - `surveys`: as those of `ctk solve --everywhere`, one for each package
    """
    # Late: what a command does takes a second to import, and its help does without.
    from ctk.cli.work.recipe import build_recipe

    build_recipe(recipe, options)


class LintFormat(StrEnum):
    """The form in which findings of the lint are printed."""

    text = "text"
    github = "github"


Checks = Annotated[
    list[str] | None,
    typer.Option(help="Run this check only (see --list); may be repeated."),
]
ListOfChecks = Annotated[
    bool, typer.Option("--list", help="List the checks with their help and exit.")
]
Format = Annotated[
    LintFormat,
    typer.Option("--format", help="As lines, or as annotations of a GitHub workflow."),
]
Planned = Annotated[
    bool,
    typer.Option(
        "--planned",
        help=(
            "Instead, audit every package of every release and platform, unbuilt; --check takes"
            " the rules of "
            "`ctk check --list`."
        ),
    ),
]


def lint_command(
    check: Checks = None,
    list_: ListOfChecks = False,
    format_: Format = LintFormat.text,
    planned: Planned = False,
    jobs: Jobs = None,
) -> None:
    """Check recipes, release locks and variant files against the rules, before you build.

    Each finding names the fix.

    Examples: ctk lint --check DevHasRunExports
    ctk lint --planned

    JSON:
    - `ok`, `files` (how many), `seconds`
    - `checks`: how many were run; with `--list` a list of `check`, `kind`, `help` and `fix`
    - `findings`: `file`, `line`, `column`, `check`, `severity` (`error` or `hint`), `message`,
      `fix`

    With `--planned`: as `ctk check` of packages.
    """
    is_listed = list_ or format_ is not LintFormat.text
    not_both("--planned", "--list and --format", planned and is_listed)
    # Late: what a command does takes a second to import, and its help does without.
    from ctk.cli.work import lint

    if planned:
        lint.audit_planned(check or (), jobs)
    elif list_:
        lint.list_checks()
    else:
        lint.lint_files(check or (), as_annotations=format_ is LintFormat.github)
