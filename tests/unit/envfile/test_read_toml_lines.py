"""The line of each key of a TOML file is found, however it is written."""

from pathlib import Path

import pytest
import tomlkit

from ctk.envfile.toml_file import TomlPath, spans_of

FILES = Path(__file__).with_name("files")
TEXT = '''\
# [a] = 1
title = "[dependencies]" # x = 1
many = """
[no]
b = 1
"""
raw = \'\'\'
c = 1\'\'\'
[dependencies]
cuda-nvcc = "*"
"quoted.name" = { version = "1", "x y" = [ 1.5, "a = 2" ] }
'literal' . dotted . key = 1
[feature . "cu-12".target.linux.dependencies]
table = {
  version = "2",  # TOML 1.1
  extras = [
    "first",
    { second = 1979-05-27T07:32:00Z },
  ],
}
[[packages]]
name = "one"
[packages.more]
x = 1
[[packages]]
name = "two"
[[packages.wheels]]
url = "u"
[[packages.wheels]]
url = "v"
'''
LINES: dict[TomlPath, int] = {
    ("title",): 2,
    ("many",): 3,
    ("raw",): 7,
    ("dependencies",): 9,
    ("dependencies", "cuda-nvcc"): 10,
    ("dependencies", "quoted.name"): 11,
    ("dependencies", "quoted.name", "x y", 1): 11,
    ("dependencies", "literal"): 12,
    ("dependencies", "literal", "dotted", "key"): 12,
    ("feature",): 13,
    ("feature", "cu-12", "target", "linux", "dependencies"): 13,
    ("feature", "cu-12", "target", "linux", "dependencies", "table"): 14,
    ("feature", "cu-12", "target", "linux", "dependencies", "table", "version"): 15,
    ("feature", "cu-12", "target", "linux", "dependencies", "table", "extras", 0): 17,
    ("feature", "cu-12", "target", "linux", "dependencies", "table", "extras", 1, "second"): 18,
    ("packages", 0): 21,
    ("packages", 0, "name"): 22,
    ("packages", 0, "more", "x"): 24,
    ("packages", 1, "name"): 26,
    ("packages", 1, "wheels", 0, "url"): 28,
    ("packages", 1, "wheels", 1, "url"): 30,
}


@pytest.mark.parametrize("path", LINES, ids=str)
def test_a_key_is_on_its_line(path: TomlPath) -> None:
    assert spans_of(TEXT)[path].line == LINES[path]


def test_nothing_in_a_text_or_comment_is_a_key() -> None:
    keys = {key for path in spans_of(TEXT) for key in path}
    assert not keys & {"a", "b", "c", "x = 1", "no"}


def test_a_span_is_the_key_and_its_value() -> None:
    span = spans_of(TEXT)[("dependencies", "cuda-nvcc")]
    assert TEXT[span.start : span.end] == 'cuda-nvcc = "*"'


def paths_of(value: object, path: TomlPath = ()) -> set[TomlPath]:
    found = {path} if path else set()
    if isinstance(value, dict):
        for key, inner in value.items():
            found |= paths_of(inner, (*path, key))
    if isinstance(value, list):
        for number, inner in enumerate(value):
            found |= paths_of(inner, (*path, number))
    return found


@pytest.mark.parametrize("path", sorted(FILES.glob("*.toml")), ids=lambda path: path.name)
def test_each_key_that_tomlkit_reads_has_a_place_and_no_other(path: Path) -> None:
    text = path.read_text()
    assert set(spans_of(text)) == paths_of(tomlkit.parse(text).unwrap())


def test_the_same_for_the_text_above() -> None:
    assert set(spans_of(TEXT)) == paths_of(tomlkit.parse(TEXT).unwrap())
