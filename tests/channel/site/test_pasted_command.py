"""What a reader pastes into a shell."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

import pytest

from ctk.site import Page
from kit.reading import Read

pytest_plugins = ["kit.site_fixtures"]


def html(files: Mapping[str, bytes]) -> dict[str, Read]:
    return {path: Read(content) for path, content in files.items() if path.endswith(".html")}


def text(pages: object, name: str) -> str:
    """The text of a page."""
    found: dict[str, Page] = {page.path: page for page in pages}  # type: ignore[attr-defined]
    return Read(found[name].content).text


@pytest.mark.parametrize("client", ["conda", "mamba"])
def test_the_activation_of_a_pasted_command_does_not_answer_the_client(
    files: Mapping[str, bytes], client: str
) -> None:
    """Both ask whether to proceed, and read the answer where the shell reads the next line."""
    page = Read(files["packages/cuda-core.html"])
    (pasted,) = re.findall(rf"^{client} create .*?^{client} activate gpu$", page.plain, re.M | re.S)
    asking = (
        f'{client}() {{ [ "$1" = activate ] && echo activated && return;'
        ' read -r answer; echo "the answer is $answer"; }'
    )
    shell = ["bash", "--norc", "--noprofile", "-s"]
    typed = f"{asking}\n{pasted}\ny\n"
    done = subprocess.run(shell, input=typed, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["the answer is y", "activated"]
