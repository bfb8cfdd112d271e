"""A file on the package index as a seekable file, so that a zip's directory is read without the rest."""

from __future__ import annotations

import io
from collections.abc import Callable

BLOCK = 1 << 16


class RemoteFile(io.RawIOBase):
    """A read-only file, fetched in blocks, each once.

    Args:
        size: Bytes of the whole file.
        part: Gives some bytes, from an offset and a length; None when the server gives only whole files.
        whole: Gives all of it.
    """

    def __init__(self, size: int, part: Callable[[int, int], bytes | None], whole: Callable[[], bytes]) -> None:
        self._size, self._part, self._whole = size, part, whole
        self._position = 0
        self._blocks: dict[int, bytes] = {}

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._size, self._position + size)
        parts = []
        while self._position < end:
            number, inside = divmod(self._position, BLOCK)
            part = self._block(number)[inside : inside + end - self._position]
            if not part:
                raise EOFError(f"it ends before byte {self._position} of the {self._size} that the index states")
            parts.append(part)
            self._position += len(part)
        return b"".join(parts)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            start = number * BLOCK
            block = self._part(start, min(BLOCK, self._size - start))
            if block is None:  # a server without ranges: the whole file, once
                whole = self._whole()
                self._blocks = {i: whole[i * BLOCK : (i + 1) * BLOCK] for i in range(len(whole) // BLOCK + 1)}
            else:
                self._blocks[number] = block
        return self._blocks.get(number, b"")
