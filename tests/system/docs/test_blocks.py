"""Every block of code in the docs is of a kind that some test tries.

Those that are no commands are tried here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from conftest import NEWEST, ROOT, ctk
from ctk.channel import repodata
from ctk.channel.publish import SIDECAR
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.env.activation import RUNNER
from ctk.env.environment import create
from ctk.lock.components import load_exclusions
from ctk.plan.recipes import Recipe
from ctk.plan.render import render
from ctk.site.settings import settings
from ctk.solve.solve import Scenario, solve
from kit.doc_clients import Solve
from kit.doc_commands import commands
from kit.doc_pages import EXAMPLES, Block, blocks, follows

pytest_plugins = ["docs_fixtures"]

ALL = blocks()
FILES = {path.read_text(): path for path in (ROOT / "examples").glob("*/*.yaml")}
KINDS = {
    # Language -> the test that tries its blocks.
    "bash": "test_commands.py, test_client_lines.py",
    "toml": "test_client_lines.py",
    "dockerfile": "test_client_lines.py",
    "singularity": "here: its sections are run in a folder, with a pack that is none",
    "yaml": "here, and test_client_lines.py for workflows",
    "python": "here: run in an environment of the channel",
    "nginx": "here: its pattern is compared with the names of files",
    "text": (
        "here, and test_examples.py: compared with what the command prints that a comment above it"
        " names"
    ),
    "json": "here: the same",
}
YAMLS = {
    # First line of a block that is not a whole file of examples/ -> how it is tried.
    "# in examples/": "part",
    "# conda_build_config.yaml": "fragment",
    "# recipe.yaml, as on conda-forge": "host",
    "# recipe.yaml": "fragment",
    "# .github/workflows/": "workflow",
    "# .gitlab-ci.yml": "gitlab",
    "# environment.yml": "test_environments.py",
    "# virtual-packages.yml": "test_environments.py",
    "# variants/exclusions.yaml": "exclusions",
    "# ~/.condarc": "settings",
}


def test_a_line_that_adds_stands_beside_one_that_adds() -> None:
    """`ctk env create` removes what it does not name, and `conda install` does not."""
    adds = [block for block in ALL if "conda install " in block.text]
    lines = [
        line for block in adds for line in block.text.splitlines() if line.startswith("ctk env ")
    ]
    assert lines and all(line.startswith("ctk env add ") for line in lines)


def kind(block: Block) -> str:
    """How a block of YAML is tried; "" where nobody does."""
    if block.text in FILES:
        return "file"
    return next((how for beginning, how in YAMLS.items() if block.text.startswith(beginning)), "")


def of(language: str, how: str = "") -> list[Block]:
    return [b for b in ALL if b.language == language and (not how or kind(b) == how)]


def test_every_block_is_of_a_kind_that_is_tried() -> None:
    assert {str(b): b.language for b in ALL if b.language not in KINDS} == {}
    assert {str(b): b.text.splitlines()[0] for b in of("yaml") if not kind(b)} == {}
    assert {str(b) for b in (*of("text"), *of("json")) if not b.printed_by} == set(), (
        "say in a comment what prints it"
    )
    assert set(KINDS) == {b.language for b in ALL}


def test_the_page_has_every_example() -> None:
    """Whole, or the part that differs from the first: test_examples.py builds them."""
    page = (ROOT / "docs" / "recipe-authors.md").read_text()
    folders = [file.parent.name for file in (ROOT / "examples").glob("*/recipe.yaml")]
    assert [name for name in folders if f"](../examples/{name})" not in page] == []
    assert any(b.text in FILES for b in of("yaml"))


@pytest.mark.parametrize("block", of("yaml", "part"), ids=str)
def test_a_part_of_an_example_is_in_its_file_as_it_is(block: Block) -> None:
    place, _, part = block.text.partition("\n")
    assert part in (ROOT / place.removeprefix("# in ")).read_text()


@pytest.fixture(scope="module")
def prefix(built: Workspace, roomy: Callable[[str], Path]) -> Path:
    """An environment of the channel as on a machine without a driver."""
    folder = roomy("docs")
    pick = solve(Scenario(("cuda-core",), this_platform()), [built.channel, built.base_channel])
    create(pick, folder / "prefix", folder / "packages")
    return folder / "prefix"


@pytest.mark.parametrize("block", of("python"), ids=str)
def test_a_program_of_the_docs_runs_without_a_gpu(block: Block, prefix: Path) -> None:
    command = [prefix / "bin" / "python", "-c", block.text]
    variables = {"PATH": "/usr/bin:/bin", "CONDA_PREFIX": str(prefix)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "block", [b for b in of("text") if not b.printed_by.startswith(EXAMPLES)], ids=str
)
def test_an_output_is_what_the_command_prints(block: Block, built: Workspace) -> None:
    (command,) = commands(Block(block.page, block.line, "bash", block.printed_by, ""))
    done = ctk(built, *command.words[1:])
    assert follows(block, done.stdout + done.stderr) == ""


@pytest.mark.parametrize(
    ("printed", "wrong"),
    [
        ("one 1\ntwo\nsix 5", ""),
        ("one 1\nsix 5", "a.md:5: the page has 'two', the command prints 'six 5'"),
        ("one 1\ntwo\nsiz 5\nten", "a.md:7: the page has 'six 5', the command prints 'siz 5'"),
        ("one 1\ntwo", "a.md:7: the page has 'six 5', the command prints 'nothing more'"),
    ],
)
def test_a_line_that_is_not_printed_is_named_with_its_place(printed: str, wrong: str) -> None:
    assert follows(Block("a.md", 3, "text", "one 1\ntwo\n...\nsix 5\n", ""), printed) == wrong


@pytest.mark.parametrize("block", of("json"), ids=str)
def test_a_document_is_what_the_command_prints(block: Block, project: Workspace) -> None:
    """Key by key; where the page has dots, anything."""
    (command,) = commands(Block(block.page, block.line, "bash", block.printed_by, ""))
    printed = json.loads(ctk(project, *command.words[1:]).stdout)
    for key, values in json.loads(block.text).items():
        assert set(values) == set(printed[key]), f"{block}: {key}"
        for k, v in values.items():
            assert "..." in str(v) or v == printed[key][k], f"{block}: {key}: {k}"


@pytest.mark.parametrize("block", of("yaml", "host"), ids=str)
def test_a_host_of_conda_forge_s_names_solves_for_both_majors(
    block: Block, planned_solve: Solve
) -> None:
    host = YAML(typ="safe").load(block.text)["requirements"]["host"]
    for minor in ("12.9", "13.0", NEWEST):
        specs = tuple(spec.replace("${{ cuda_compiler_version }}", f"{minor}.*") for spec in host)
        pick = planned_solve(Scenario(specs, this_platform(), minor))
        assert (pick.toolkit, pick.fit) == (minor, "native")
        assert {spec.split()[0] for spec in specs} <= {
            record.name.normalized for record in pick.records
        }


def test_what_the_page_adds_for_two_builds_of_each_major_renders(tmp_path: Path) -> None:
    """To the first example, which test_examples.py builds and installs."""
    example, yaml = ROOT / "examples" / "cpp-extension", YAML()
    texts = {name: yaml.load(example / name) for name in ("recipe.yaml", "conda_build_config.yaml")}
    for block in of("yaml", "fragment"):
        document = texts[block.text.splitlines()[0].removeprefix("# ")]
        for key, value in YAML(typ="safe").load(block.text).items():
            document[key] = {**document.get(key, {}), **value} if isinstance(value, dict) else value
    for name, document in texts.items():
        yaml.dump(document, tmp_path / name)
    files = [ROOT / "conda_build_config.yaml", tmp_path / "conda_build_config.yaml"]
    outputs = render(Recipe("scale", tmp_path), files, this_platform())
    assert {output.build_number for output in outputs} == {12000, 12100, 13000, 13100}


@pytest.mark.parametrize("block", of("nginx"), ids=str)
def test_a_web_server_is_told_which_files_change(block: Block) -> None:
    """Those of the index and the attestations; no package."""
    pattern = re.search(r"location ~ (\S+) \{\n\s+add_header Cache-Control no-cache;", block.text)
    package = "/cuda/noarch/cuda-arch-12.0-h0_0.conda"
    assert pattern and not re.search(pattern[1], package)
    for file in (*(f"/cuda/noarch/{name}" for name in repodata.FILES), f"{package}{SIDECAR}"):
        assert re.search(pattern[1], file), file


@pytest.mark.parametrize("block", of("yaml", "gitlab"), ids=str)
def test_a_pipeline_of_gitlab_follows_its_schema_and_starts_the_jobs_that_are_written(
    block: Block, tmp_path: Path
) -> None:
    file = tmp_path / ".gitlab-ci.yml"
    file.write_text(block.text)
    check = ("-m", "check_jsonschema", "--builtin-schema", "vendor.gitlab-ci", str(file))
    done = subprocess.run([sys.executable, *check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    jobs = YAML(typ="safe").load(block.text)
    (child,) = jobs["packages"]["trigger"]["include"]
    assert child["artifact"] in jobs[child["job"]]["artifacts"]["paths"]
    assert jobs[child["job"]]["script"][-1].endswith(f"--format gitlab > {child['artifact']}")


def sections(text: str) -> dict[str, str]:
    """The sections of a definition of Apptainer: name -> its lines."""
    _, *parts = re.split(r"^%(\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("block", of("singularity"), ids=str)
def test_an_image_of_apptainer_has_what_its_sections_name(block: Block, tmp_path: Path) -> None:
    """Each section is run by sh below a folder; a pack is a program that makes a folder."""
    found = sections(block.text)
    assert list(found) == ["files", "post", "environment", "runscript"]
    source, target = found["files"].split()
    root = tmp_path / "opt"
    root.mkdir()
    runner = '#!/bin/sh\necho "$CONDA_PREFIX: $*"\n'
    (root / source).write_text(
        f'mkdir -p "$1/bin"; f="$1/bin/{RUNNER.name}"; cat >"$f" <<"E"\n{runner}E\nchmod +x "$f"'
    )
    assert target == f"/opt/{source}"

    def run(script: str, *words: str) -> str:
        here = script.replace("/opt/", f"{root}/")
        done = subprocess.run(
            ["sh", "-ec", here, "sh", *words], capture_output=True, text=True, check=True
        )
        return done.stdout

    run(found["post"])
    assert [path.name for path in root.iterdir()] == ["gpu"]
    printed = run(found["environment"] + found["runscript"], "python", "a b")
    assert printed == f"{root}/gpu: python a b\n"


@pytest.mark.parametrize("block", of("yaml", "exclusions"), ids=str)
def test_an_entry_for_the_written_list_can_be_read(block: Block, tmp_path: Path) -> None:
    here = Workspace(tmp_path)
    here.variants.mkdir()
    (here.variants / "exclusions.yaml").write_text(block.text)
    assert load_exclusions(here).excluded


@pytest.mark.parametrize("block", of("yaml", "settings"), ids=str)
def test_settings_of_clients_are_those_that_a_site_writes(block: Block) -> None:
    written = settings(("CHANNEL", "conda-forge"), "")
    (file,) = (file for file in written if block.text.startswith(f"# {file.place}\n"))
    assert YAML(typ="safe").load(block.text) == YAML(typ="safe").load(file.text)
