"""The oracle's facts for machines on which the libraries that read release locks are not installed.

The locks are generated in one form, which is read here. `ctk.verify.scenarios` reads them
properly; tests/tooling/test_gpu_tests.py holds that both read the same.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from gpu_machine import numbers


def oracle(root: Path) -> ModuleType:
    """`ctk.verify.oracle` of a checkout, which needs nothing but Python."""
    if str(root / "scripts") not in sys.path:
        sys.path.append(str(root / "scripts"))
    from ctk.verify import oracle

    return oracle


def facts(root: Path) -> Any:
    """The `OracleFacts` of all locked releases of a checkout."""
    rule = oracle(root)
    toolkits, python_sets = [], {}
    for lock in sorted((root / "variants").glob("*.lock")):
        published = _published(lock.read_text(encoding="utf-8"))
        kind, _, version = lock.stem.partition("-")
        if kind == "python":
            python_sets[version] = published
        if kind != "cuda":
            continue
        variants = lock.with_suffix(".yaml").read_text(encoding="utf-8")
        (block,) = re.findall(r"^cuda_arch:\n((?:  - .*\n)+)", variants, re.MULTILINE)
        archs = sorted(re.findall(r'"(.+)"', block), key=numbers)
        toolkits.append(rule.Toolkit(version, tuple(archs), published))
    return rule.OracleFacts(tuple(toolkits), python_sets)


def _published(lock: str) -> dict[str, frozenset[str]]:
    """Component -> the targets that it has an artefact for."""
    components = json.loads(lock)["components"]
    return {name: frozenset(t for t, a in c["artefacts"].items() if a) for name, c in components.items()}
