"""`scripts/collect-news`: the entries of all files, by kind, above the older ones."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from conftest import ROOT


def test_news_goes_into_the_changelog_and_the_template_stays(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "collect-news", tmp_path / "scripts")
    shutil.copytree(ROOT / "news", tmp_path / "news", ignore=lambda _, names: {*names} - {"TEMPLATE.md"})
    template = tmp_path / "news" / "TEMPLATE.md"
    (tmp_path / "news" / "a.md").write_text(template.read_text().replace("<news item>", "One,\n  in two lines.", 1))
    (tmp_path / "news" / "b.md").write_text("**Fixed:**\n\n* Two.\n\n**Added:**\n\n* Three.\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\nWhat it is.\n\n## [0.1.0]\n\n- Old.\n")
    subprocess.run([tmp_path / "scripts" / "collect-news", "[0.2.0]"], check=True)
    added = "### Added\n\n- One,\n  in two lines.\n- Three.\n\n### Fixed\n\n- Two.\n\n"
    text = (tmp_path / "CHANGELOG.md").read_text()
    assert text == f"# Changelog\n\nWhat it is.\n\n## [0.2.0]\n\n{added}## [0.1.0]\n\n- Old.\n"
    assert list((tmp_path / "news").iterdir()) == [template]
