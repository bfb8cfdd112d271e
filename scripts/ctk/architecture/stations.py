"""Which module belongs to which station, and which stations each may import: the one table behind the picture.

A station that is a step of the data's way has a number. It should know the step before it and none earlier; where one
reaches further back, `REACHES_BACK` says why. Everybody may import `SHARED`; nobody imports the command line.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Station:
    """Modules that do one thing together.

    Attributes:
        name: As docs and messages call it.
        does: What it does, in a few words that fit into its box.
        modules: Below ``ctk``; a package stands for all of its modules that are not named elsewhere.
        uses: The stations it may import, and does.
        row: Where it is drawn, from the top; it imports from rows above only.
        column: The same from the left.
        step: Which step of the data's way it is, from 1; None beside it.
    """

    name: str
    does: str
    modules: tuple[str, ...]
    uses: tuple[str, ...] = ()
    row: int = 0
    column: int = 0
    step: int | None = None


STATIONS = (
    Station(
        "contents",
        "wheels, packages, binaries",
        ("artefact", "binaries", "inside", "layout", "package", "pe", "upload_time"),
        row=0,
        column=1,
    ),
    Station(
        "solve",
        "rattler's pick, explained",
        ("catalogue", "explain", "machine", "solve", "unsolvable"),
        row=2,
        column=4,
    ),
    Station(
        "index",
        "asks the package index",
        ("index", "index_client", "index_file", "pip_config", "remote_file", "trickle"),
        ("contents",),
        row=1,
        column=2,
        step=1,
    ),
    Station(
        "lock",
        "reads and makes locks",
        (
            *("components", "exclusions", "facts", "licences", "lock", "lock_schema", "lock_text", "manifest"),
            *("nvrtc_probe", "projects", "proposal", "requirements", "wheels"),
        ),
        ("contents", "index"),
        row=2,
        column=2,
        step=2,
    ),
    Station(
        "plan",
        "recipes and locks to builds",
        ("dag", "plan", "project", "recipes", "render_cache", "rendered", "repodata"),
        ("lock",),
        row=3,
        column=3,
        step=3,
    ),
    Station(
        "fetch",
        "artefacts, checked",
        ("artefact.check", "fetch"),
        ("contents", "index", "lock"),
        row=3,
        column=1,
        step=4,
    ),
    Station(
        "difference",
        "what a release changes",
        ("difference",),
        ("contents", "fetch", "index", "lock"),
        row=4,
        column=0,
    ),
    Station(
        "base channel",
        "Python and what it needs",
        ("base", "compilers", "elf_edit", "interpreter"),
        ("fetch", "index", "lock", "plan"),
        row=4,
        column=1,
    ),
    Station(
        "provenance",
        "what decides the bytes",
        ("provenance", "sbom"),
        ("contents", "lock", "plan"),
        row=4,
        column=2,
    ),
    Station(
        "feedstock",
        "a recipe that stands alone",
        ("feedstock", "feedstock_recipe"),
        ("index", "lock", "plan"),
        row=4,
        column=3,
    ),
    Station(
        "verify",
        "every machine's pick",
        ("verify",),
        ("fetch", "index", "lock", "plan", "solve"),
        row=4,
        column=4,
        step=8,
    ),
    Station(
        "doctor",
        "what this machine lacks",
        ("doctor",),
        ("index", "lock", "solve"),
        row=3,
        column=4,
    ),
    Station(
        "releases",
        "what is new on the index",
        ("freshness", "release", "release_table"),
        ("base channel", "index", "lock", "plan"),
        row=5,
        column=1,
    ),
    Station(
        "build",
        "runs rattler-build",
        ("build", "building", "jobs"),
        ("fetch", "plan", "provenance"),
        row=5,
        column=2,
        step=5,
    ),
    Station(
        "lint",
        "rules before any build",
        ("lint",),
        ("lock", "plan", "provenance"),
        row=5,
        column=3,
    ),
    Station(
        "environment",
        "create, prove, pack",
        ("bytecode", "environment", "packing", "proof", "prove"),
        ("contents", "solve"),
        row=5,
        column=4,
    ),
    Station(
        "site",
        "pages: what to type",
        ("site",),
        ("audit", "contents", "difference", "lock", "releases", "solve", "verify"),
        row=7,
        column=2,
    ),
    Station("audit", "opens every package", ("audit",), ("contents",), row=6, column=0, step=6),
    Station(
        "rebuild",
        "the same bytes again",
        ("package_differences", "rebuild"),
        ("build", "contents", "fetch", "index", "plan", "provenance"),
        row=6,
        column=2,
    ),
    Station(
        "channel",
        "the old state or the new",
        ("channel", "history", "package_tests", "steady_index"),
        ("build", "contents", "solve"),
        row=6,
        column=3,
        step=7,
    ),
    Station(
        "pipeline",
        "one step after another",
        ("pipeline", "planned"),
        ("audit", "base channel", "build", "channel", "contents", "fetch", "index", "lock", "plan"),
        row=7,
        column=1,
    ),
    Station(
        "publish",
        "to a folder or a server",
        ("publish", "publishing", "upload"),
        ("channel", "plan"),
        row=7,
        column=3,
        step=9,
    ),
    Station(
        "check",
        "a channel against its index",
        ("check",),
        ("audit", "contents", "provenance", "publish"),
        row=8,
        column=3,
    ),
)

SHARED = Station(
    "shared",
    "what every station may use",
    (
        *("coroutines", "digest", "disk", "document", "durable", "errors", "figures", "marked", "notes", "orphans"),
        *("output", "pace", "paths", "platforms", "report", "retry", "runlock", "scratch", "settings", "tables"),
        "verdict",
    ),
)

COMMAND_LINE = Station(
    "command line",
    "imports from every station, and no station imports it",
    ("architecture", "cli", "command_line", "commands", "completion", "interrupt", "start"),
)

REACHES_BACK = {
    ("fetch", "lock"): "it can fetch what no plan asks for: to measure a release, or to compare two",
    ("fetch", "index"): "a lock names a file and its sha256; where the file lies, only the index knows",
    ("build", "plan"): "it carries out a plan; fetch lays out its artefacts and adds nothing to it",
    ("channel", "build"): "the audit accepts packages or refuses them, and hands nothing on",
    (
        "verify",
        "plan",
    ): "a set is verified before anything of it is built, from what the plan says its repodata will be",
    ("verify", "lock"): "the right pick follows from the measured facts of the locks alone",
    ("verify", "fetch"): "libsolv, the second solver, is compiled from a locked source",
    ("verify", "index"): "the same",
    ("publish", "channel"): "verify answers whether to publish, and changes nothing",
    ("publish", "plan"): "a taken file name is answered with the recipe whose build number has to rise",
}
