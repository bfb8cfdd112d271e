"""The bytes of a file that a user names, as text; and the error for a file that cannot be read."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path

from ctk.core.errors import FileUnreadable
from ctk.core.files import NotPlain, read_plain
from ctk.envfile.model import Format

LARGEST = 64 << 20
"""Bytes of a file that is read: a wrong name must not fill the memory."""
STEP = "correct this line, or remove it"
FORMATS = f"supported formats: {', '.join(Format)}"
"""The next step for a file of another format."""
_STEP_TEXT = "save it as UTF-8 text"
_STEP_NAME = "name a file that lists packages, such as environment.yml"
_SHOWN = 200  # characters of a reason: a library may quote the whole file
# Windows PowerShell 5 writes UTF-16 where `>` leads to a file; pip reads it (req_file.py, BOMS).
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True)
class Source:
    """A file and its text; line ends are as in the file, and a byte order mark is left out."""

    path: Path
    text: str

    def error(self, line: int, reason: str, step: str = STEP) -> FileUnreadable:
        """The error about a line, from 1; 0 is the whole file."""
        short = reason if len(reason) <= _SHOWN else f"{reason[:_SHOWN]}..."
        place = f", line {line}" if line else ""
        return FileUnreadable(f"{self.path}{place}: {short}", step)


def read_source(path: Path) -> Source:
    """The text of a file.

    Raises:
        FileUnreadable: There is none, it may not be read, it is empty, too large, or no text.
    """
    source = Source(path, _decode(path, _bytes_of(path)))
    if not source.text.strip():
        raise source.error(0, "it is empty", "name the file that lists the packages")
    before_nul, nul, _ = source.text.partition("\0")
    if nul:
        line = before_nul.count("\n") + 1
        raise source.error(line, "it has a NUL character, so it is not text", _STEP_TEXT)
    return source


def _bytes_of(path: Path) -> bytes:
    nowhere = Source(path, "")
    try:
        if path.is_dir():
            raise nowhere.error(0, "it is a folder, not a file", _STEP_NAME)
        if path.stat().st_size > LARGEST:
            reason = f"it is larger than {LARGEST >> 20} MB"
            raise nowhere.error(0, reason, _STEP_NAME)
        return read_plain(path)
    except FileNotFoundError:
        step = f"check the name, and the folder: {path.absolute().parent}"
        raise nowhere.error(0, "there is no such file", step) from None
    except NotPlain:
        raise nowhere.error(0, "it is a pipe, a device or a socket", _STEP_NAME) from None
    except PermissionError:
        raise nowhere.error(0, "you may not read it", "let this user read it: chmod") from None
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        reason = getattr(error, "strerror", None) or str(error)
        raise nowhere.error(0, f"it cannot be read: {reason}", _STEP_NAME) from None


def _decode(path: Path, content: bytes) -> str:
    encoding = "utf-8-sig"
    for mark, name in _MARKS:
        if content.startswith(mark):
            encoding = name
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        reason = f"it is not UTF-8 text (byte 0x{content[error.start]:02x})"
        raise Source(path, "").error(line, reason, _STEP_TEXT) from None
