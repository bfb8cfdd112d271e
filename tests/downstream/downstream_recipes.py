"""The recipes of the downstream tests, and the toolkits that they are for."""

from __future__ import annotations

from pathlib import Path

from conftest import MINORS
from ctk.plan.recipes import find_recipes

FOLDER = Path(__file__).parent
RECIPES = find_recipes(FOLDER)
# The toolkit that packages are built with, and the newest that they are to run with.
OLDEST, *_, NEWEST = [minor for minor in MINORS if minor.startswith("13.")]
