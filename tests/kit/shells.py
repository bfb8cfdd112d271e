"""What the tests of activation scripts share: shells, and what a script changes in one."""

from __future__ import annotations

import re
import shutil
import subprocess
from difflib import unified_diff
from pathlib import Path

SHELLS = ("sh", "bash", "zsh")
CLEAN = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "LC_ALL": "C"}
NAMES = [
    f"_{script}_{word}"
    for script in ("cuda_nvcc", "gcc_linux_64", "gxx_linux_64")
    for word in ("add", "set", "before", "newer", "activate", "deactivate")
]
NAMES += ["deactivate", "_ctk_activate"]
"""Functions of the scripts, which none may leave behind; dash does not list its own."""
# What a shell counts, times and remembers by itself; _ is the last argument.
OWN = re.compile(
    r"^((_|BASH_\w+|LINENO|RANDOM|SECONDS|SRANDOM|EPOCH\w+|TTYIDLE|PIPESTATUS|pipestatus|status|\W)=|"
    r"(history|status_generation) )"  # as fish prints them
)


def run(shell: str, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    flags = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"]}.get(shell, [])
    command = [str(shutil.which(shell)), *flags, "-c", code]
    return subprocess.run(
        command, env={**CLEAN, **environment}, capture_output=True, text=True, check=False
    )


def compiler(folder: Path, name: str = "g++") -> Path:
    """A program that answers to a name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return folder


def difference(
    shell: str, options: str, during: str, folder: Path, before: str = "", **environment: str
) -> str:
    """What a shell knows before and after some code, as a diff; "" where nothing changed.

    That is: the environment, its own variables and functions, its options.
    """
    functions = {"bash": "declare -f", "zsh": "functions"}.get(shell, ":")
    names = f"(for name in {' '.join(NAMES)}; do command -v $name || :; done)"
    state = f"{{ env -0; set; {functions}; {names}; set +o; }}"
    if shell == "fish":
        state = "begin; fish_prompt; env -0; set; functions --names; end"
    code = f"""{before}
{options}
{state} >'{folder}/before'
{during}
{state} >'{folder}/after'
echo the end"""
    done = run(
        shell, code, **{"PATH": f"{compiler(folder / 'bin')}:{CLEAN['PATH']}", **environment}
    )
    assert done.stdout.endswith("the end\n"), done.stderr
    assert not done.stderr
    texts = [
        (folder / name).read_bytes().decode().replace("\0", "\n").splitlines()
        for name in ("before", "after")
    ]
    lines = [sorted(line for line in text if not OWN.match(line)) for text in texts]
    assert len(lines[0]) > 5
    return "\n".join(
        line
        for line in unified_diff(*lines, lineterm="", n=0)
        if not line.startswith(("---", "+++"))
    )
