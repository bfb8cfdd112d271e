"""The files of settings of a site: what clients read in them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rattler import Channel, Config

from ctk.core.document import load_yaml
from ctk.site.settings import settings
from kit import client_records

URL = "https://conda.example.org/cuda"
FORGE = "https://conda.example.org/mirror/conda-forge"
USUAL = Channel("conda-forge").base_url.rstrip("/")
TITLE = "CUDA\nfor conda: ours"


def texts(*channels: str) -> dict[str, str]:
    return {Path(file.path).name: file.text for file in settings(channels, TITLE)}


def pixi(text: str) -> Config:
    config, unused = Config.from_toml_with_unused_keys(text, shared=True)
    assert unused == []
    config.validate()
    return config


@pytest.mark.parametrize("base", ["conda-forge", "https://conda.example.org/forge", USUAL])
def test_the_channels_are_listed_by_priority(base: str) -> None:
    made = texts(URL, base)
    stated = load_yaml(made["condarc"])
    assert stated == {"channels": [URL, base], "channel_priority": "flexible"}
    assert made["mambarc"] == made["condarc"]
    config = pixi(made["config.toml"])
    assert config.default_channels == [URL, base]
    assert config.mirrors == {}


def test_a_mirror_of_conda_forge_goes_by_its_name() -> None:
    made = texts(URL, f"{FORGE}/")
    stated = load_yaml(made["condarc"])
    assert stated["channels"] == [URL, "conda-forge"]
    assert stated["custom_channels"] == {"conda-forge": FORGE.removesuffix("/conda-forge")}
    config = pixi(made["config.toml"])
    assert config.default_channels == [URL, "conda-forge"]
    assert config.mirrors == {USUAL: [FORGE]}


def test_a_title_of_two_lines_is_one_comment() -> None:
    for text in texts(URL, "conda-forge").values():
        assert text.startswith("# CUDA for conda: ours: the settings of ")


def shown(name: str, home: Path) -> dict[str, Any]:
    """What a client says of its configuration; skips where there is no such client."""
    program = client_records.program(name)
    if program is None:
        pytest.skip(f"there is no {name} on PATH")
    words = ["--show", "--json"] if name == "conda" else ["list", "--json"]
    done = subprocess.run(
        [program, "config", *words],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "MAMBA_ROOT_PREFIX": str(home / "root"),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_conda_reads_the_file_in_its_home(tmp_path: Path) -> None:
    (tmp_path / ".condarc").write_text(texts(URL, FORGE)["condarc"])
    configured = shown("conda", tmp_path)
    assert configured["channels"] == [URL, "conda-forge"]
    assert configured["channel_priority"] == "flexible"
    alias = configured["custom_channels"]["conda-forge"]
    assert f"{alias['scheme']}://{alias['location']}/{alias['name']}" == FORGE


@pytest.mark.parametrize("file", ["condarc", "mambarc"])
def test_mamba_reads_the_file_in_its_home(file: str, tmp_path: Path) -> None:
    (tmp_path / f".{file}").write_text(texts(URL, FORGE)[file])
    configured = shown("mamba", tmp_path)
    assert configured["channels"] == [URL, "conda-forge"]
    assert configured["channel_priority"] == 1  # flexible; strict is 2
    assert configured["custom_channels"] == {"conda-forge": FORGE.removesuffix("/conda-forge")}
