"""Rewrites the golden files from the recipes: ``python tests/channel/recipes/update_golden.py``."""

from __future__ import annotations

import golden

from ctk.core.checkout import workspace


def main() -> None:
    texts = {
        f"{name}.yaml": golden.dump(output) for name, output in golden.rendered(workspace()).items()
    }
    for path in golden.FOLDER.glob("*.yaml"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        (golden.FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
