"""What is typed later, with the built channel: the toolkit stays, or is moved with
its nvJitLink.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.errors import WouldLose
from ctk.env.prefix import Installed


def minors(prefix: Path) -> dict[str, str]:
    """Package -> its minor version, and the kind of its build."""
    records = Installed.read(prefix).records.values()
    return {
        r["name"]: f"{'.'.join(r['version'].split('.')[:2])} {r['build'].partition('_')[0]}"
        for r in records
    }


def test_a_second_command_keeps_the_toolkit_and_move_takes_nvjitlink_along(
    built: Workspace, roomy: Callable[[str], Path]
) -> None:
    prefix = roomy("second") / "environment"
    ctk(
        built, "env", "create", "cuda-core", "--driver", "13.0", "--prefix", str(prefix), check=True
    )
    first = minors(prefix)
    assert (first["cuda-version"], first["libnvjitlink"]) == ("13.0 native", "13.0 native")

    ctk(built, "env", "add", str(prefix), "numba-cuda", check=True)
    both = minors(prefix)
    assert both.items() >= first.items() and "numba-cuda" in both

    refused = ctk(built, "env", "add", str(prefix), "cuda-version=12.9")
    assert refused.returncode == WouldLose.exit_code and minors(prefix) == both
    for minor in ("12.9", "12.6"):
        ctk(built, "env", "add", str(prefix), f"cuda-version={minor}", "--move", check=True)
        after = minors(prefix)
        assert (after["cuda-version"], after["libnvjitlink"]) == (
            f"{minor} native",
            f"{minor} native",
        )
        assert after.keys() >= {"cuda-core", "numba-cuda"}

    older = json.loads(
        ctk(
            built, "solve", "packaging", "--prefix", str(prefix), "--driver", "12.4", "--json"
        ).stdout
    )
    assert [one["kind"] for one in older["worse"]] == ["native-to-compat"]
    found = json.loads(
        ctk(built, "doctor", str(prefix), "--driver", "13.0", "--json", check=True).stdout
    )
    assert {one["check"]: one["state"] for one in found["checks"]}["nvJitLink"] == "ok"
