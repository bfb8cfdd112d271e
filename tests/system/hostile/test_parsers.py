"""Whatever bytes a parser is given, it gives a value or an error of the tooling, in
little memory.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from targets import TARGETS

ROOM = 512 << 20
"""Bytes that a parser may take beside what the process has."""
NASTY = [
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\n",
    b" ",
    b"'",
    b'"',
    b"{",
    b"[",
    b"&a ",
    b"*a",
    b"!!map ",
    b"-1",
    b"9" * 30,
]


@pytest.fixture
def little_room() -> Iterator[None]:
    """Memory ends soon; a parser that takes more has a MemoryError."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux says how much address space a process has")
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as sizes:
        used = int(sizes.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@st.composite
def changed(draw: st.DrawFn, name: str) -> bytes:
    """Something that the parser reads every day, with some places changed; or anything."""
    seeds = [*TARGETS[name].seeds()]
    data = bytearray(draw(st.sampled_from([*seeds, b""])))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(data)))
        until = at + draw(st.sampled_from([0, 0, 1, 1, 2, 4, 8, 50, 1000]))
        new = draw(
            st.sampled_from(NASTY) | st.binary(max_size=8) | st.just(bytes(data[at:until]) * 3)
        )
        data[at:until] = new
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_gives_a_value_or_one_of_our_errors(name: str, little_room: None) -> None:
    @given(changed(name))
    def holds(data: bytes) -> None:
        TARGETS[name](data)

    holds()


@pytest.mark.parametrize("name", TARGETS)
def test_what_a_parser_reads_every_day_is_read(name: str) -> None:
    """Else the test above would only see refusals."""
    TARGETS[name].run(next(iter(TARGETS[name].seeds())))
