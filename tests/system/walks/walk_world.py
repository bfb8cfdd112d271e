"""The checkout in which docs/maintainers.md is walked through: a small one, with a made-up new
release on localhost.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

from conftest import ROOT
from kit import world
from kit.binaries import elf, pe
from kit.fake_ctk import WHEELS_13
from kit.fake_index import FakeIndex
from kit.world import World

NEW_COMPONENT = "cccl"
NVRTC = {"nvrtc": ("nvidia-cuda-nvrtc", ("nvrtc.h",))}
# What `ctk release measure` asks of a compiler, and nothing else: it targets three GPUs, and writes
# PTX of one version.
_NVRTC = """
#include <stddef.h>
#include <string.h>
static const int archs[] = {75, 90, 121};
static const char ptx[] = ".version 9.9\\n.target sm_75\\n";
const char *nvrtcGetErrorString(int code) { return "no"; }
int nvrtcGetNumSupportedArchs(int *count) { *count = 3; return 0; }
int nvrtcGetSupportedArchs(int *to) { memcpy(to, archs, sizeof archs); return 0; }
int nvrtcCreateProgram(void **p, const char *s, const char *n, int h, void *a, void *b) {
  *p = 0;
  return 0;
}
int nvrtcCompileProgram(void *p, int n, const char **options) { return 0; }
int nvrtcGetPTXSize(void *p, size_t *size) { *size = sizeof ptx; return 0; }
int nvrtcGetPTX(void *p, char *to) { memcpy(to, ptx, sizeof ptx); return 0; }
"""


def make(root: Path, index: FakeIndex, compiler: str) -> World:
    """A checkout under git with one release that is built and published into ``root/www``."""
    made = world.new_world(root, index)
    for recipe in (root / "recipes").iterdir():
        if recipe.name not in (
            *world.RECIPES,
            "cuda-gpu",
            "cuda-gpu-builds",
            "cuda-nvrtc",
            "common",
        ):
            shutil.rmtree(recipe)
    project = root / "pyproject.toml"
    text = project.read_text().replace(
        '["oldest", "12.6", "newest", "conda-forge"]', '["oldest", "newest"]'
    )
    listed = json.dumps(world.RECIPES)
    project.write_text(
        re.sub(r"^recipes = \[.*?\]", f"recipes = {listed}", text, flags=re.MULTILINE | re.DOTALL)
    )
    (root / "variants" / "exclusions.yaml").write_text("excluded: []\n")
    for name in ("README.md", "docs"):
        place = ROOT / name
        (shutil.copytree if place.is_dir() else shutil.copyfile)(place, root / name)
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "All of it")
    for words in (made.build(world.OLD), ["publish", "--to", str(root / "www")]):
        done = world.ctk(made, *words)
        assert done.returncode == 0, done.stderr
    (root / "nvrtc.c").write_text(_NVRTC)
    options = ["-shared", "-fPIC", "-Wl,-soname,libnvrtc.so.13", "-o", root / "libnvrtc.so"]
    subprocess.run([compiler, *options, root / "nvrtc.c"], check=True)
    return made


def offer(made: World, minor: str) -> None:
    """Offers a CTK release that has one component more, a compiler that can be asked, and a newer
    cuda-pathfinder.
    """
    version = world.VERSIONS[minor]
    world.HEADERS[NEW_COMPONENT] = ("nvidia-cuda-cccl", ("cub/cub.cuh",))
    try:
        world.offer(made.index, minor, "1.9.1")
    finally:
        del world.HEADERS[NEW_COMPONENT]
    for tag in WHEELS_13:
        machine = "aarch64" if tag.endswith(("aarch64", "arm64")) else "x86_64"
        sonames = ("libnvrtc.so.13", f"libnvrtc-builtins.so.{minor}")
        files = {f"nvidia/cu13/lib/{name}": elf(soname=name, machine=machine) for name in sonames}
        if tag == WHEELS_13[0]:  # the one that is asked
            files[f"nvidia/cu13/lib/{sonames[0]}"] = (made.root / "libnvrtc.so").read_bytes()
        elif "win" in tag:
            dlls = ("nvrtc64_130_0.dll", f"nvrtc-builtins64_{minor.replace('.', '')}.dll")
            files = {f"nvidia/cu13/bin/x86_64/{name}": pe(machine=machine) for name in dlls}
        files["nvidia/cu13/include/nvrtc.h"] = b"// A header.\n"
        made.index.add_wheel(NVRTC["nvrtc"][0], version, f"py3-none-{tag}", files=files)


def git(root: Path, *words: str) -> str:
    who = (
        "-c",
        "user.name=nobody",
        "-c",
        "user.email=nobody@example.org",
        "-c",
        "commit.gpgsign=false",
    )
    return subprocess.run(
        ["git", *who, *words], cwd=root, check=True, capture_output=True, text=True
    ).stdout
