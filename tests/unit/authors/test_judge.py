"""What `ctk build-recipe` remarks on a package: what its author may not have meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.authors.judge import Judged, outcome, state_in_words
from ctk.authors.order import Variant
from ctk.authors.run import Made
from ctk.authors.run import Tested as Result
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


def of_tests(tmp_path: Path, state: str, *tests: str) -> Judged:
    """A package whose recipe has tests of these kinds, with the result of those that run later."""
    (tmp_path / state).mkdir(exist_ok=True)
    content = {"tests": [{kind: {}} for kind in tests]}
    draft = Draft("one", files={"lib/one": TEXT})
    made = Made(Variant("one", "h0_0", {}, content), draft.write(tmp_path / state), 1.0, "13.0")
    code = Subject("one", "package", {}, made.index, "linux-64", known=Known.of_toolkits([]))
    return Judged(made, (Result(made, "13.0", state=state),), code)


@pytest.mark.parametrize(
    ("state", "tests", "words", "title"),
    [
        (
            "none",
            ("package_contents",),
            "contents passed",
            "built; package_contents passed, and no test runs in an environment",
        ),
        ("none", (), "none to run", "built, and not tested"),
        ("passed", ("package_contents", "script"), "passed", "built and tested"),
        ("failed", ("package_contents", "script"), "failed", "built, and tests failed"),
        ("refused", ("script",), "not for it", "built, and not tested"),
    ],
)
def test_tests_of_the_contents_have_passed_when_a_package_is_built(
    tmp_path: Path, state: str, tests: tuple[str, ...], words: str, title: str
) -> None:
    package = of_tests(tmp_path, state, *tests)
    assert [state_in_words(result) for result in package.tests] == [words]
    assert outcome([package]) == title


def test_packages_whose_contents_alone_were_tested_are_told_from_others(tmp_path: Path) -> None:
    contents = of_tests(tmp_path, "none", "package_contents")
    assert outcome([contents, of_tests(tmp_path, "passed", "script")]) == "built and tested in part"
    assert outcome([contents, of_tests(tmp_path, "none")]) == (
        "built; package_contents of some passed, and no test runs in an environment"
    )


def test_a_package_without_a_driver_and_binaries_is_as_meant(tmp_path: Path) -> None:
    assert judged(tmp_path, "cuda-cudart >=13.0").remarks == []


def test_a_package_that_requires_a_driver_is_remarked_on(tmp_path: Path) -> None:
    (remark,) = judged(tmp_path, "__cuda >=13").remarks
    assert "cannot be installed on a machine without a driver" in remark


def test_a_package_that_links_the_driver_and_does_not_require_one_is_remarked_on(
    tmp_path: Path,
) -> None:
    content = elf(needed=["libcuda.so.1", "libc.so.6"])
    (remark,) = judged(tmp_path, content=content).remarks
    assert remark.startswith("its files link libcuda.so.1, and only a driver has it")
    (remark,) = judged(tmp_path, "__cuda >=13", content=content).remarks
    assert remark.startswith("it requires __cuda")


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
