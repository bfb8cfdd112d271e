"""The lock of the base channel: the newest versions of an index that accept each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ctk.base import base
from ctk.core.errors import NotPublished
from ctk.core.platforms import NOARCH
from ctk.index import IndexSettings
from ctk.index.client import Retry
from ctk.index.index import Index
from kit.fake_index import serve

TAGS = {tag: f"{tag}-{tag}-manylinux_2_28_x86_64" for tag in ("cp311", "cp312")}


@contextmanager
def an_index(numpy: dict[str, str]) -> Iterator[Index]:
    """An index with made-up versions of what the base channel has.

    Of numpy these, each with one tag.
    """
    with serve() as offered:
        for tag in TAGS.values():
            requires = ["llvmlite<3,>=2", "numpy<2.6", "tbb; extra == 'tbb'"]
            offered.add_wheel(
                "numba", "0.2", tag, requires=requires, metadata=["Provides-Extra: tbb"]
            )
            for version in ("2.0", "2.1", "3.0", "4.0rc1"):
                offered.add_wheel("llvmlite", version, tag)
        for version, tag in numpy.items():
            offered.add_wheel("numpy", version, tag)
        for name in set(base.PROJECTS) - {"numba", "llvmlite", "numpy"}:
            offered.add_wheel(name, "1.0")
        with Index(IndexSettings(index_url=offered.url), Retry(attempts=1)) as index:
            yield index


def test_the_newest_versions_that_accept_each_other_are_locked() -> None:
    with an_index({"2.6": TAGS["cp311"], "2.4": TAGS["cp311"]}) as index:
        made = base.base_release(index, ["cp311", "cp312"])
    versions = {name: component.version for name, component in made.components.items()}
    assert versions == dict.fromkeys(base.PROJECTS, "1.0") | {
        "llvmlite": "2.1",
        "numba": "0.2",
        "numpy": "2.4",
    }
    assert set(made.components["pip"].artefacts) == {NOARCH}


def test_a_version_that_leaves_out_the_oldest_python_is_not_locked() -> None:
    with an_index({"2.5": TAGS["cp312"], "2.4": TAGS["cp311"]}) as index:
        numpy = base.base_release(index, ["cp311", "cp312"]).components["numpy"]
    assert numpy.version == "2.4"
    assert numpy.artefacts["linux-64-cp312"] is None


def test_a_set_that_cannot_be_is_refused_by_name() -> None:
    with (
        an_index({"3.0": TAGS["cp311"]}) as index,
        pytest.raises(NotPublished, match=r"numpy<2\.6 for cp311"),
    ):
        base.base_release(index, ["cp311"])
