"""A change of what a package depends on or exports is seen in review: it changes a golden file.

``python tests/channel/recipes/update_golden.py`` writes them.
"""

from __future__ import annotations

import golden

from ctk.core.checkout import Workspace


def test_outputs_render_as_their_golden_files_say_and_no_other_exists(project: Workspace) -> None:
    now = {name: golden.dump(output) for name, output in golden.rendered(project).items()}
    written = {path.stem: path.read_text(encoding="utf-8") for path in golden.FOLDER.glob("*.yaml")}
    assert written == now, "if this is meant: python tests/channel/recipes/update_golden.py"
