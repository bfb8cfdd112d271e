"""The CI matrix: a job for each release lock and platform, which needs no other job and has a key
of its content.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from conftest import ctk
from ctk.build.ci import Job, ci_jobs, gitlab_pipeline
from ctk.core.checkout import Settings, Workspace, settings
from ctk.core.errors import BadValue
from ctk.core.platforms import PLATFORMS
from ctk.plan.plan import Request, plan, published_set, python_tags, small


def jobs(where: Workspace, request: Request) -> list[dict[str, str]]:
    what, tags = published_set(where), python_tags(where.build_config)
    return [asdict(job) for job in ci_jobs(what, request, tags, lambda platform: "any", "")]


@pytest.fixture(scope="module")
def everything(project: Workspace) -> dict[str, object]:
    done = ctk(
        project,
        "build",
        "--dry-run",
        "--format",
        "github",
        "--all-releases",
        "--all-components",
        check=True,
    )
    assert done.stdout.count("\n") == 1  # as $GITHUB_OUTPUT needs it
    return json.loads(done.stdout)


def test_the_jobs_of_all_platforms_make_the_whole_plan(project: Workspace) -> None:
    request = small(Request(platforms=list(PLATFORMS)), project)
    what, tags = published_set(project), python_tags(project.build_config)
    wanted = {
        f"{o.subdir}/{o.file_name}" for b in plan(what, request, tags).builds for o in b.outputs
    }
    made = set()
    for job in jobs(project, request):
        _, release, _, platform = job["options"].split()
        part = plan(what, small(Request([release], (), [platform]), project), tags)
        # Python can use no nvJitLink of 12.0 to 12.2, and there is no nvFatbin before 12.4 and no
        # cuFile, for Linux, before 12.6: the next ones come along.
        later = (
            "cuda-12.3",
            "cuda-12.4",
            *(["cuda-12.6"] if platform.startswith("linux-") else []),
        )
        newer = {name for name in later if "cuda-12.0" <= release < name}
        assert {b.lock for b in part.builds} == {release, *newer}
        made |= {f"{o.subdir}/{o.file_name}" for b in part.builds for o in b.outputs}
    assert made == wanted


def test_every_release_and_platform_that_is_published_has_one_job(
    everything: dict[str, list[dict[str, str]]],
) -> None:
    ids = [job["id"] for job in everything["include"]]
    assert len(ids) == len(set(ids)) <= 256  # the service starts at most these
    assert "cuda-12.0-linux-64" in ids
    assert "cuda-12.0-linux-aarch64" not in ids  # came with 12.3
    assert "cuda-13.0-win-arm64" not in ids  # came with 13.4
    assert {
        f"python-{major}-{subdir}" for major in (12, 13) for subdir in ("linux-64", "win-64")
    } <= set(ids)
    assert len({job["key"] for job in everything["include"]}) == len(ids)


def test_a_job_says_what_to_run_and_where(everything: dict[str, list[dict[str, str]]]) -> None:
    found = next(job for job in everything["include"] if job["id"] == "cuda-13.4-linux-aarch64")
    words = "--release cuda-13.4 --platform linux-aarch64 --all-components --all-pythons"
    assert found["options"] == words
    assert found["runner"].endswith("-arm")


def test_a_job_keeps_the_narrowing_of_the_command(project: Workspace) -> None:
    words = (
        "--dry-run",
        "--format",
        "github",
        "-r",
        "13.0",
        "--platform",
        "win-64",
        "cuda-nvrtc",
        "--python",
        "3.12",
    )
    (job,) = json.loads(ctk(project, "build", *words, check=True).stdout)["include"]
    assert (
        job["options"]
        == "--release cuda-13.0 --platform win-64 cuda-nvrtc cuda-version cuda-version-native"
        " --python 3.12"
    )
    done = ctk(project, "build", *job["options"].split(), "--dry-run", "--json", check=True)
    assert len(json.loads(done.stdout)["builds"]) == 3


def test_the_key_changes_with_the_recipe_and_only_for_the_jobs_that_use_it(
    project: Workspace, tmp_path: Path
) -> None:
    for name in ("recipes", "variants"):
        shutil.copytree(project.root / name, tmp_path / name)
    shutil.copy(project.build_config, tmp_path)
    where = Workspace(tmp_path)

    def keys(recipe: str) -> list[str]:
        request = Request(["cuda-13.0", "cuda-12.9"], [recipe], ["linux-64"])
        return [job["key"] for job in jobs(where, request)]

    nvcc, cudart = keys("cuda-nvcc"), keys("cuda-cudart")
    changed = tmp_path / "recipes" / "cuda-nvcc" / "recipe.yaml"
    changed.write_text(changed.read_text() + "\n# changed\n")
    assert not set(keys("cuda-nvcc")) & set(nvcc)
    assert keys("cuda-cudart") == cudart


def test_a_platform_without_a_machine_is_an_error_that_says_where_to_set_it(
    project: Workspace,
) -> None:
    what, request = published_set(project), Request(["13.0"], ["cuda-cudart"], ["win-64"])
    with pytest.raises(BadValue, match="win-64") as error:
        ci_jobs(
            what,
            request,
            python_tags(project.build_config),
            Settings(runners={"linux-64": "x"}).runner,
            "",
        )
    assert "tool.ctk.runners" in error.value.step


# --- GitLab


def test_a_child_pipeline_of_gitlab_is_written_as_its_schema_and_limits_have_it(
    project: Workspace, everything: dict[str, list[dict[str, str]]], tmp_path: Path
) -> None:
    words = ("--format", "gitlab", "--all-releases", "--all-components")
    text = ctk(project, "build", "--dry-run", *words, check=True).stdout
    assert len(text) < 1_000_000  # bytes of a file of CI, by default
    pipeline = json.loads(text)
    template = pipeline.pop(".build")
    assert template["variables"] == {"GIT_DEPTH": "0"}
    for job in everything["include"]:
        written = pipeline.pop(job["id"])
        assert written["variables"]["OPTIONS"] == job["options"]
        assert written["tags"] == [job["runner"]]
        key = written["cache"]["key"]
        assert key == f"builds-{job['id']}-{job['key']}"
        assert "/" not in key and len(key) < 256  # of a cache
        assert not {"needs", "parallel"} & written.keys()
    assert not pipeline
    file = tmp_path / "jobs.yml"
    file.write_text(text)
    check = ("-m", "check_jsonschema", "--builtin-schema", "vendor.gitlab-ci", str(file))
    done = subprocess.run([sys.executable, *check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_job_of_gitlab_reads_as_a_person_would_write_it() -> None:
    job = Job("cuda-13.0-linux-64", "big", "--release cuda-13.0 --platform linux-64", "0123")
    assert json.loads(gitlab_pipeline([job])) == {
        ".build": {
            "stage": "build",
            "variables": {"GIT_DEPTH": "0"},
            "script": [
                "./scripts/build $OPTIONS",
                ".venv/bin/ctk check",
                ".venv/bin/ctk check --rebuild 3",
            ],
        },
        "cuda-13.0-linux-64": {
            "extends": ".build",
            "tags": ["big"],
            "variables": {"OPTIONS": "--release cuda-13.0 --platform linux-64"},
            "cache": {"key": "builds-cuda-13.0-linux-64-0123", "paths": [".cache/builds"]},
        },
    }


# --- the settings


@pytest.mark.parametrize(
    ("text", "message"),
    [("[tool.ctk", "cannot be read"), ("[tool.ctk]\nmachines = 1", r"tool\.ctk\.machines")],
)
def test_settings_that_cannot_be_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(BadValue, match=message):
        settings(tmp_path)
