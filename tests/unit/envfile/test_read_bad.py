"""What cannot be read is an error with a cause and a step; nothing else ever leaves `read_file`."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctk.core.errors import CtkError, FileUnreadable
from ctk.envfile import source
from ctk.envfile.model import EnvironmentFile
from ctk.envfile.read import read_file

FILES = Path(__file__).with_name("files")
SAMPLES = sorted(path for path in FILES.iterdir() if path.name != "README.md")
USERS = [path for path in SAMPLES if path.name[0].isdigit()]
NAMES = [
    "conda-lock.yml",
    "environment.yml",
    "pixi.lock",
    "pixi.toml",
    "pylock.toml",
    "pyproject.toml",
    "requirements.txt",
    "x",
]
NASTY = [
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xe9", b"\n", b"\r", b"\t", b" ", b"'", b'"', b"'''"),
    *(b"{", b"[", b"[[", b"]]", b"(((", b"&a ", b"*a", b"!!map ", b"<<: ", b"? ", b"|\n", b"- "),
    *(b": ", b"::", b"=", b"#", b"@", b"\\", b"%", b"~", b"null", b"true", b"1979-05-27"),
    *(b"-1", b"9" * 30, b"a.b", b"[a]\n", b"[[a]]\n", b"\xe2\x80\xa8"),
]


def read_bytes(folder: Path, name: str, content: bytes) -> EnvironmentFile | CtkError:
    """What is read; or the error, which has a cause and a step."""
    path = folder / name
    path.write_bytes(content)
    try:
        return read_file(path)
    except CtkError as error:
        assert str(path) in error.cause
        assert error.step
        return error


def error_of(folder: Path, name: str, text: str | bytes) -> str:
    """The cause of the error, without the folder."""
    content = text.encode() if isinstance(text, str) else text
    found = read_bytes(folder, name, content)
    assert isinstance(found, FileUnreadable), found
    return found.cause.replace(f"{folder}/", "")


@pytest.mark.parametrize("path", USERS, ids=lambda path: path.name)
def test_a_file_that_is_cut_off_is_read_or_refused(tmp_path: Path, path: Path) -> None:
    content = path.read_bytes()
    whole = len(read_file(path).lines)
    for cut in range(20):
        found = read_bytes(tmp_path, path.name, content[: len(content) * cut // 20])
        if isinstance(found, EnvironmentFile):
            assert len(found.lines) <= whole


@st.composite
def changed(draw: st.DrawFn) -> tuple[str, bytes]:
    """A sample under its own name or another one, with some places changed, and perhaps cut off."""
    path = draw(st.sampled_from(SAMPLES))
    data = bytearray(path.read_bytes())
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.sampled_from([0, 0, 1, 1, 2, 4, 8, 50, 1000]))
        copy = bytes(data[start:end]) * 3
        data[start:end] = draw(st.sampled_from(NASTY) | st.binary(max_size=8) | st.just(copy))
    kept = draw(st.sampled_from([len(data), draw(st.integers(0, len(data)))]))
    name = draw(st.sampled_from([path.name, *NAMES]))
    return name, bytes(data[:kept])


@given(changed())
def test_a_file_of_any_bytes_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, file: tuple[str, bytes]
) -> None:
    folder = tmp_path_factory.mktemp("changed")
    read_bytes(folder, *file)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    causes = {"missing": "no such file", "pipe": "a pipe", ".": "a folder"}
    for name, reason in causes.items():
        with pytest.raises(FileUnreadable, match=reason):
            read_file(tmp_path / name)
    with pytest.raises(FileUnreadable, match="it is a pipe, a device or a socket"):
        read_file(Path("/dev/zero"))
    with pytest.raises(FileUnreadable):
        read_file(Path("a\0b"))


def test_a_file_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "environment.yml"
    path.write_text("dependencies:\n- python\n")

    def refuse(*_: object) -> bytes:
        """What the system says to all but root, who may read everything."""
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(source, "read_plain", refuse)
    with pytest.raises(FileUnreadable, match="you may not read it"):
        read_file(path)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_without_a_text_says_so(tmp_path: Path, name: str) -> None:
    assert error_of(tmp_path, name, "") == f"{name}: it is empty"
    assert error_of(tmp_path, name, " \n\n") == f"{name}: it is empty"
    latin = "# a\nname: caf\u00e9\n".encode("latin-1")
    assert error_of(tmp_path, name, latin) == f"{name}, line 2: it is not UTF-8 text (byte 0xe9)"
    assert "line 3: it has a NUL character" in error_of(tmp_path, name, b"a\nb\nc\0")


# The file, and what its error says: the line and the reason.
WRONG = {
    "tab in YAML": (
        "environment.yml",
        "channels:\n- a\ndependencies:\n\t- python\n",
        "line 4: it is not valid YAML: found character '\\t' that cannot start any token",
    ),
    "a list at the top": ("environment.yml", "- python\n- numpy\n", "line 1: it is not a mapping"),
    "no dependencies": ("environment.yml", "channels:\n- a\n", "it has no `dependencies:`"),
    "channels a text": (
        "environment.yml",
        "channels: conda-forge\ndependencies:\n- python\n",
        "line 1: `channels:` is not a list",
    ),
    "dependencies a mapping": (
        "environment.yml",
        "name: x\ndependencies:\n  python: 3\n",
        "line 3: `dependencies:` is not a list",
    ),
    "pip a text": (
        "environment.yml",
        "dependencies:\n- pip:\n    torch\n",
        "line 3: `pip:` is not a list",
    ),
    "a list in pip": (
        "environment.yml",
        "dependencies:\n- pip:\n  - [torch]\n",
        "line 3: an entry of `pip:` is not text",
    ),
    "a list in dependencies": (
        "environment.yml",
        "dependencies:\n- [python]\n",
        "line 2: a list is in the list of `dependencies`",
    ),
    "a key twice": (
        "environment.yml",
        "dependencies:\n- a\nchannels: []\ndependencies:\n- b\n",
        "line 4: `dependencies:` is there twice",
    ),
    "nested deeply": (
        "environment.yml",
        f"dependencies:\n{'- ' * 5000}",
        "it is nested too deeply",
    ),
    "two documents": (
        "environment.yml",
        "dependencies: []\n---\ndependencies: []\n",
        "line 2: it is not valid YAML: but found another document",
    ),
    "an unknown alias": (
        "environment.yml",
        "dependencies:\n- *python\n",
        "line 2: it is not valid YAML: found undefined alias 'python'",
    ),
    "a key of TOML twice": (
        "pixi.toml",
        '[dependencies]\na = "1"\na = "2"\n',
        'line 3: it is not valid TOML: Key "a" already exists.',
    ),
    "a text that is cut off": (
        "pixi.toml",
        '[dependencies]\na = "1',
        "line 2: it is not valid TOML",
    ),
    "nested deeply in TOML": ("pixi.toml", f"a = {'[' * 5000}", "line 1: it is not valid TOML"),
    "dependencies a list": (
        "pixi.toml",
        '[workspace]\n\ndependencies = ["a"]\n[feature.x]\ndependencies = ["a"]\n',
        "line 5: `feature.x.dependencies` is not a table",
    ),
    "channels a text in TOML": (
        "pixi.toml",
        '[workspace]\nchannels = "a"\n',
        "line 2: `workspace.channels` is not a list",
    ),
    "a channel of numbers": (
        "pixi.toml",
        "[workspace]\nchannels = [1]\n",
        "line 2: `workspace.channels` is not a list of channels",
    ),
    "a platform of numbers": (
        "pixi.toml",
        "[workspace]\nplatforms = [1]\n",
        "line 2: `workspace.platforms` is not a list of platforms",
    ),
    "a version of numbers": (
        "pixi.toml",
        "[dependencies]\na = 1\n",
        "line 2: `dependencies.a` is not a version or a table",
    ),
    "a driver of truth": (
        "pixi.toml",
        "[system-requirements]\ncuda = true\n",
        "line 2: `system-requirements.cuda` is not a version",
    ),
    "features a text": (
        "pixi.toml",
        '[environments]\na = { features = "x" }\n',
        "line 2: `environments.a.features` is not a list",
    ),
    "no list of packages": (
        "pyproject.toml",
        "[build-system]\nrequires = []\n",
        "it has neither `[tool.pixi]` nor `dependencies` of a project",
    ),
    "a lock of tomorrow": (
        "pixi.lock",
        "version: 1000\nenvironments: {}\npackages: []\n",
        "found newer lockfile format version 1000",
    ),
    "a pylock without a name": (
        "pylock.toml",
        'lock-version = "1.0"\ncreated-by = "x"\n[[packages]]\nversion = "1"\n',
        "line 3: it is not a pylock.toml: Missing required value in 'packages[0].name'",
    ),
    "words": (
        "requirements.txt",
        "?? ??\n!!\n",
        "none of its lines is a package that pip can read",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, case: str) -> None:
    name, text, reason = WRONG[case]
    cause = error_of(tmp_path, name, text)
    separator = ", " if reason.startswith("line") else ": "
    assert cause.startswith(f"{name}{separator}")
    assert reason in cause


def test_aliases_of_aliases_are_read_once(tmp_path: Path) -> None:
    levels = ["x: &a0 [torch]"]
    levels += [f"x{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    whole = "\n".join([*levels, "dependencies:", "- pip: &p [torch]", *["- pip: *p"] * 1000])
    found = read_bytes(tmp_path, "environment.yml", whole.encode())
    assert isinstance(found, EnvironmentFile)
    assert [line.name for line in found.lines] == ["torch"]


def test_of_many_lines_that_are_none_the_first_are_named(tmp_path: Path) -> None:
    content = b"torch\n" + b"".join(b"?%d\n" % number for number in range(1000))
    found = read_bytes(tmp_path, "requirements.txt", content)
    assert isinstance(found, EnvironmentFile)
    assert len(found.notes) == 21
    assert found.notes[-1] == "980 more lines are not read"


# The first line, and each of the others.
LARGE = {
    "environment.yml": ("dependencies:", "- package-{0}={0}.0.0.0"),
    "pixi.toml": ("[dependencies]", 'package-{0} = ">={0}.0.0"'),
    "requirements.txt": ("# packages", "package-{0}=={0}.0.0.0"),
    "list.txt": ("# packages", "package-{0}={0}.0.0=h{0}_0"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", LARGE)
def test_a_file_of_5_megabytes_is_read(tmp_path: Path, name: str) -> None:
    head, line = LARGE[name]
    lines = [head, *(line.format(number) for number in range(180_000))]
    content = "\n".join(lines).encode()
    assert len(content) > 4_500_000
    found = read_bytes(tmp_path, name, content)
    assert isinstance(found, EnvironmentFile)
    assert len(found.lines) == 180_000
    assert found.lines[-1].number == len(lines)


@pytest.mark.parametrize("name", NAMES)
def test_5_megabytes_of_garbage_are_refused(tmp_path: Path, name: str) -> None:
    garbage = bytes(33 + number * number % 91 for number in range(5_000)) * 1000
    error_of(tmp_path, name, garbage)
