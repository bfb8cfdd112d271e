"""The answers about one package with one Python on one platform, as a small script that a page loads when it needs it.

A script and not JSON: a page opened from a folder may load the one and not the other. What it holds:

    records   [name, version, build, bytes, channel] of each package of any pick
    picks     lists of places in `records`
    texts     parts of sentences, which stand with a space between them
    lines     lists of places in `texts`
    answers   [pick or -1, toolkit, fit, title, reasons]; a title is a place in `lines`, reasons a list of such
    rows      for one driver and pin: the answers by GPU, as [answer, how many GPUs, answer, how many ...]
    grid      pin -> for each driver the place of its row
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Mapping
from itertools import groupby
from typing import Any, Generic, TypeVar

from ctk.site.answers import Answer
from ctk.site.axes import Axes, Question

T = TypeVar("T", bound=Hashable)


class _Numbered(Generic[T]):
    """Different things in the order they came, each known by its place."""

    def __init__(self) -> None:
        self.places: dict[T, int] = {}

    def place(self, thing: T) -> int:
        return self.places.setdefault(thing, len(self.places))


def shard(found: Iterable[tuple[Question, Answer]]) -> dict[str, Any]:
    """Answers as the page looks them up.

    Args:
        found: Every question about one package and Python, in the order of the axes.
    """
    records: _Numbered[tuple[str, str, str, int, str]] = _Numbered()
    picks: _Numbered[tuple[int, ...]] = _Numbered()
    texts: _Numbered[str] = _Numbered()
    lines: _Numbered[str] = _Numbered()
    kinds: _Numbered[Answer] = _Numbered()
    rows: _Numbered[tuple[int, ...]] = _Numbered()
    grid: dict[str, list[int]] = {}
    for (pin, _), group in groupby(found, lambda pair: (pair[0].pin, pair[0].driver)):
        row = [kinds.place(answer) for _, answer in group]
        runs = [number for place, same in groupby(row) for number in (place, len(list(same)))]
        grid.setdefault(pin, []).append(rows.place(tuple(runs)))
    answers = []
    for answer in kinds.places:
        members = [records.place((p.name, p.version, p.build, p.size, p.channel)) for p in answer.packages]
        pick = picks.place(tuple(members)) if members else -1
        title, *reasons = (lines.place(line) for line in (answer.title, *answer.reasons))
        answers.append([pick, answer.toolkit, answer.fit, title, reasons])
    return {
        "records": list(records.places),
        "picks": list(picks.places),
        "lines": [[texts.place(part) for part in _parts(line)] for line in lines.places],
        "texts": list(texts.places),  # after the lines, which fill it
        "answers": answers,
        "rows": list(rows.places),
        "grid": grid,
    }


def look_up(axes: Axes, content: Mapping[str, Any], question: Question) -> dict[str, Any]:
    """One answer, found as the page finds it: toolkit, fit, title, reasons and packages.

    Raises:
        KeyError, ValueError, IndexError: It was not solved.
    """
    row = content["rows"][content["grid"][question.pin][axes.drivers.index(question.driver)]]
    by_gpu = [answer for answer, length in zip(row[::2], row[1::2], strict=True) for _ in range(length)]
    pick, toolkit, fit, title, reasons = content["answers"][by_gpu[axes.gpus.index(question.arch)]]

    def line(place: int) -> str:
        return " ".join(content["texts"][part] for part in content["lines"][place])

    return {
        "toolkit": toolkit,
        "fit": fit,
        "title": line(title),
        "reasons": [line(reason) for reason in reasons],
        "packages": [content["records"][place] for place in content["picks"][pick]] if pick >= 0 else [],
    }


def place(subdir: str, package: str, python: str) -> str:
    """The name of a shard: ``linux-64/cuda-core/3.13``, or ``linux-64/cuda-core/any``."""
    return f"{subdir}/{package}/{python or 'any'}"


def script(name: str, content: Mapping[str, Any]) -> bytes:
    """The file that a page loads."""
    return f"ctkAnswers({safe_json(name)},{safe_json(content)});\n".encode()


def safe_json(content: object) -> str:
    """JSON that may stand in a script: nothing in it ends one, whatever a package is called."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")


def _parts(line: str) -> list[str]:
    """A line at its stops: many lines have parts in common."""
    return re.split(r"(?<=[.;:,]) ", line)
