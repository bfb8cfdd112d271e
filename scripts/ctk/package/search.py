"""Finding paths of the build machine, and other byte strings, in a stream of chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


@dataclass(frozen=True)
class Sighting:
    """A byte string that was searched for and found.

    Attributes:
        needle: The string.
        offset: Where it was first seen, in bytes.
        count: How often.
        context: What stands there, printable.
    """

    needle: str
    offset: int
    count: int
    context: str


class Search:
    """Finds whole paths in a stream of chunks, also across their seams.

    A needle counts when no character of a file name touches it: ``/home/me`` is not seen in ``/mnt/home/meta``. A
    folder of the root, such as ``/root``, is on every machine: it counts when something below it is named.
    """

    def __init__(self, needles: Sequence[bytes], exact: Sequence[bytes] = ()) -> None:
        self._needles = tuple(dict.fromkeys((*needles, *exact)))
        self._exact = frozenset(exact)
        self._keep = max((len(needle) for needle in self._needles), default=0) + 1
        self._next = dict.fromkeys(self._needles, 0)
        self._tail = b""
        self._start = 0  # offset of the window's first byte
        self.hits: dict[bytes, list[int]] = {}
        self.context: dict[bytes, str] = {}

    def feed(self, chunk: bytes, last: bool = False) -> None:
        window = self._tail + chunk
        for needle in self._needles:
            at = window.find(needle, max(0, self._next[needle] - self._start))
            while at >= 0 and (last or at + len(needle) < len(window)):
                self._next[needle] = self._start + at + 1
                if needle in self._exact or self._is_whole(window, at, at + len(needle)):
                    self.hits.setdefault(needle, []).append(self._start + at)
                    self.context.setdefault(needle, _printable(window[max(0, at - 8) : at + len(needle) + 40]))
                at = window.find(needle, at + 1)
        self._tail = window[-self._keep :]
        self._start += len(window) - len(self._tail)

    @staticmethod
    def _is_whole(window: bytes, start: int, end: int) -> bool:
        if window.count(b"/", start, end) == 1 and window[start : start + 1] == b"/" and window[end : end + 1] != b"/":
            return False
        return (start == 0 or window[start - 1] not in _NAME) and (end >= len(window) or window[end] not in _NAME)

    def sightings(self, needles: Sequence[bytes], excused: Sequence[bytes]) -> tuple[Sighting, ...]:
        """Where needles were found outside the stretches that an excused string covers."""
        covered = [(at, at + len(needle)) for needle in excused for at in self.hits.get(needle, ())]
        found = []
        for needle in needles:
            offsets = [at for at in self.hits.get(needle, ()) if not any(start <= at < end for start, end in covered)]
            if offsets:
                found.append(Sighting(needle.decode(), offsets[0], len(offsets), self.context[needle]))
        return tuple(found)


def _printable(content: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in content)


def outermost(paths: Sequence[str]) -> tuple[str, ...]:
    """The folders among the paths that lie in no other, without trailing slashes; the root itself is dropped."""
    plain = sorted({path.rstrip("/") for path in paths} - {""})
    return tuple(path for path in plain if not any(path.startswith(f"{other}/") for other in plain))
