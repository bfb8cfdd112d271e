"""How each command of the docs is tried: the table that says which are not simply run, and why.

`ctk` lines are run in a copy of the checkout (test_commands.py), unless they begin as an entry of `NOT_RUN` does; then
they are parsed by the command itself, and the test that is named runs the like. Programs of others are in `OTHERS`.
"""

from __future__ import annotations

NOT_RUN: dict[tuple[str, ...], tuple[str, str]] = {
    # Beginning of the line -> why it is not run here, and the test that runs it.
    ("build",): ("minutes", "tests/docs/test_walk.py"),
    ("build-recipe",): ("half a minute each, or a recipe of yours", "tests/docs/test_example.py"),
    ("rebuild",): ("minutes", "tests/tooling/test_rebuild.py"),
    ("verify",): ("minutes", "tests/solver/test_verify.py"),
    ("audit",): ("reads a gigabyte", "tests/packages/test_audit_command.py"),
    ("gpu-code",): ("reads a gigabyte, or files that lie elsewhere", "tests/packages/test_gpu_code.py"),
    ("fetch",): ("needs the index", "tests/tooling/test_fetch.py"),
    ("site", "build"): ("minutes", "tests/site/test_pages.py"),
    ("env", "pack"): ("half a minute each", "tests/environments/test_packed.py"),
    ("env", "run"): ("needs an environment", "tests/tooling/test_environment.py"),
    ("env", "check"): ("needs an environment", "tests/tooling/test_environment_check.py"),
    ("channel", "check"): ("reads a gigabyte", "tests/docs/test_walk.py"),
    ("channel", "history", "/srv/www/cuda"): ("needs what was published there", "tests/docs/test_walk.py"),
    ("channel", "rollback"): ("needs what was published there", "tests/docs/test_walk.py"),
    ("publish", "--to"): ("copies a gigabyte", "tests/docs/test_walk.py"),
    ("publish", "--server"): ("needs a server", "tests/tooling/test_publish.py"),
    ("release", "add"): ("needs the index", "tests/docs/test_walk.py"),
    ("release", "check"): ("needs the index", "tests/docs/test_walk.py"),
    ("release", "diff"): ("reads the artefacts of two releases", "tests/tooling/test_difference_command.py"),
    ("release", "measure"): ("needs the index", "tests/docs/test_walk.py"),
    ("feedstock", "export"): ("needs the index", "tests/recipes/test_feedstock_export.py"),
    ("plan", "--release", "13.6"): ("the release is made up", "tests/docs/test_walk.py"),
}

CLIENTS = ("conda", "mamba", "pixi")
"""Solved against the planned channel, and their options held against those that the clients document."""

OTHERS: dict[str, str] = {
    # Program -> what is tried of it here.
    "ctk": "run, or parsed: see above",
    "python3": "the program of this repository exists and knows the options; `-m pytest` is only read",
    ".venv/bin/python": "the same",
    "PIP/bin/python": "an environment of pip's, which needs the index; tests/gpu/test_kernels.py runs the program",
    "there/nvidia/cu13/bin/cuobjdump": "tests/variants/test_measured_code.py runs it on the same libraries",
    ".venv/bin/pre-commit": "tests/tooling/test_pre_commit.py",
    "conda-lock": "tests/docs/test_environments.py runs it where it is on PATH",
    "export": "a variable, which a shell reads",
    "git": "run in tests/docs/test_walk.py",
    "nvcc": "tests/environments/test_nvcc.py runs each line of docs/recipe-reference.md, and the program",
    "rattler-build": "the folders and files that it is given exist",
    "sh": "a packed environment: tests/environments/test_packed.py and tests/tooling/test_unpack.py run them",
    "/opt/numba/bin/run-in-environment": "the same",
    ".": "the same",
    "dask": "tests/tooling/test_cluster.py starts a scheduler and workers with these programs",
}
"""Scripts of this repository (`./scripts/...`) are there, and their arguments are those that they take."""
