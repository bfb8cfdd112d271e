"""What `ctk build-recipe` remarks on a package: what its author may not have meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.authors.judge import Judged
from ctk.authors.order import Variant
from ctk.authors.run import Made
from ctk.package.gpu_known import Known
from ctk.package.gpu_subject import Subject
from kit.binaries import elf
from kit.packages import Draft

VARIANT = Variant("one", "h0_0", {}, {"requirements": {"host": ["cuda-version 13.0.*"]}})
NEW_GLIBC = elf(versions={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.34"]})
TEXT = b"print()\n"


def judged(tmp_path: Path, *depends: str, content: bytes = TEXT) -> Judged:
    draft = Draft("one", depends=depends, files={"lib/one": content})
    made = Made(VARIANT, draft.write(tmp_path), 1.0, "13.0")
    code = Subject("one", "package", {}, made.index, "linux-64", known=Known.of_toolkits([]))
    return Judged(made, (), code)


def test_a_package_without_a_driver_and_binaries_is_as_meant(tmp_path: Path) -> None:
    assert judged(tmp_path, "cuda-cudart >=13.0").remarks == []


def test_a_package_that_requires_a_driver_is_remarked_on(tmp_path: Path) -> None:
    (remark,) = judged(tmp_path, "__cuda >=13").remarks
    assert "cannot be installed on a machine without a driver" in remark


@pytest.mark.parametrize("depends", [(), ("__glibc >=2.28,<3.0.a0",)])
def test_a_glibc_that_is_not_required_is_named(tmp_path: Path, depends: tuple[str, ...]) -> None:
    (remark,) = judged(tmp_path, *depends, content=NEW_GLIBC).remarks
    assert remark == (
        "its files need glibc 2.34, which it does not require: write"
        ' ${{ stdlib("c") }} in requirements: build'
    )


@pytest.mark.parametrize("glibc", ["2.34", "2.36"])
def test_a_glibc_that_is_required_is_not_named(tmp_path: Path, glibc: str) -> None:
    depends = f"__glibc >={glibc},<3.0.a0"
    assert judged(tmp_path, depends, content=NEW_GLIBC).remarks == []
