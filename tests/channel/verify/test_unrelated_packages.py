"""A pick does not depend on packages that have nothing to do with the request."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from ctk.plan.plan import write_repodata
from ctk.solve.channels import Channels, Repodata, universe
from ctk.solve.solve import Catalogue, Scenario

REQUESTS = ("cuda-core", "numba-cuda", "cupy", "pytorch", "nvmath-python")
MACHINES = (("13.4", "12.0"), ("13.0", "9.0"), ("12.4", "7.5"))
UNRELATED = ("lxml", "cython", "regex", "psutil", "msgpack-python")


def with_unrelated(names: tuple[str, ...]) -> Repodata:
    """The universe, and packages for each of its Pythons on which nothing depends."""
    content = universe()
    packages = content["linux-64"]["packages.conda"]
    pattern = [record for record in packages.values() if record["name"] == "numpy"]
    for name in names:
        for numpy in pattern:
            record = copy.deepcopy(numpy)
            record |= {"name": name, "version": "1.0.0"}
            packages[f"{name}-1.0.0-{record['build']}.conda"] = record
    return content


@pytest.mark.parametrize("count", range(1, len(UNRELATED) + 1))
def test_unrelated_packages_do_not_change_the_python_of_a_pick(
    count: int, solved: Channels, tmp_path: Path
) -> None:
    ours = solved.folders[0]
    alone = Catalogue([ours, solved.folders[1]], "linux-64")
    base = write_repodata(with_unrelated(UNRELATED[:count]), tmp_path / "base")
    among = Catalogue([ours, base], "linux-64")
    for request in REQUESTS:
        for driver, gpu in MACHINES:
            scenario = Scenario((request,), "linux-64", driver, gpu)
            expected, found = alone.pick(scenario), among.pick(scenario)
            assert expected is not None
            assert found is not None
            assert found.version("python") == expected.version("python"), scenario
