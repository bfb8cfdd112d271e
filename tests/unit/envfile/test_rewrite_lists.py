"""An environment.yml made of a list of pip or a lock; and how a new file is written."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ctk.core.document import load_yaml
from ctk.core.errors import BadValue, NoSpace
from ctk.envfile.locked import without_builds
from ctk.envfile.model import EnvironmentFile, FileEnvironment, Format, Line, Tool
from ctk.envfile.pip_text import read_requirements
from ctk.envfile.read import read_file
from ctk.envfile.rewrite import Edit, difference, name_of_new, rewritten, write_new
from ctk.envfile.source import Source

CHANNELS = ("ours", "conda-forge")
HEAD = "channels:\n  - ours\n  - conda-forge\ndependencies:\n"


def read_text(folder: Path, name: str, text: str) -> EnvironmentFile:
    path = folder / name
    path.write_bytes(text.encode())
    return read_file(path)


def pip_file(text: str) -> EnvironmentFile:
    return read_requirements(Source(Path("requirements.txt"), text))


def edits_of(file: EnvironmentFile, edits: dict[str, tuple[list[str], str]]) -> list[Edit]:
    found = [
        Edit(line, tuple(specs), comment)
        for line in file.lines
        for name, (specs, comment) in edits.items()
        if line.name == name
    ]
    assert len(found) == len(edits)
    return found


def test_a_list_of_pip_becomes_the_pip_part_of_an_environment(tmp_path: Path) -> None:
    file = read_text(
        tmp_path,
        "requirements.txt",
        "# head\n--extra-index-url https://example.org/whl/cu121\n-r other.txt\n\n"
        "torch==2.5.1  # mine\n    # via x\nnumpy<2  # old\n# last\ntqdm\n"
        'importlib-metadata; python_version < "3.9"\nnvidia-cublas-cu12==12.1.3.1\n',
    )
    edits = {
        "torch": (["pytorch=2.5.1"], "was torch==2.5.1"),
        "nvidia-cublas-cu12": ([], "cuda-version brings it"),
    }
    text = rewritten(file, edits_of(file, edits), CHANNELS, ["cuda-gpu"])
    assert text == "# head\n" + HEAD + (
        "  - cuda-gpu\n  - pytorch=2.5.1  # was torch==2.5.1  # mine\n  - pip\n  - pip:\n"
        "      - --extra-index-url https://example.org/whl/cu121\n"
        "      - -r other.txt\n      - numpy<2  # old\n      # last\n      - tqdm\n"
        '      - importlib-metadata; python_version < "3.9"\n      # cuda-version brings it\n'
    )
    after = read_text(tmp_path, "environment.yml", text)
    names = ["cuda-gpu", "pytorch", "pip", "numpy", "tqdm", "importlib-metadata"]
    assert [line.name for line in after.lines] == names
    assert name_of_new(file) == ".yml"


def test_lines_with_hashes_are_one_line_each() -> None:
    file = pip_file(
        "torch==2.5 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via x\n"
        "tqdm==4 \\\n    --hash=sha256:cc\n    # via y\n",
    )
    text = rewritten(file, edits_of(file, {"torch": (["pytorch=2.5"], "")}), CHANNELS)
    assert text == HEAD + (
        "  - pytorch=2.5\n  - pip\n  - pip:\n      - tqdm==4 --hash=sha256:cc\n      # via y\n"
    )


def test_a_list_that_conda_takes_whole_has_no_pip_part(tmp_path: Path) -> None:
    file = read_text(tmp_path, "requirements.txt", "# mine\r\ntorch\r\ncupy-cuda12x")
    edits = {"torch": (["pytorch", "cuda-version"], "was torch"), "cupy-cuda12x": (["cupy"], "")}
    text = rewritten(file, edits_of(file, edits), CHANNELS)
    expected = "# mine\n" + HEAD + "  - pytorch  # was torch\n  - cuda-version\n  - cupy\n"
    assert text == expected.replace("\n", "\r\n")


def test_two_lines_of_pip_ask_for_a_package_once(tmp_path: Path) -> None:
    file = read_text(tmp_path, "requirements.txt", 'jax==0.5; sys_platform == "linux"\njaxlib\n')
    edits = {"jax": (["jax=0.5", "jaxlib=0.5=*cuda*"], ""), "jaxlib": (["jaxlib"], "see jax")}
    text = rewritten(file, edits_of(file, edits), CHANNELS)
    assert text == HEAD + "  - jax=0.5\n  - jaxlib=0.5=*cuda*\n  # see jax\n"


def test_a_lock_becomes_the_versions_that_it_has(tmp_path: Path) -> None:
    file = read_text(
        tmp_path,
        "pylock.toml",
        'lock-version = "1.0"\ncreated-by = "x"\n'
        + "".join(
            f'[[packages]]\nname = "{name}"\nversion = "1"\ndirectory = {{ path = "." }}\n'
            for name in ("torch", "tqdm", "triton")
        ),
    )
    edits = {"torch": (["pytorch=2.5"], "was torch"), "triton": ([], "pytorch brings it")}
    text = rewritten(file, edits_of(file, edits), CHANNELS, ["cuda-gpu"])
    assert text == (
        "# made from the lock pylock.toml\n" + HEAD + "  - cuda-gpu\n"
        "  - pytorch=2.5  # was torch\n  # pytorch brings it\n"
        "  - pip\n  - pip:\n      - tqdm==1\n"
    )
    assert name_of_new(file) == ".yml"
    of_pip = {"pip": ["torch==1", "tqdm==1", "triton==1"]}
    assert load_yaml(rewritten(file, [], CHANNELS))["dependencies"] == ["pip", of_pip]


def test_a_list_of_addresses_is_a_lock(tmp_path: Path) -> None:
    file = read_text(
        tmp_path,
        "explicit.txt",
        "@EXPLICIT\nhttps://example.org/x/linux-64/cuda-version-12.4-h1_0.conda\n",
    )
    text = rewritten(file, edits_of(file, {"cuda-version": (["cuda-version=12.4"], "")}), CHANNELS)
    head = "# made from the lock explicit.txt, for linux-64\n"
    assert text == head + HEAD + "  - cuda-version=12.4\n"


@pytest.mark.parametrize(
    ("spec", "plain"),
    [
        ("numpy=2.3.0=py311h519dc76_0", "numpy=2.3.0"),
        ("pytorch=2.5.1=cuda126_generic_py311_hc0ffee_1", "pytorch=2.5.1=*cuda*"),
        ("cuda-nvrtc 12.4.127 he02047a_2", "cuda-nvrtc=12.4.127"),
        ("numpy=2.3.0", "numpy=2.3.0"),
        ("numpy", "numpy"),
        ("numpy=[", "numpy=["),
    ],
)
def test_the_build_of_a_lock_is_of_one_channel(spec: str, plain: str) -> None:
    """No build of another channel is here, so each line was said to be elsewhere."""
    line = Line(1, spec, Tool.CONDA, spec.split("=")[0], spec)
    (found,) = without_builds(FileEnvironment("", (line,))).lines
    assert found.spec == plain


def test_a_pyproject_without_pixi_becomes_an_environment(tmp_path: Path) -> None:
    text = '[project]\nname = "x"\ndependencies = ["torch>=2", "tqdm"]\n'
    file = read_text(tmp_path, "pyproject.toml", text)
    assert name_of_new(file) == ".yml"
    text = rewritten(file, edits_of(file, {"torch": (["pytorch >=2"], "")}), CHANNELS)
    assert text == HEAD + "  - pytorch >=2\n  - pip\n  - pip:\n      - tqdm\n"


def test_a_pyproject_with_pixi_stays_one(tmp_path: Path) -> None:
    text = (
        '[project]\nname = "x"\nrequires-python = ">=3.11"\n'
        'dependencies = [\n  "torch>=2",\n  "tqdm",\n]\n'
        "[project.optional-dependencies]\ngpu = [\n"
        '  "cupy-cuda12x",\n]\n[tool.pixi.workspace]\nchannels = ["ours", "conda-forge"]\n'
        'platforms = ["linux-64"]\n[tool.pixi.environments]\ngpu = ["gpu"]\n'
    )
    file = read_text(tmp_path, "pyproject.toml", text)
    assert name_of_new(file) == ".toml"
    edits = {"torch": (["pytorch >=2"], ""), "cupy-cuda12x": (["cupy"], "was cupy-cuda12x")}
    assert rewritten(file, edits_of(file, edits), CHANNELS) == text + (
        '[tool.pixi.dependencies]\npytorch = ">=2"\n'
        '[tool.pixi.feature.gpu.dependencies]\ncupy = "*"  # was cupy-cuda12x\n'
    )


def test_a_line_that_environments_see_for_other_platforms_is_edited_once() -> None:
    text = (
        '[workspace]\nchannels = ["ours", "conda-forge"]\n[dependencies]\ncuda-version = "11.*"\n'
    )
    path = Path("pixi.toml")
    line = Line(4, 'cuda-version = "11.*"', Tool.CONDA, "cuda-version", "cuda-version 11.*")
    other = replace(line, subdirs=("linux-64",))
    environments = (FileEnvironment("a", (line,)), FileEnvironment("b", (other,)))
    file = EnvironmentFile(path, Format.PIXI, text, environments)
    expected = text.replace("11.*", "12.*")
    edit = Edit(line, ("cuda-version=12",))
    assert rewritten(file, [edit], CHANNELS) == expected
    assert rewritten(file, [edit, Edit(other, ("cuda-version=12",))], CHANNELS) == expected


# A new file


def test_a_difference_is_a_diff_for_people() -> None:
    assert difference("a\nb\n", "a\nb\n", "x.yml", "new.yml") == ""
    assert difference("a\r\nb\r\n", "a\r\nc\r\n", "x.yml", "new.yml").splitlines() == [
        "--- x.yml",
        "+++ new.yml",
        "@@ -1,2 +1,2 @@",
        " a",
        "-b",
        "+c",
    ]


def test_a_new_file_has_the_bytes_of_the_text(tmp_path: Path) -> None:
    write_new(tmp_path / "new.yml", "\ufeffä\r\n")
    assert (tmp_path / "new.yml").read_bytes() == "\ufeffä\r\n".encode()
    assert os.listdir(tmp_path) == ["new.yml"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "new.yml"
    path.write_text("mine")
    with pytest.raises(BadValue, match=r"new\.yml exists, and nothing is overwritten") as error:
        write_new(path, "other")
    assert error.value.step == "name a new file"
    assert path.read_text() == "mine"
    link = tmp_path / "link.yml"
    link.symlink_to("nowhere")
    with pytest.raises(BadValue, match="exists"):
        write_new(link, "other")
    with pytest.raises(BadValue, match="exists"):
        write_new(tmp_path, "other")


def test_a_new_file_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match=r"there is no folder .*/a") as error:
        write_new(tmp_path / "a" / "new.yml", "x")
    assert error.value.step == "make it, or name a file elsewhere: new.yml"


def test_a_disk_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("ctk.envfile.rewrite.replace_file", full)
    with pytest.raises(NoSpace, match="No space left on device"):
        write_new(tmp_path / "new.yml", "x")
    monkeypatch.undo()
    with pytest.raises(NoSpace, match="the name is too long"):
        write_new(tmp_path / ("x" * 300), "x")
