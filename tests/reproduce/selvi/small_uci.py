"""Small made-up versions of the 13 UCI files, in their format, for the scripts that read them."""

import csv
import gzip
import io
from pathlib import Path

import numpy as np

from docs.reproduce.selvi import uci

CLASSES = {"ecoli": ("cp", "im"), "post-operative": ("A", "S")}
ROWS = 120


def write(folder: Path) -> None:
    """Write all sets: numbers and categories that tell something of two classes.

    :param folder: gets a folder ``uci``
    """
    (folder / "uci").mkdir()
    rng = np.random.default_rng(0)
    for name in uci.NAMES:
        recipe = uci._RECIPES[name]
        numerical = ["a", "b"] if recipe.numerical == ("*",) else list(recipe.numerical)
        # "2" and "20" are also numbers on both sides of where labels are cut.
        classes = CLASSES.get(name, ("2", "20"))
        categorical = [] if recipe.numerical == ("*",) else ["first", "second"]
        text = io.StringIO()
        out = csv.writer(text)
        out.writerow([*numerical, *categorical, *recipe.drop, recipe.target or "class"])
        for _ in range(ROWS):
            label = int(rng.integers(2))
            numbers = [f"{label + rng.normal():.3f}" for _ in numerical]
            words = [str((label + int(rng.random() < 0.3)) % 2) for _ in categorical]
            out.writerow([*numbers, *words, *("x" for _ in recipe.drop), classes[label]])
        raw = text.getvalue().encode()
        packed = gzip.compress(raw) if recipe.file.endswith(".gz") else raw
        (folder / "uci" / recipe.file).write_bytes(packed)
