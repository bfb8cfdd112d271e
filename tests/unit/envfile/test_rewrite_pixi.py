"""A pixi.toml or pyproject.toml after edits: what changes, and that nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomlkit
from packaging.utils import canonicalize_name

from ctk.core.errors import BadValue
from ctk.envfile.model import EnvironmentFile, FileEnvironment, Format, Line, Tool
from ctk.envfile.rewrite import Edit, ForFirst, rewritten
from ctk.envfile.toml_file import spans_of

CHANNELS = ("ours", "conda-forge")
HEAD = '[workspace]\nchannels = ["ours", "conda-forge"]\nplatforms = ["linux-64"]\n'
KINDS = ("dependencies", "host-dependencies", "build-dependencies", "pypi-dependencies")


def manifest(text, kind=Format.PIXI):
    """A file whose lines are the keys of its tables of dependencies."""
    spans = spans_of(text)
    lines = []
    for path, span in spans.items():
        if len(path) < 2 or path[-2] not in KINDS or isinstance(path[-1], int):
            continue
        value = tomlkit.parse(text).unwrap()
        for key in path:
            value = value[key]
        asked = value if isinstance(value, dict) else {"version": value}
        tool = Tool.PIP if path[-2] == "pypi-dependencies" else Tool.CONDA
        name = canonicalize_name(path[-1]) if tool is Tool.PIP else path[-1]
        words = [name, asked.get("version", "*"), asked.get("build", "")]
        spec = " ".join(words).strip()
        if words[1:] == ["*", ""]:
            spec = name
        part = ".".join(path[:-2])
        lines.append(Line(span.line, name, tool, name, spec, asked.get("channel", ""), part=part))
    path = Path("pyproject.toml" if kind is Format.PYPROJECT else "pixi.toml")
    return EnvironmentFile(path, kind, text, (FileEnvironment("", tuple(lines)),))


def edited(text, edits, channels=CHANNELS, first=(), kind=Format.PIXI):
    """The text after edits: by the name of a package, its specs and maybe a comment."""
    file = manifest(text, kind)
    made = []
    for name, value in edits.items():
        specs, comment = value if isinstance(value, tuple) else (value, "")
        made += [Edit(line, tuple(specs), comment) for line in file.lines if line.name == name]
    assert made or not edits
    result = rewritten(file, made, channels, first)
    tomlkit.parse(result)
    return result


def test_no_edits_and_the_same_channels_change_nothing():
    text = (
        '# mine\n[workspace]\nchannels = [\n  "ours", # o\n  "conda-forge",\n]\n'
        "[dependencies]\n  a   = '1'   # why\n\n"
        '[environments]\nx = {\n  features = ["y"], # TOML 1.1\n}'
    )
    assert edited(text, {}) == text
    crlf = text.replace("\n", "\r\n")
    assert edited(crlf, {}) == crlf


def test_a_key_is_replaced_in_its_place():
    text = HEAD + (
        '[dependencies]\npython = "3.9.*"\n'
        'cudatoolkit = {channel = "conda-forge", version = "11.8.*"}  # mine\nnumpy = "*"\n'
    )
    edits = {"cudatoolkit": (["cuda-version=12.6", "cuda-libraries"], "was cudatoolkit 11.8")}
    assert edited(text, edits) == HEAD + (
        '[dependencies]\npython = "3.9.*"\n'
        'cuda-version = "12.6.*"  # was cudatoolkit 11.8  # mine\ncuda-libraries = "*"\n'
        'numpy = "*"\n'
    )


def test_a_build_and_a_channel_need_braces():
    text = HEAD + '[dependencies]\na = "*"\nb = "*"\n'
    edits = {"a": ["jaxlib=*=*cuda*"], "b": ["conda-forge::cuda-nvcc=12.9"]}
    assert edited(text, edits) == HEAD + (
        '[dependencies]\njaxlib = { version = "*", build = "*cuda*" }\n'
        'cuda-nvcc = { version = "12.9.*", channel = "conda-forge" }\n'
    )


def test_a_key_goes_and_its_comment_stays():
    text = HEAD + '[dependencies]\n  a = "*"  # mine\n  b = "*"\n'
    assert edited(text, {"a": ([], "nobody has a"), "b": []}) == HEAD + (
        "[dependencies]\n  # nobody has a  # mine\n"
    )


def test_a_value_over_several_lines_is_replaced_whole():
    text = (
        HEAD + '[dependencies]\na = {\n  version = "1", # one\n  build = "x",\n}  # mine\nb = "1"\n'
    )
    assert edited(text, {"a": (["c=2"], "why")}) == HEAD + (
        '[dependencies]\nc = "2.*"  # why  # mine\nb = "1"\n'
    )


def test_edits_are_in_the_table_of_their_line():
    text = HEAD + (
        '[feature.cu.dependencies]\ncuda-version = "12.*"\n'
        '[feature.cu.target.linux.dependencies]\ncudnn = "8.*"\n'
        '[dependencies]\npython = "*"\n'
    )
    file = manifest(text)
    line = next(line for line in file.lines if line.name == "cudnn")
    assert line.part == "feature.cu.target.linux"
    assert rewritten(file, [Edit(line, ("cudnn=9",))], CHANNELS) == text.replace(
        'cudnn = "8.*"', 'cudnn = "9.*"'
    )


# pypi-dependencies


def test_a_pypi_line_moves_to_the_dependencies_of_its_feature():
    text = HEAD + (
        '[dependencies]\npython = "*"  # p\n\n[feature.x.dependencies]\na = "*"\n\n'
        '[feature.x.pypi-dependencies]\ntorch = ">=2"  # mine\nb = "*"\n'
    )
    assert edited(text, {"torch": (["pytorch >=2"], "was torch")}) == HEAD + (
        '[dependencies]\npython = "*"  # p\n\n[feature.x.dependencies]\na = "*"\n'
        'pytorch = ">=2"  # was torch  # mine\n\n'
        '[feature.x.pypi-dependencies]\nb = "*"\n'
    )


def test_a_feature_without_dependencies_gets_a_table():
    text = HEAD + (
        '[dependencies]\na = "*"\n[feature.x.pypi-dependencies] # wheels\ntorch = ">=2"\n[tasks]\n'
    )
    assert edited(text, {"torch": ["pytorch >=2"]}) == HEAD + (
        '[dependencies]\na = "*"\n[feature.x.dependencies]\npytorch = ">=2"\n# wheels\n[tasks]\n'
    )


def test_a_pypi_line_with_extras_in_braces():
    text = HEAD + (
        '[dependencies]\npip = "*"\n[pypi-dependencies]\n'
        'jax = { version = "*", extras = ["cuda12"] }\njaxopt = "*"\n'
    )
    edits = {"jax": (["jax", "jaxlib=*=*cuda12*"], "was jax[cuda12]")}
    assert edited(text, edits) == HEAD + (
        '[dependencies]\npip = "*"\njax = "*"  # was jax[cuda12]\n'
        'jaxlib = { version = "*", build = "*cuda12*" }\n[pypi-dependencies]\njaxopt = "*"\n'
    )


def test_a_bound_that_two_specs_have_is_written_once():
    text = HEAD + '[dependencies]\na = ">=2.6"\n'
    assert edited(text, {"a": ["pytorch >=2.6", "pytorch >=2.6"]}) == HEAD + (
        '[dependencies]\npytorch = ">=2.6"\n'
    )
    assert edited(text, {"a": ["pytorch >=2.6", "pytorch >=2.6,<3"]}) == HEAD + (
        '[dependencies]\npytorch = ">=2.6,<3"\n'
    )


# Each spec once


def test_what_stands_there_already_is_not_written_again():
    text = HEAD + '[dependencies]\npytorch = ">=2"\n[pypi-dependencies]\ntorch = "*"\nb = "*"\n'
    assert edited(text, {"torch": (["pytorch"], "is pytorch")}) == HEAD + (
        '[dependencies]\npytorch = ">=2"\n[pypi-dependencies]\n# is pytorch\nb = "*"\n'
    )


def test_the_pinned_one_of_two_stays():
    text = HEAD + '[dependencies]\npytorch = "*"  # mine\n[pypi-dependencies]\ntorch = "==2.5"\n'
    assert edited(text, {"torch": (["pytorch=2.5"], "was torch")}) == HEAD + (
        '[dependencies]\npytorch = "2.5.*"  # was torch  # mine\n'
    )


def test_two_versions_of_a_package_are_one_key():
    text = (
        HEAD + '[dependencies]\npytorch = "2.4.*"\na = "*"\n[pypi-dependencies]\ntorch = "==2.5"\n'
    )
    assert edited(text, {"torch": ["pytorch=2.5"], "a": ["pytorch=2.6"]}) == HEAD + (
        '[dependencies]\npytorch = "2.4.*,2.6.*,2.5.*"\n'
    )


def test_the_same_package_may_be_in_two_features():
    text = HEAD + (
        '[feature.a.dependencies]\ncuda-version = "12.*"\n'
        '[feature.b.dependencies]\ncudatoolkit = "11"\n'
    )
    assert edited(text, {"cudatoolkit": ["cuda-version=12"]}) == text.replace(
        'cudatoolkit = "11"', 'cuda-version = "12.*"'
    )


# Ways to write a table


def test_dotted_keys_keep_their_table():
    text = HEAD + '[feature.x]\ndependencies.cudatoolkit = "11"\nplatforms = ["linux-64"]\n'
    edits = {"cudatoolkit": (["cuda-version=12", "b"], "why")}
    assert edited(text, edits, first=["cuda-gpu"]) == HEAD + (
        '[feature.x]\ndependencies.cuda-gpu = "*"\ndependencies.cuda-version = "12.*"  # why\n'
        'dependencies.b = "*"\nplatforms = ["linux-64"]\n'
    )


def test_a_table_in_braces():
    text = HEAD + (
        '[feature.x]\ndependencies = { a = "*", cudatoolkit = "11" } # mine\n'
        'pypi-dependencies = { torch = "*" }\n'
    )
    edits = {"cudatoolkit": (["cuda-version=12"], "was cudatoolkit"), "torch": ["pytorch"]}
    assert edited(text, edits, first=["cuda-gpu"]) == HEAD + (
        "[feature.x]\n# was cudatoolkit\n"
        'dependencies = { cuda-gpu = "*", a = "*", cuda-version = "12.*", pytorch = "*" } # mine\n'
        "pypi-dependencies = {}\n"
    )


def test_a_table_in_braces_over_several_lines():
    text = HEAD + '[feature.x]\ndependencies = {\n    a = "*",\n    cudatoolkit = "11",\n}\n'
    assert edited(text, {"cudatoolkit": ["cuda-version=12"]}) == HEAD + (
        '[feature.x]\ndependencies = {\n    a = "*",\n    cuda-version = "12.*",\n}\n'
    )


def test_a_table_of_one_package():
    text = HEAD + (
        '[dependencies.cudatoolkit] # mine\nversion = "11"\nchannel = "x"\n\n# next\n'
        '[dependencies.a]\nversion = "1"\n'
    )
    edits = {"cudatoolkit": (["cuda-version=12", "jaxlib=*=*cuda*"], "why")}
    assert edited(text, edits) == HEAD + (
        '[dependencies.cuda-version]  # why  # mine\nversion = "12.*"\n'
        '[dependencies.jaxlib]\nversion = "*"\nbuild = "*cuda*"\n\n# next\n'
        '[dependencies.a]\nversion = "1"\n'
    )


def test_a_table_with_tables_of_packages_only_gets_one_of_its_own():
    text = HEAD + '\n[dependencies.a]\nversion = "1"\n'
    assert edited(text, {}, first=["cuda-gpu"]) == text + '\n[dependencies]\ncuda-gpu = "*"\n'


def test_a_dotted_key_of_a_package_is_refused():
    text = HEAD + '[dependencies]\na.version = "1"\n'
    with pytest.raises(BadValue, match=r"line 5 has a dotted key: a\.version"):
        edited(text, {"a": ["b"]})
    text = HEAD + '[pypi-dependencies]\na.version = "1"\na.index = "x"\n'
    with pytest.raises(BadValue, match=r"line 5 has a dotted key: a\.version"):
        edited(text, {"a": ["b"]})


def test_a_table_that_cannot_be_added_is_refused():
    text = HEAD + '[feature]\nx = { pypi-dependencies = { torch = "*" } }\n'
    with pytest.raises(BadValue, match="cannot be edited"):
        edited(text, {"torch": ["pytorch"]})


# What comes first


def test_first_is_in_the_main_table():
    text = HEAD + '[dependencies]\n# core\npython = "*"\n'
    assert edited(text, {}, first=["cuda-gpu"]) == (
        HEAD + '[dependencies]\ncuda-gpu = "*"\n# core\npython = "*"\n'
    )
    assert edited(HEAD, {}, first=["cuda-gpu"]) == HEAD + '[dependencies]\ncuda-gpu = "*"\n'


def test_first_is_in_the_features_that_are_edited():
    text = HEAD + (
        '[dependencies]\npython = "*"\n[feature.a.dependencies]\ncudatoolkit = "11"\n'
        '[feature.a.target.linux-64.dependencies]\ncudatoolkit = "11"\n'
        '[feature.b.dependencies]\nnumpy = "*"\n'
    )
    result = edited(text, {"cudatoolkit": ["cuda-version=12"]}, first=["cuda-gpu"])
    assert result.count("cuda-gpu") == 1
    assert '[feature.a.dependencies]\ncuda-gpu = "*"\n' in result


def test_first_is_not_added_where_it_is():
    text = HEAD + '[dependencies]\ncuda-gpu = "1"\n'
    assert edited(text, {}, first=["cuda-gpu"]) == text


def test_first_is_for_platforms_that_have_cuda():
    text = (
        '[workspace]\nchannels = ["ours", "conda-forge"]\n'
        'platforms = ["osx-arm64", { platform = "linux-64", cuda = "12.9" }, "linux-64"]\n'
        '[dependencies]\npython = "*"\n'
    )
    assert edited(text, {}, first=["cuda-gpu"]) == (
        text + '[target.linux-64.dependencies]\ncuda-gpu = "*"\n'
    )


# Channels


def test_channels_that_stay_keep_their_lines():
    text = (
        '[workspace]\nchannels = [\n  "nvidia", # old\n  "conda-forge", # c\n  "x",\n]\n'
        '[feature.a]\nchannels = ["nvidia", { channel = "x" }]\n'
    )
    assert edited(text, {}, ["ours", "conda-forge", "x"]) == (
        '[workspace]\nchannels = [\n  "ours",\n  "conda-forge", # c\n  "x",\n]\n'
        '[feature.a]\nchannels = ["ours", "conda-forge", { channel = "x" }]\n'
    )


def test_a_channel_with_a_priority_stands_by_its_place():
    text = '[project]\nchannels = [{ channel = "conda-forge", priority = 2 }, "x"]\n'
    result = edited(text, {}, ["ours", "x", "conda-forge"])
    assert tomlkit.parse(result)["project"]["channels"] == ["ours", "x", "conda-forge"]


def test_a_workspace_without_channels_gets_them():
    text = '[workspace]\nplatforms = ["linux-64"]\n'
    assert edited(text, {}) == (
        '[workspace]\nchannels = ["ours", "conda-forge"]\nplatforms = ["linux-64"]\n'
    )
    text = 'workspace.platforms = ["linux-64"]\n'
    assert edited(text, {}) == 'workspace.channels = ["ours", "conda-forge"]\n' + text
    text = 'workspace = { platforms = ["linux-64"] }\n'
    assert tomlkit.parse(edited(text, {}))["workspace"] == {
        "channels": ["ours", "conda-forge"],
        "platforms": ["linux-64"],
    }


# pyproject.toml


def test_a_pyproject_has_its_tables_below_tool_pixi():
    text = (
        '[project]\nname = "x"\ndependencies = ["torch"]\n\n'
        '[tool.pixi.workspace]\nplatforms = ["linux-64"]\n'
        '[tool.pixi.pypi-dependencies]\nx = { path = "." }\ncupy-cuda12x = "*"\n'
    )
    assert edited(text, {"cupy-cuda12x": ["cupy"]}, kind=Format.PYPROJECT) == (
        '[project]\nname = "x"\ndependencies = ["torch"]\n\n'
        '[tool.pixi.workspace]\nchannels = ["ours", "conda-forge"]\nplatforms = ["linux-64"]\n'
        '[tool.pixi.dependencies]\ncupy = "*"\n\n'
        '[tool.pixi.pypi-dependencies]\nx = { path = "." }\n'
    )


def test_a_project_s_own_requirement_stays_beside_the_package_that_satisfies_it():
    text = (
        '[project]\ndependencies = [\n  "torch>=2",\n]\n'
        '[tool.pixi.workspace]\nchannels = ["ours", "conda-forge"]\n'
    )
    line = Line(3, "torch>=2", Tool.PIP, "torch", "torch>=2")
    file = EnvironmentFile(Path("pyproject.toml"), Format.PYPROJECT, text, ())
    assert rewritten(file, [Edit(line, ("pytorch >=2",), "for torch")], CHANNELS) == (
        text + '[tool.pixi.dependencies]\npytorch = ">=2"  # for torch\n'
    )


def test_line_ends_and_a_missing_last_one_stay():
    text = (HEAD + '[dependencies]\na = "1"').replace("\n", "\r\n")
    assert edited(text, {"a": ["c", "d"]}, first=["cuda-gpu"]) == (
        HEAD + '[dependencies]\ncuda-gpu = "*"\nc = "*"\nd = "*"'
    ).replace("\n", "\r\n")


def test_the_own_channels_of_a_feature_stay_behind_ours():
    """Packages of another environment may be in no other channel."""
    text = (
        '[workspace]\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n'
        '[feature.cuda]\nchannels = ["nvidia", {channel = "rapidsai", priority = 1}]\n'
        '[feature.cuda.dependencies]\ncudf = "*"\n'
    )
    new = tomlkit.parse(edited(text, {})).unwrap()
    assert new["workspace"]["channels"] == ["ours", "conda-forge"]
    assert new["feature"]["cuda"]["channels"] == ["ours", "conda-forge", "rapidsai"]


OF_PYTORCH = (
    '[workspace]\nchannels = ["pytorch", "nvidia", "conda-forge"]\nplatforms = ["linux-64"]\n'
    '[feature.new.dependencies]\npytorch-cuda = "12.1"\n'
    'torchaudio = { channel = "pytorch", version = "2.3.0" }\n'
)


def test_a_channel_that_a_line_names_which_stays_is_kept_behind_ours():
    """pixi refuses a dependency whose channel the workspace does not list."""
    new = tomlkit.parse(edited(OF_PYTORCH, {"pytorch-cuda": ["cuda-version=12"]})).unwrap()
    assert new["workspace"]["channels"] == ["ours", "conda-forge", "pytorch"]


def test_environments_that_are_not_named_keep_their_channels():
    """pytorch-cuda of another environment needs packages that only nvidia has, and ours hides."""
    text = OF_PYTORCH + (
        '[feature.old.dependencies]\npytorch = { channel = "pytorch", version = "1.13.1" }\n'
        '[environments]\nnew = ["new"]\nold = ["old"]\n'
    )
    new = edited(text, {"pytorch-cuda": ["cuda-version=12"]})
    assert new == text.replace(
        '[feature.new.dependencies]\npytorch-cuda = "12.1"',
        '[feature.new]\nchannels = [\n  { channel = "ours", priority = 2 },\n'
        '  { channel = "conda-forge", priority = 1 },\n]\n'
        '[feature.new.dependencies]\ncuda-version = "12.*"',
    )


# Platforms without CUDA

WITH_MAC = HEAD.replace('["linux-64"]', '["linux-64", "osx-arm64"]')


def test_what_is_added_is_not_for_a_platform_without_cuda():
    """A workspace with cupy for macOS has no solution on a Mac."""
    text = WITH_MAC + '[dependencies]\npython = "*"\n[pypi-dependencies]\ncupy-cuda12x = "*"\n'
    edits = {"cupy-cuda12x": (["cupy", "cuda-version=12"], "was cupy-cuda12x")}
    assert edited(text, edits, first=["cuda-gpu"]) == WITH_MAC + (
        '[dependencies]\npython = "*"\n[target.linux-64.dependencies]\ncuda-gpu = "*"\n'
        'cupy = "*"  # was cupy-cuda12x\ncuda-version = "12.*"\n'
    )


def test_a_package_that_is_renamed_is_for_platforms_with_cuda_and_one_that_is_not_for_all():
    text = WITH_MAC + '[dependencies]\npytorch-cuda = "12.1.*"\npytorch = "2.5.*"\n'
    edits = {"pytorch-cuda": (["cuda-version=12"], "why"), "pytorch": ["pytorch=2", "b"]}
    assert edited(text, edits) == WITH_MAC + (
        '[dependencies]\npytorch = "2.*"\n'
        '[target.linux-64.dependencies]\ncuda-version = "12.*"  # why\nb = "*"\n'
    )


def test_a_wheel_that_macos_has_too_stays_there():
    text = WITH_MAC + '[pypi-dependencies]\ntorch = { version = ">=2", extras = ["x"] }  # mine\n'
    line = next(line for line in manifest(text).lines if line.name == "torch")
    edit = Edit(line, ("pytorch >=2",), "was torch", stays_without_cuda=True)
    assert rewritten(manifest(text), [edit], CHANNELS) == WITH_MAC + (
        '[target.linux-64.dependencies]\npytorch = ">=2"  # was torch  # mine\n'
        '[target.osx-arm64.pypi-dependencies]\ntorch = { version = ">=2", extras = ["x"] }\n'
    )


def test_a_key_that_the_table_of_a_platform_has_is_not_written_again():
    text = WITH_MAC + (
        '[target.linux-64.dependencies]\ncuda-version = "12.6.*"\n'
        '[pypi-dependencies]\ncupy-cuda12x = "*"\n'
    )
    assert edited(text, {"cupy-cuda12x": ["cupy", "cuda-version=12"]}) == WITH_MAC + (
        '[target.linux-64.dependencies]\ncuda-version = "12.6.*"\ncupy = "*"\n'
    )


def test_pixi_is_told_which_project_a_package_of_ours_is():
    """It knows that of conda-forge's packages only, and would install pip's copy beside ours."""
    text = (
        '[project]\ndependencies = [\n  "torch>=2",\n]\n'
        '[tool.pixi.workspace]\nchannels = ["ours", "conda-forge"]\n'
    )
    line = Line(3, "torch>=2", Tool.PIP, "torch", "torch>=2", part="project")
    file = EnvironmentFile(Path("pyproject.toml"), Format.PYPROJECT, text, ())
    edit = Edit(line, ("pytorch >=2",), "for torch")
    once = rewritten(file, [edit], CHANNELS, projects={"pytorch": "torch"})
    assert once == text + (
        '[tool.pixi.dependencies]\npytorch = ">=2"  # for torch\n'
        '[tool.pixi.workspace.conda-pypi-map]\n"ours" = { mapping = { pytorch = "torch" } }\n'
    )
    file = EnvironmentFile(Path("pyproject.toml"), Format.PYPROJECT, once, ())
    assert rewritten(file, [], CHANNELS, projects={"pytorch": "torch"}) == once


# Where cuda-gpu stands: pixi has no solution for it where no driver is stated


def asked_first(text, environment, subdirs):
    """The tables that have cuda-gpu, if nothing of a file is edited."""
    file = manifest(text)
    place = ForFirst(environment, file.lines, subdirs)
    new = rewritten(file, [], CHANNELS, ["cuda-gpu"], place=place)
    return [".".join(path[:-1]) for path in spans_of(new) if path[-1] == "cuda-gpu"]


def test_a_feature_that_states_the_driver_asks_for_cuda():
    text = HEAD + (
        '[dependencies]\npython = "*"\n[feature.cu.dependencies]\ncuda-nvrtc = "*"\n'
        '[feature.cu-12.system-requirements]\ncuda = "12"\n'
        '[feature.cu-12.dependencies]\ncuda-version = "12.*"\n'
        '[environments]\nx = { features = ["cu", "cu-12"] }\n'
    )
    assert asked_first(text, "x", ["linux-64"]) == ["feature.cu-12.dependencies"]


def test_what_is_not_edited_asks_for_cuda_in_the_feature_that_is_about_it():
    text = HEAD + '[feature.cu.dependencies]\ncupy = "*"\n[environments]\nx = ["cu"]\n'
    assert asked_first(text, "x", ["linux-64"]) == ["feature.cu.dependencies"]


def test_a_platform_without_a_driver_asks_for_nothing():
    text = HEAD.replace('["linux-64"]', '["linux-64", "win-64"]') + '[dependencies]\ncupy = "*"\n'
    assert asked_first(text, "default", ["linux-64"]) == ["target.linux-64.dependencies"]
