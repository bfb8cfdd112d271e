"""Once the artefacts are laid out, rattler-build's Python API alone builds a recipe: nothing of ours is in between."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from ctk.core.checkout import Workspace
from ctk.package.package import read_info

PROGRAM = """
import sys
import rattler_build as rb

recipe, subdir, output, *variants = sys.argv[1:]
platform = rb.PlatformConfig(target_platform=subdir, host_platform=subdir, experimental=True)
config = rb.VariantConfig.from_files_with_context(variants, rb.JinjaConfig(platform=platform))
for variant in rb.Stage0Recipe.from_file(recipe).render(config, rb.RenderConfig(platform=platform)):
    variant.run_build(
        output_dir=output,
        channels=[],
        package_format="conda:1",
        tool_config=rb.ToolConfiguration(test_strategy="skip", allow_symlinks_on_windows=True),
    )
assert not [name for name in sys.modules if name.split(".")[0] == "ctk"]
"""


@pytest.mark.parametrize("subdir", ["linux-64", "linux-aarch64", "win-64", "win-arm64"])
def test_a_recipe_builds_with_rattler_build_alone(project: Workspace, tmp_path: Path, subdir: str) -> None:
    shutil.copytree(project.recipes, tmp_path / "recipes")
    variants = project.variants / "cuda-13.4.yaml"
    version = YAML(typ="safe").load(variants)["profiler"][0]
    artefact = tmp_path / ".cache" / "artefacts" / "profiler" / version / f"{subdir}.zip"
    artefact.parent.mkdir(parents=True)
    with zipfile.ZipFile(artefact, "w") as archive:
        for name in ("cuda_profiler_api.h", "cudaProfiler.h", "__init__.py"):
            archive.writestr(f"nvidia/cu13/include/{name}", "// header\n")
        archive.writestr(f"nvidia_cuda_profiler_api-{version}.dist-info/licenses/License.txt", "the licence\n")
    recipe, output = tmp_path / "recipes" / "cuda-profiler-api" / "recipe.yaml", tmp_path / "output"
    # No PYTHONPATH and another working folder: only what is installed beside rattler-build could be imported.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, recipe, subdir, output, project.build_config, variants],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    packages = list((output / subdir).glob("*.conda"))
    assert len(packages) == 2  # native and compat
    for package in packages:
        names = {path.path.rpartition("/")[2] for path in read_info(package).paths}
        assert names == {"cuda_profiler_api.h", "cudaProfiler.h"}
