"""A difference as JSON, and as Markdown for a terminal or a pull request."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ctk.core.checkout import markdown_table
from ctk.core.console import count, listing, megabytes
from ctk.core.versions import version_key
from ctk.diff.compare import Break, ComponentChange, ReleaseDifference
from ctk.package.gpu_support import spans

COLUMNS = ("component", "version", "MB", "glibc", "SONAMEs")
LIMIT = 60_000
"""Characters of Markdown; GitHub refuses a description of more than 65,536."""

_LEGEND = "MB: download. + new, - gone."
_SPECIAL = re.compile(r"([\\`*_\[\]<|~&])")
_FENCE = "````"  # longer than one in a licence
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def title(difference: ReleaseDifference) -> str:
    kind = "CUDA Toolkit " if difference.new.is_ctk else ""
    return f"{kind}{difference.old.release} -> {difference.new.release}"


def summary(difference: ReleaseDifference, broken: Sequence[Break]) -> Iterator[str]:
    """The most important changes, a line each; first what is not known."""
    for name in difference.unmeasured:
        # A lock in git stays as it is.
        step = "" if ":" in name else f"; next: `ctk release measure {name} --write`"
        yield f"{name} is not measured{step}"
    for platform in difference.platforms:
        here = [c for c in difference.components if c.platform == platform]
        changed = sum(not c.same for c in here)
        size = _sizes(sum(c.old.size for c in here), sum(c.new.size for c in here))
        yield (
            f"{platform}: {changed} of {count(len(here), 'component')} changed; download in MB:"
            f" {size}"
        )
    yield from _facts(difference)
    for component, platform, was, now in difference.gpu_code:
        yield f"{component} on {platform}: its code is for GPUs {now}, and was for {was}"
    yield from map(str, difference.licences)
    yield from _notices(difference)
    if not difference.within_major:
        yield "another CUDA major: whatever is gone may be gone"
    elif broken:
        yield f"gone within the major: flagged in {count(len(broken), 'place')}"
    else:
        known = {
            "SONAME": all(change.is_measured for change in difference.components),
            "component": True,
            "GPU architecture": None not in difference.architectures,
        }
        yield f"gone within the major: no {listing([kind for kind in known if known[kind]], 'or')}"


def _facts(difference: ReleaseDifference) -> Iterator[str]:
    if not difference.new.is_ctk:
        return
    old, new = difference.architectures
    if old is None or new is None:
        yield "GPU architectures and PTX ISA: not measured"
        return
    changes = [f"+{gpu}" for gpu in new if gpu not in old]
    changes += [f"-{gpu}" for gpu in old if gpu not in new]
    same = f"the same, {spans(new, difference.known)}"
    yield f"GPU architectures: {' '.join(changes) or same}"
    first, second = difference.ptx_isa
    yield f"PTX ISA: {first} -> {second}" if first != second else f"PTX ISA: the same, {second}"


def _notices(difference: ReleaseDifference) -> Iterator[str]:
    several = len(difference.platforms) > 1
    notices: dict[str, list[str]] = {}
    for change in difference.components:
        old, new = change.old, change.new
        newer = old.glibc and new.glibc and version_key(new.glibc) > version_key(old.glibc)
        for notice, applies, text in (
            ("new components", new.versions and not old.versions, ""),
            ("components that are gone", old.versions and not new.versions, ""),
            ("newer glibc needed", newer, f" {_arrow(old.glibc, new.glibc)}"),
            ("SONAMEs not measured", not change.is_measured, ""),
        ):
            names = notices.setdefault(notice, [])
            if applies:
                platform = f" ({change.platform})" if several else ""
                names.append(f"{change.name}{platform}{text}")
    return (f"{notice}: {', '.join(names)}" for notice, names in notices.items() if names)


def _cells(change: ComponentChange) -> tuple[str, ...]:
    sonames = [f"+{name}" for name in change.added]
    sonames += [f"-{name}" for name in change.removed]
    return (
        change.name,
        _versions(change),
        _sizes(change.old.size, change.new.size),
        _arrow(change.old.glibc, change.new.glibc),
        " ".join(sonames),
    )


def _versions(change: ComponentChange) -> str:
    return _arrow(", ".join(change.old.versions), ", ".join(change.new.versions))


def _arrow(old: str | None, new: str | None) -> str:
    """``2.17 -> 2.27``; ``2.17`` if both are the same; None is not measured."""
    if old == new or not (old or new):
        return new or ""
    return " -> ".join(
        "not measured" if version is None else version or "none" for version in (old, new)
    )


def _sizes(old: int, new: int) -> str:
    """Bytes as megabytes, and the change in percent."""
    sizes = _arrow(megabytes(old) if old else "", megabytes(new) if new else "")
    is_shown = old and new and abs(new - old) >= old / 200
    return f"{sizes} ({(new - old) / old:+.0%})" if is_shown else sizes


def break_text(entry: Break) -> str:
    where = f"{entry.platform}: " if entry.platform else ""
    return f"{where}{entry.place}: {entry.text}"


def as_json(difference: ReleaseDifference, broken: Sequence[Break]) -> dict[str, Any]:
    """The difference for other programs; sizes in bytes."""
    return {
        "old": difference.old.release,
        "new": difference.new.release,
        "within_major": difference.within_major,
        "gpu_architectures": dict(zip(("old", "new"), difference.architectures, strict=True)),
        "ptx_isa": dict(zip(("old", "new"), difference.ptx_isa, strict=True)),
        "gpu_code": [
            dict(zip(("component", "platform", "old", "new"), row, strict=True))
            for row in difference.gpu_code
        ],
        "licences": [asdict(change) for change in difference.licences],
        "components": [
            {
                "components": change.components,
                "platform": change.platform,
                "same": change.same,
                "old": asdict(change.old),
                "new": asdict(change.new),
            }
            for change in difference.components
        ],
        "gone": [asdict(entry) for entry in broken],
    }


def markdown(difference: ReleaseDifference, broken: Sequence[Break]) -> str:
    """Summary, breaks, tables and changed licences as Markdown.

    A licence for which there is no room is left out.
    """
    parts = [f"### {text(title(difference))}\n", _bullets(summary(difference, broken))]
    if broken:
        parts.append("#### Gone within the major\n\n" + _bullets(map(break_text, broken)))
    for platform in difference.platforms:
        here = [c for c in difference.components if c.platform == platform]
        parts.append(f"#### {platform}\n")
        if rows := [_cells(change) for change in here if not change.same]:
            parts.append(f"{_table(COLUMNS, rows)}\n{text(_LEGEND)}\n")
        if same := [change.name for change in here if change.same]:
            parts.append(f"The same files: {text(', '.join(same))}\n")
    shown = "\n".join(parts)
    for change in difference.licences:
        block = _folded(str(change), change.diff)
        if change.diff and len(shown) + len(block) < LIMIT:
            shown += f"\n{block}"
    return shown


def text(plain: str) -> str:
    """Plain text, escaped for Markdown, in tables too; our own code spans stay."""
    parts = re.split(r"(`[^`|\\]*`)", _CONTROL.sub("?", plain))
    return "".join(part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in parts)


def _bullets(lines: Iterable[str]) -> str:
    return "".join(f"- {text(line)}\n" for line in lines)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown_table(tuple(heads), [tuple(map(text, row)) for row in rows])


def _folded(head: str, lines: Sequence[str]) -> str:
    """A block that is closed until a reader opens it."""
    shown = [_CONTROL.sub("?", line) for line in lines]
    first = f"<details><summary>{html.escape(head, quote=False)}</summary>\n"
    return "\n".join([first, _FENCE, *shown, _FENCE, "\n</details>\n"])
