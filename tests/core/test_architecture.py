"""docs/architecture.md names functions that exist."""

from __future__ import annotations

import re

from conftest import ROOT


def test_the_functions_of_the_walks_are_in_the_files_that_they_name() -> None:
    walks = (ROOT / "docs" / "architecture.md").read_text().partition("<!-- end -->")[2]
    named = re.findall(r"`(\w+)`\s+\(`([\w/]+\.py)`\)", walks)
    assert len(named) > 15
    for name, file in named:
        text = (ROOT / "scripts" / "ctk" / file).read_text()
        assert re.search(rf"^(?:def|class) {name}\b", text, re.MULTILINE), f"{name} in {file}"
