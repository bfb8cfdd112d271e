"""Whether a condition can hold, as far as it can be known without rendering."""

from __future__ import annotations

import pytest

from ctk.check.lint.expressions import platform_names, truth

NAMES = {**platform_names("win-arm64"), "cuda_version": "12.9", "cuda_fit": "native"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("win", True),
        ("linux", False),
        ("not linux", True),
        ("win and arm64", True),
        ("win and x86_64", False),
        ("linux or unknown", None),
        ("linux and unknown", False),
        ("win or unknown", True),
        ("not unknown", None),
        ('target_platform == "win-arm64"', True),
        ('target_platform != "win-arm64"', False),
        ('cuda_fit in ["native", "compat"]', True),
        ('cuda_fit not in ("native", "compat")', False),
        ('match(cuda_version, ">=12.9")', True),
        ('match(cuda_version, "<12.9")', False),
        ('match(cuda_version, ">=12.8,<13")', True),
        ('match(unknown, "<12.9")', None),
        ('match(cuda_version, "<<")', None),
        ("1 in 2", None),
        ('python_tag is endingwith("t")', None),
        ("(cuda_version | split('.'))[0]", None),
        ("", None),
        ("((", None),
        pytest.param("a" * 100_000, None, id="a long name"),
    ],
)
def test_a_condition_is_true_or_false_or_not_known(condition: str, expected: bool | None) -> None:
    assert truth(condition, NAMES) is expected


def test_versions_compare_as_versions() -> None:
    assert truth('match(cuda_version, ">=12.10")', {"cuda_version": "12.9"}) is False
