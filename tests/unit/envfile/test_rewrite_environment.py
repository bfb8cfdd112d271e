"""An environment.yml after edits: what changes, and that nothing else does."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ctk.core.document import load_yaml
from ctk.core.errors import BadValue
from ctk.envfile.model import EnvironmentFile, FileEnvironment, Format, Line, Tool
from ctk.envfile.rewrite import Edit, rewritten
from ctk.solve.solve import parse_spec

CHANNELS = ("ours", "conda-forge")


def environment_file(text: str) -> EnvironmentFile:
    """A file whose lines are found by their dashes: enough for the texts of these tests."""
    lines = []
    tool = Tool.CONDA
    is_dependency = False
    for number, content in enumerate(text.splitlines(), 1):
        if re.match(r"\ufeff?\w+:", content):
            is_dependency = content.startswith("dependencies:")
        entry = re.match(r"\s*-\s+(.*?)\s*(#.*)?$", content)
        if not is_dependency or not entry:
            continue
        if entry[1] == "pip:":
            tool = Tool.PIP
            continue
        lines.append(_line(number, entry[1].strip("'\""), tool))
    environment = FileEnvironment("", tuple(lines))
    return EnvironmentFile(Path("environment.yml"), Format.ENVIRONMENT, text, (environment,))


def bare_file(text: str) -> EnvironmentFile:
    """A file whose lines a test names itself."""
    return EnvironmentFile(Path("environment.yml"), Format.ENVIRONMENT, text, ())


def _line(number: int, text: str, tool: Tool) -> Line:
    if tool is Tool.PIP:
        return Line(number, text, tool, re.match(r"[\w-]*", text)[0].lower(), text)
    channel, _, spec = text.rpartition("::")
    return Line(number, text, tool, parse_spec(spec).name, spec, channel)


def edited(text, edits, channels=CHANNELS, first=()):
    """The text after edits: by the text of a line, its specs and maybe a comment."""
    file = environment_file(text)
    of_text = {line.text: line for line in file.lines}
    made = []
    for key, value in edits.items():
        specs, comment = value if isinstance(value, tuple) else (value, "")
        made.append(Edit(of_text[key], tuple(specs), comment))
    return rewritten(file, made, channels, first)


HEAD = """\
channels:
  - ours
  - conda-forge
