"""``ctk release``: locks of releases from the package index, measured facts, and changes between
two releases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctk.cli import options
from ctk.cli.options import Platforms
from ctk.core.checkout import Workspace, checkout, settings
from ctk.core.console import Reporter, Task, count, listing
from ctk.core.errors import BadValue, check_names, printable
from ctk.core.locks import exclusive
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.diff import FORMS
from ctk.index import pip_settings

if TYPE_CHECKING:  # slow imports, which `ctk release list` does not need
    from ctk.index.index import Index
    from ctk.lock.model import Artefact, ReleaseLock
    from ctk.release.review import FileChange

Write = Annotated[
    bool, typer.Option("--write", help="Write the files; without it only the difference is shown.")
]


def _names(help_: str) -> Any:
    return typer.Argument(help=help_, metavar="RELEASE")


def add_command(
    releases: Annotated[
        list[str] | None,
        _names("Toolkit releases like 13.4, or python-13, libraries-13, or base."),
    ] = None,
    newer: Annotated[
        bool,
        typer.Option(
            "--newer", help="Whatever the index has newer and whole, instead of naming releases."
        ),
    ] = False,
    write_: Write = False,
) -> None:
    """Lock the newest patch of toolkit minors, and the Python projects of their majors.

    Or the base channel. Shows the difference to the locks in place. Facts stay while the measured
    files stay the same. A release that is not complete on the index is refused. A line names
    changed licences; `ctk release diff` shows their texts.

    Example: ctk release add 12.9 13.4 --write

    JSON:
    - `releases` (names), `written`, `unmeasured` (minors); `changes`: `file`, `diff`
    - `unread_texts`: licence texts that nobody has read: `release`, `component`, `version`, `text`
      (sha256)
    """
    from ctk.diff.licences import licence_changes
    from ctk.index.index import Index
    from ctk.lock import contents
    from ctk.lock.facts import needs_measuring
    from ctk.release import release, review

    here, report = checkout(), Reporter()
    if releases and newer:
        raise BadValue(
            f"--newer chooses what to lock, and {', '.join(releases)} is named too",
            "leave out one of them",
        )
    if not releases and not newer:
        raise BadValue("nothing says what to lock", "name releases, or give --newer")
    made = []
    with Index() as index:
        for name in release.names_of(releases or _newer(index, here, report)):
            report.say(f"{name}: asking the package index")
            made.append(release.make(index, name, here))
    locks = release.in_place(here)
    licences = [
        f"{lock.name}, compared with {before.name}: {change}; release diff shows the text"
        for lock in made
        if (before := review.predecessor(locks, lock))
        for change in licence_changes(before, lock)
    ]
    for line in licences:
        report.line(line, "bold")
    _settle(made, here, report, write_)
    held = contents.load(here)
    unmeasured = [lock.minor or lock.name for lock in made if needs_measuring(lock, held)]
    if unmeasured:
        report.line(f"not measured: run `ctk release measure {' '.join(unmeasured)} --write`")
    report.result(unmeasured=unmeasured)
    _show_unread(made, report)


def _newer(index: Index, here: Workspace, report: Reporter) -> list[str]:
    """The releases with newer versions, without CTK releases that are not complete on the index."""
    from ctk.lock.model import release_locks
    from ctk.release import review

    locks = release_locks(here)
    found = sorted(
        {r.release.removeprefix("cuda-") for r in review.compare(index, locks, here) if r.is_newer}
    )
    for state in review.completeness(index, locks, [name for name in found if name[0].isdigit()]):
        if not state.published or state.published.missing:
            report.say(
                f"{state.minor} is not whole yet: `ctk release check {state.minor}` says what is"
                " missing"
            )
            found.remove(state.minor)
    return found


def measure_command(
    releases: Annotated[
        list[str] | None,
        _names("Toolkit releases like 13.4, or libraries-13, python-13; all without any."),
    ] = None,
    write_: Write = False,
    again: Annotated[
        bool, typer.Option("--again", help="Measure also what is measured already.")
    ] = False,
) -> None:
    """Measure the facts of releases from their artefacts: GPUs that NVRTC targets, PTX ISA, glibc,
    code for GPUs.

    Also their contents, for `ctk lint --planned`. Licence texts that nobody has read are named.
    Reads only files that are not measured yet. Files that are not in the cache are fetched one
    after another, 3 to 8 GB for a new release, and removed again. Needs a linux-64 machine, no GPU
    and no driver.

    Example: ctk release measure 13.4 --write

    JSON:
    - `releases`, `written`, `changes`, as `release add`; `facts`: release -> what was measured;
      `gpu_code`: release -> component -> platform -> the GPUs that its code runs on, as a version
      spec; `unread_texts`, as `release add`
    """
    from ctk.fetch.fetch import borrowed, missing
    from ctk.index.index import Index
    from ctk.lock import contents, facts
    from ctk.lock.model import find_release, release_locks
    from ctk.release.review import FileChange

    here, report = checkout(), Reporter()
    locks = release_locks(here)
    held = contents.load(here)
    measurable = {name: lock for name, lock in locks.items() if lock.is_measured}
    chosen = (
        [find_release(measurable, name) for name in releases]
        if releases
        else [*measurable.values()]
    )
    index, measured = partial(Index, pip_settings()), []
    for lock in chosen:
        if again:
            lock = replace(lock, facts=None, gpu_code={})
            for artefact in contents.to_read([lock]):
                held.artefacts.pop(artefact.sha256, None)
        elif not facts.needs_measuring(lock, held):
            report.say(f"{lock.name} is measured; --again measures it anew")
            continue
        size = sum(a.size for a in missing(facts.to_fetch(lock, held), here))
        with (
            exclusive(here, report.say),
            report.task(f"fetching for {lock.name}", size, bytes_=True) as task,
        ):
            at_hand = partial(
                borrowed, workspace=here, index=index, progress=partial(_advance, task)
            )
            measured.append(facts.measure(lock, held, locks.values(), at_hand, here.notes))
    held = held.of(artefact.sha256 for artefact in contents.to_read(locks.values()))
    beside = [FileChange.of(contents.path_of(here), held.dump())] if measured else []
    _settle(measured, here, report, write_, beside)
    _show_facts(measured, report, locks.values())
    report.result(
        facts={lock.name: asdict(lock.facts) for lock in measured if lock.facts},
        gpu_code={lock.name: lock.gpu_code for lock in measured},
    )
    _show_unread(locks.values(), report)


def _show_unread(locks: Iterable[ReleaseLock], report: Reporter) -> None:
    """Names the licence texts of some locks that nobody has read, and the next step."""
    from ctk.lock import redistribution

    measured = [lock for lock in locks if lock.is_measured]
    texts = list(redistribution.unread(redistribution.load(), measured))
    for text in texts:
        report.line(printable(str(text)))
    if texts:
        report.line(redistribution.NEXT_STEP)
    report.result(unread_texts=[asdict(text) for text in texts])


def _advance(task: Task, artefact: Artefact, received: int) -> None:
    task.advance(received)


def _settle(
    locks: Sequence[ReleaseLock],
    here: Workspace,
    report: Reporter,
    write_: bool,
    beside: Sequence[FileChange] = (),
) -> None:
    """Shows the changes, then writes them or says how to write them.

    Files `beside` are not shown.
    """
    from ctk.lock.model import path_of
    from ctk.release.review import changes, write

    proposed = [
        change for lock in locks for change in changes(path_of(here, lock.name).parent, lock)
    ]
    needed = [change for change in proposed if change.is_needed]
    for change in needed:
        for line in change.diff(here.root):
            report.line(printable(line))
    needed += [change for change in beside if change.is_needed]
    names = ", ".join(change.path.name for change in needed)
    report.result(
        releases=[lock.name for lock in locks],
        changes=[{"file": str(c.path), "diff": "\n".join(c.diff(here.root))} for c in needed],
        written=bool(needed) and write_,
    )
    if not needed:
        report.line("nothing changes")
    elif write_:
        with exclusive(here, report.say):
            write(needed)
        report.line(f"wrote {names}")
    else:
        report.line(f"nothing written; --write writes {names}")


def check_command(
    releases: Annotated[
        list[str] | None,
        _names("Toolkit releases like 13.4; by default the locked and the newer ones."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            help="Look also what packages of a channel such as conda-forge are compiled with."
        ),
    ] = None,
) -> None:
    """Show versions on the package index that are newer than the locks, and how complete each
    toolkit release is there.

    Without names of releases only what needs a look is shown, newer versions first; -v shows every
    row.

    Example: ctk release check 13.4

    JSON:
    - `rows`: `release`, `what`, `locked`, `lockable`, `newest`, `is_newer`, `held_back` (why the
      newest is not lockable), `older` (version that is lockable beside it -> why, in sentences);
      `newer`: the releases with newer rows
    - `releases`: `release`, `version`, `complete`, `wanted`, `missing`, `problem`
    - `compiled_with`: with `--base`, the newest toolkit of each CUDA major that packages of that
      channel are compiled with
    - `unread_texts`, as `release add`
    """
    from ctk.index.index import Index
    from ctk.lock.model import release_locks
    from ctk.release import release, review

    here, report = checkout(), Reporter()
    locks = release_locks(here)
    named = release.names_of(releases or ())
    minors = [name.removeprefix("cuda-") for name in named if name.startswith("cuda-")]
    with Index() as index:
        rows = review.compare(index, locks, here)
        # With names of Python projects only, no CTK release is asked for.
        states = review.completeness(index, locks, minors) if minors or not named else []
        states.sort(key=lambda state: state.is_whole)
        rows.sort(key=lambda row: (not row.is_newer, not row.held_back))
        shown = [row for row in rows if not named or row.release in named]
        newer = sorted({row.release for row in shown if row.is_newer})
    report.result(
        compiled_with=None,
        rows=[asdict(row) for row in shown],
        releases=[
            {
                "release": f"cuda-{state.minor}",
                "version": state.version,
                "complete": None if state.published is None else not state.published.missing,
                "wanted": state.published and state.published.wanted,
                "missing": state.published and state.published.missing,
                "problem": state.problem or None,
            }
            for state in states
        ],
        newer=newer,
    )
    rest = ""
    if not named and not report.verbose:
        whole = sum(state.is_whole for state in states)
        calm = sum(not row.is_newer and not row.held_back for row in shown)
        rest = (
            f"nothing to do for {count(calm, 'version')}; complete on the index:"
            f" {count(whole, 'toolkit release')}"
        )
        rest += " (-v: each)"
        shown, states = shown[: len(shown) - calm], states[: len(states) - whole]
    columns = ("release", "what", "locked", "would lock", "newest", "verdict")
    if shown:
        report.table("locks and the package index", columns, [row.cells for row in shown])
    for row in shown:
        for sentence in row.reasons:
            report.line(sentence)
    if states:
        words = ("release", "manifest", "on the index", "what is missing there")
        report.table(
            "completeness of the CUDA Toolkit releases", words, [state.cells for state in states]
        )
    for state in states:
        if state.problem:
            report.line(f"cuda-{state.minor}: {state.problem}")
    if rest:
        report.line(rest)
    if newer:
        command = (
            f"ctk release add {' '.join(name.removeprefix('cuda-') for name in newer)} --write"
        )
        report.line(f"to lock them: {command}")
    _show_unread([lock for lock in locks.values() if not named or lock.name in named], report)
    if base:
        known = settings(here.root).conda_forge.minors
        compiled = review.compiled_with(options.base_channel(base, here))
        report.result(compiled_with=compiled)
        if compiled != known:
            there = f"[tool.ctk.conda_forge] of pyproject.toml has {listing(known)}"
            report.line(
                f"{base} compiles with {listing(compiled)}, and {there}: change it; `ctk build`"
                " then makes these"
            )


def list_command() -> None:
    """Show the locked releases: how many components are packaged, left out on purpose, or neither,
    and their facts.

    Example: ctk release list

    JSON:
    - `releases`: `name`, `release`, `components` (name, or name-version of an older one ->
      version), `packaged`, `excluded`, `unclassified`, `facts`
    """
    from ctk.lock.model import release_locks

    here, report = checkout(), Reporter()
    locks = list(release_locks(here).values())
    _show_locks(locks, here, report)
    _show_facts(locks, report)


def _show_facts(
    locks: Sequence[ReleaseLock], report: Reporter, others: Collection[ReleaseLock] = ()
) -> None:
    """Shows the table of facts, if there is a CTK release.

    The GPUs of other locks are gaps in it.
    """
    from ctk.release import FACTS, facts_rows

    if rows := facts_rows(locks, others):
        report.table("measured of the CUDA Toolkit releases", FACTS, rows)


def _show_locks(locks: Sequence[ReleaseLock], here: Workspace, report: Reporter) -> None:
    from ctk.lock.components import EXCLUSIONS
    from ctk.plan.plan import classified

    classes, kinds = classified(here), ("packaged", "excluded", "unclassified")
    found = {
        lock.name: {
            kind: sorted(getattr(classes[lock.name], kind)) if lock.is_ctk else None
            for kind in kinds
        }
        for lock in locks
    }
    report.result(
        releases=[
            {
                "name": lock.name,
                "release": lock.release,
                "components": {
                    name: component.version for name, component in lock.components.items()
                },
                **found[lock.name],
                "facts": asdict(lock.facts) if lock.facts else None,
            }
            for lock in locks
        ],
    )
    columns, rows = ("release", "components", *kinds), []
    for lock in locks:
        names = found[lock.name]
        rows.append(
            (
                lock.release,
                len(lock.components),
                *("" if n is None else len(n) for n in names.values()),
            )
        )
        if names["unclassified"]:
            listed = ", ".join(names["unclassified"])
            report.line(f"{lock.name}: neither packaged nor in variants/{EXCLUSIONS}: {listed}")
    report.table("locks", columns, rows, right=columns[1:])


def diff_command(
    old: Annotated[str, typer.Argument(help=f"The first release: {FORMS}.", metavar="OLD")],
    new: Annotated[
        str,
        typer.Argument(help="The second release, written in one of the same ways.", metavar="NEW"),
    ],
    platforms: Platforms = None,
) -> None:
    """Show the changes between two releases: versions, SONAMEs, GPU architectures, sizes, licences.

    Prints Markdown. Compares the locks and variants/contents.json; only the texts of changed
    licences are read from the index. A SONAME, a component or a GPU architecture that is removed
    within a CUDA major is flagged.

    Examples: ctk release diff 13.3 13.4
    ctk release diff HEAD:13.4 13.4

    JSON:
    - `old`, `new`, `within_major`; `gpu_architectures` and `ptx_isa`, each with `old` and `new`;
      `gpu_code`: `component`, `platform`, `old`, `new`: the GPUs that its code runs on, where that
      changed
    - `components`: `components`, `platform`, `same`; `old` and `new`: `versions`, `size`, `glibc`
      and `sonames` (null if not measured)
    - `gone`: `kind`, `platform`, `place`, `text`
    - `licences`, one for each kind of change: `components`; `old` and `new`, as declared; `diff`:
      the lines that changed in the texts
    """
    from ctk.diff.compare import breaks, compare, find, same_kind
    from ctk.diff.licences import licence_changes
    from ctk.diff.render import as_json, markdown
    from ctk.index.index import Index
    from ctk.lock.model import release_locks

    here, report = checkout(), Reporter()
    subdirs = tuple(dict.fromkeys(platforms or [this_platform()]))
    check_names("platform", subdirs, PLATFORMS)
    first, second = find(old, here), find(new, here)
    same_kind(first.lock, second.lock)
    licences = licence_changes(first.lock, second.lock, Index)
    difference = replace(
        compare(first, second, subdirs, release_locks(here).values()), licences=licences
    )
    found = breaks(difference)
    report.result(**as_json(difference, found))
    report.line(markdown(difference, found).rstrip())