dependencies:
"""


def test_no_edits_and_the_same_channels_change_nothing():
    text = (
        f"\ufeff---\n# mine\nname:   x\n\n{HEAD}  - 'a  '\n\n  -   b=1   # why\n  - pip:\n     - c"
    )
    assert edited(text, {}) == text
    crlf = text.replace("\n", "\r\n")
    assert edited(crlf, {}) == crlf


def test_a_comment_stands_beside_and_the_user_s_own_behind_it():
    text = HEAD + "  - python\n  - cudatoolkit=11.8  # mine\n  - numpy\n"
    assert edited(text, {"cudatoolkit=11.8": (["cuda-version=12"], "was cudatoolkit=11.8")}) == (
        HEAD + "  - python\n  - cuda-version=12  # was cudatoolkit=11.8  # mine\n  - numpy\n"
    )


def test_specs_after_the_first_have_lines_of_their_own():
    text = HEAD + "  -   pytorch-cuda=12.1\n  - numpy\n"
    edits = {"pytorch-cuda=12.1": (["cuda-version=12.1", "pytorch-gpu"], "by CUDA")}
    assert edited(text, edits) == (
        HEAD + "  -   cuda-version=12.1  # by CUDA\n  -   pytorch-gpu\n  - numpy\n"
    )


def test_a_selector_stands_beside_each_line_that_comes_of_one():
    text = HEAD + "  - pytorch-cuda=12.1  # [linux64]\n"
    edits = {"pytorch-cuda=12.1": ["cuda-version=12.1", "pytorch-gpu"]}
    assert edited(text, edits) == (
        HEAD + "  - cuda-version=12.1  # [linux64]\n  - pytorch-gpu  # [linux64]\n"
    )


def test_a_line_goes_and_its_comment_stays():
    text = HEAD + "  - a\n  - cudnn=8.1  # mine\n  - b\n"
    assert edited(text, {"cudnn=8.1": ([], "nobody has cudnn=8.1")}) == (
        HEAD + "  - a\n  # nobody has cudnn=8.1  # mine\n  - b\n"
    )
    text = HEAD + "  - a\n  - cudnn=8.1\n  - b\n"
    assert edited(text, {"cudnn=8.1": []}) == HEAD + "  - a\n  - b\n"


def test_a_comment_has_no_brackets_that_conda_lock_takes_for_a_platform():
    text = HEAD + "  - pip:\n    - jax[cuda12]\n"
    result = edited(text, {"jax[cuda12]": (["jax"], "was jax[cuda12]")})
    assert "  - jax  # was jax(cuda12)\n" in result


def test_a_file_that_loses_all_lines_has_an_empty_list():
    result = edited(HEAD + "- a\n", {"a": ([], "gone")})
    assert load_yaml(result)["dependencies"] == []
    assert result == HEAD.replace("dependencies:", "dependencies: []") + "# gone\n"


@pytest.mark.parametrize(
    ("spec", "written"),
    [
        ("cuda-version >=12,<13", "cuda-version >=12,<13"),
        ("jaxlib=*=*cuda*", "jaxlib=*=*cuda*"),
        ("*", '"*"'),
        ("a: b", '"a: b"'),
        ("a #b", '"a #b"'),
        ("[a]", '"[a]"'),
    ],
)
def test_a_spec_that_yaml_would_misread_is_quoted(spec, written):
    result = edited(HEAD + "- a\n", {"a": [spec]})
    assert result == f"{HEAD}- {written}\n"
    assert load_yaml(result)["dependencies"] == [spec]


def test_a_spec_in_brackets_is_quoted_for_its_comma():
    text = "channels: [ours, conda-forge]\ndependencies: [cudatoolkit, b]\n"
    file = bare_file(text)
    line = Line(2, "cudatoolkit", Tool.CONDA, "cudatoolkit", "cudatoolkit")
    edit = Edit(line, ("cuda-version >=12,<13",), "was cudatoolkit")
    assert rewritten(file, [edit], CHANNELS, ["cuda-gpu"]) == (
        "channels: [ours, conda-forge]\n# was cudatoolkit\n"
        'dependencies: [cuda-gpu, "cuda-version >=12,<13", b]\n'
    )


# pip


def test_a_pip_line_moves_behind_the_last_conda_dependency():
    text = HEAD + (
        "  - python\n  - numpy  # n\n  # of pip\n  - pip:\n    - torch==2.5  # mine\n    # more\n"
        "    - einops\n"
    )
    assert edited(text, {"torch==2.5": (["pytorch=2.5"], "was torch==2.5")}) == HEAD + (
        "  - python\n  - numpy  # n\n  - pytorch=2.5  # was torch==2.5  # mine\n  # of pip\n"
        "  - pip:\n    # more\n    - einops\n"
    )


def test_a_pip_part_that_becomes_empty_goes_and_pip_stays():
    text = HEAD + "  - pip\n  - pip:  # wheels\n    # of NVIDIA\n    - torch\n    - cupy-cuda12x\n"
    result = edited(text, {"torch": ["pytorch"], "cupy-cuda12x": (["cupy"], "ours")})
    assert result == HEAD + (
        "  - pip\n  - pytorch\n  - cupy  # ours\n  # wheels\n    # of NVIDIA\n"
    )
    assert load_yaml(result)["dependencies"] == ["pip", "pytorch", "cupy"]


def test_a_pip_line_that_goes_leaves_its_comment():
    text = HEAD + "  - pip:\n    - torch\n    - einops"
    assert edited(text, {"torch": ([], "twice")}) == (HEAD + "  - pip:\n    # twice\n    - einops")


def test_a_pip_part_with_an_entry_that_is_not_written_yet_stays():
    text = HEAD + "- pip:\n  - torch\n  -\n"
    edit = Edit(Line(6, "torch", Tool.PIP, "torch", "torch"), ("pytorch",))
    result = rewritten(bare_file(text), [edit], CHANNELS)
    assert result == HEAD + "- pytorch\n- pip:\n  -\n"


def test_a_file_of_pip_lines_only():
    text = "dependencies:\n  - pip:\n    - jax==0.4.30\n    - jaxlib==0.4.30\n"
    edits = {"jax==0.4.30": ["jax=0.4.30"], "jaxlib==0.4.30": ["jaxlib=0.4.30=*cuda*"]}
    assert edited(text, edits, first=["cuda-gpu"]) == (
        "channels:\n  - ours\n  - conda-forge\ndependencies:\n"
        "  - cuda-gpu\n  - jax=0.4.30\n  - jaxlib=0.4.30=*cuda*\n"
    )


@pytest.mark.parametrize("pip", ["[torch]", "torch", "[ torch, ]"])
def test_a_pip_part_in_one_line(pip):
    text = HEAD + f"  - a\n  - pip: {pip}  # mine\n  - b\n"
    file = bare_file(text)
    number = text.splitlines().index(f"  - pip: {pip}  # mine") + 1
    edit = Edit(Line(number, "torch", Tool.PIP, "torch", "torch"), ("pytorch",), "was torch")
    assert rewritten(file, [edit], CHANNELS) == (
        HEAD + "  - a\n  - pytorch  # was torch\n  # mine\n  - b\n"
    )


def test_lists_in_brackets_lose_what_moves():
    text = "channels: [x]\ndependencies: [a, {pip: [torch, b]}, {pip: [jax]}]\n"
    file = bare_file(text)
    edits = [
        Edit(Line(2, "torch", Tool.PIP, "torch", "torch"), ("pytorch",)),
        Edit(Line(2, "jax", Tool.PIP, "jax", "jax"), ("jax",)),
    ]
    result = rewritten(file, edits, CHANNELS)
    assert load_yaml(result) == {
        "channels": ["ours", "conda-forge"],
        "dependencies": ["a", "pytorch", "jax", {"pip": ["b"]}],
    }


# Each spec once


def test_what_stands_there_already_is_not_written_again():
    text = HEAD + "  - pytorch\n  - pip:\n    - torch\n    - b\n"
    assert edited(text, {"torch": (["pytorch"], "is pytorch")}) == (
        HEAD + "  - pytorch\n  - pip:\n    # is pytorch\n    - b\n"
    )


def test_the_pinned_one_of_two_stays_in_the_place_of_the_other():
    text = HEAD + "  - pytorch  # mine\n  - b\n  - pip:\n    - torch==2.5\n    - c\n"
    assert edited(text, {"torch==2.5": (["pytorch=2.5"], "was torch==2.5")}) == (
        HEAD + "  - pytorch=2.5  # was torch==2.5  # mine\n  - b\n  - pip:\n    - c\n"
    )
    text = HEAD + "  - cuda-version=12.6\n  - cudatoolkit\n"
    assert edited(text, {"cudatoolkit": ["cuda-version"]}) == HEAD + "  - cuda-version=12.6\n"


def test_two_that_are_pinned_differently_both_stay():
    text = HEAD + "  - pytorch=2.4\n  - pip:\n    - torch==2.5\n"
    assert edited(text, {"torch==2.5": ["pytorch=2.5"]}) == (
        HEAD + "  - pytorch=2.4\n  - pytorch=2.5\n"
    )


def test_two_edits_ask_for_a_package_once():
    text = HEAD + "  - cudatoolkit=11.8\n  - pytorch-cuda=12.1\n"
    edits = {"cudatoolkit=11.8": ["cuda-version"], "pytorch-cuda=12.1": ["cuda-version=12.1"]}
    assert edited(text, edits) == HEAD + "  - cuda-version=12.1\n"


def test_lines_that_nobody_edits_may_be_there_twice():
    text = HEAD + "  - a\n  - a\n  - cudatoolkit\n"
    assert edited(text, {"cudatoolkit": ["cuda-version"]}) == (
        HEAD + "  - a\n  - a\n  - cuda-version\n"
    )


def test_a_line_for_one_platform_is_not_there_for_the_others():
    text = HEAD + "- pytorch=2.5  # [linux64]\n- pip:\n  - torch\n"
    linux = Line(5, "pytorch=2.5", Tool.CONDA, "pytorch", "pytorch=2.5", "", ("linux-64",))
    torch = Line(7, "torch", Tool.PIP, "torch", "torch", part="pip")
    file = EnvironmentFile(
        Path("environment.yml"), Format.ENVIRONMENT, text, (FileEnvironment("", (linux, torch)),)
    )
    assert rewritten(file, [Edit(torch, ("pytorch",))], CHANNELS) == (
        HEAD + "- pytorch=2.5  # [linux64]\n- pytorch\n"
    )
    of_linux = replace(torch, subdirs=("linux-64",))
    assert rewritten(file, [Edit(of_linux, ("pytorch",))], CHANNELS) == (
        HEAD + "- pytorch=2.5  # [linux64]\n"
    )


# What comes first


def test_first_comes_before_all_lines_and_their_comments():
    text = HEAD + "# core\n- python\n"
    assert edited(text, {}, first=["cuda-gpu"]) == HEAD + "- cuda-gpu\n# core\n- python\n"


@pytest.mark.parametrize("line", ["cuda-gpu", "cuda-gpu=1", "ours::cuda-gpu"])
def test_first_is_not_added_to_a_file_that_has_it(line):
    text = f"{HEAD}- a\n- {line}\n"
    assert edited(text, {}, first=["cuda-gpu"]) == text


def test_first_is_written_to_a_file_without_dependencies():
    assert edited("name: x\n", {}, first=["cuda-gpu"]) == (
        "name: x\nchannels:\n  - ours\n  - conda-forge\ndependencies:\n  - cuda-gpu\n"
    )


# Channels


def test_a_file_without_channels_gets_them():
    assert edited("dependencies:\n- a\n", {}) == (
        "channels:\n- ours\n- conda-forge\ndependencies:\n- a\n"
    )
    assert edited("\ufeff# c\ndependencies:\n- a\n", {}) == (
        "\ufeff# c\nchannels:\n- ours\n- conda-forge\ndependencies:\n- a\n"
    )
    assert edited("\ufeffdependencies:\n- a\n", {}) == (
        "\ufeffchannels:\n- ours\n- conda-forge\ndependencies:\n- a\n"
    )
    for empty in ("channels:", "channels: []", "channels: conda-forge  # c"):
        assert edited(f"{empty}\ndependencies:\n- a\n", {}) == (
            "channels:\n- ours\n- conda-forge\ndependencies:\n- a\n"
        )


def test_channels_that_stay_keep_their_lines_and_comments():
    text = (
        "channels:\n    # first\n    -  'conda-forge'  # c\n    # old\n    - nvidia\n    - x\n"
        "# end\ndependencies:\n- a\n"
    )
    assert edited(text, {}, ["https://ours/x", "conda-forge", "x"]) == (
        "channels:\n    - https://ours/x\n    # first\n    -  'conda-forge'  # c\n    # old\n"
        "    - x\n# end\ndependencies:\n- a\n"
    )


def test_nodefaults_stays_where_it_was():
    after = edited("channels:\n- conda-forge\n- nodefaults\ndependencies:\n- a\n", {})
    assert load_yaml(after)["channels"] == ["ours", "conda-forge", "nodefaults"]
    after = edited("channels: [nodefaults, nvidia]\ndependencies:\n- a\n", {})
    assert load_yaml(after)["channels"] == ["nodefaults", "ours", "conda-forge"]


# Texts


def test_line_ends_and_a_missing_last_one_stay():
    text = (HEAD + "- a\n- pip:\n  - torch\n  - b").replace("\n", "\r\n")
    result = edited(text, {"a": ["c", "d"], "torch": ["pytorch"]}, first=["cuda-gpu"])
    assert result == (HEAD + "- cuda-gpu\n- c\n- d\n- pytorch\n- pip:\n  - b").replace("\n", "\r\n")


def test_a_text_over_two_lines_is_replaced_whole():
    text = HEAD + "-\n  a\n- >-\n  b\n- c\n"
    file = bare_file(text)
    edits = [
        Edit(Line(6, "a", Tool.CONDA, "a", "a"), ("d", "e")),
        Edit(Line(7, "b", Tool.CONDA, "b", "b"), ("f",)),
    ]
    result = load_yaml(rewritten(file, edits, CHANNELS))
    assert result["dependencies"] == ["d", "e", "f", "c"]


def test_a_selector_of_micromamba_is_repeated():
    text = HEAD + "- sel(linux): cudatoolkit  # c\n- b\n"
    file = bare_file(text)
    line = Line(5, "cudatoolkit", Tool.CONDA, "cudatoolkit", "cudatoolkit", "", ("linux-64",))
    assert rewritten(file, [Edit(line, ("d", "e"), "why")], CHANNELS) == (
        HEAD + "- sel(linux): d  # why  # c\n- sel(linux): e\n- b\n"
    )
    assert rewritten(file, [Edit(line, (), "why")], CHANNELS) == HEAD + "# why  # c\n- b\n"


def test_a_line_with_a_mark_of_yaml_is_refused():
    text = HEAD + "- &k a\n- *k\n"
    file = bare_file(text)
    with pytest.raises(BadValue, match="line 5 has a mark of YAML: &k a"):
        rewritten(file, [Edit(Line(5, "a", Tool.CONDA, "a", "a"), ("b",))], CHANNELS)


def test_a_line_that_is_not_there_is_refused():
    file = environment_file(HEAD + "- a\n")
    with pytest.raises(BadValue, match="line 9 is no longer `a`"):
        rewritten(file, [Edit(Line(9, "a", Tool.CONDA, "a", "a"), ("b",))], CHANNELS)
