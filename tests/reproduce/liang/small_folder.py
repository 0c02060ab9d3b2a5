"""A folder laid out like the real data, with a few hundred simulated records."""

import gzip

import numpy as np

from docs.reproduce.liang import datasets


def write(folder):
    """Write places, images and incomes.

    :param folder: an empty folder
    """
    rng = np.random.default_rng(0)
    for name in ("geo", "nyc_collisions", "mnist", "income"):
        (folder / name).mkdir()
    spots = np.array([-73.95, 40.75]) + rng.normal(0.0, 0.02, (400, 2))
    with gzip.open(folder / datasets.PICKUPS, "wt") as file:
        file.write("lng,lat,count\n" + "".join(f"{x},{y},2\n" for x, y in spots.tolist()))
    with gzip.open(folder / datasets.ACCIDENTS, "wt") as file:
        file.write("lng,lat\n" + "".join(f"{x + 73.8},{y + 11}\n" for x, y in spots.tolist()))
    with gzip.open(folder / datasets.COLLISIONS, "wt") as file:
        file.write("crash_date,latitude,longitude\n,,\n1,0.0,0.0\n")
        file.write("".join(f"1,{y},{x}\n" for x, y in spots.tolist()))
    for name, images in ((datasets.IMAGES, 60), (datasets.TEST_IMAGES, 5)):
        head = np.array([2051, images, 28, 28], ">i4").tobytes()
        pixels = rng.integers(0, 256, images * 784).astype(np.uint8).tobytes()
        with gzip.open(folder / name, "wb") as file:
            file.write(head + pixels)
    incomes = rng.integers(0, 10**5, 300).tolist()
    with gzip.open(folder / datasets.HOUSEHOLDS, "wt") as file:
        file.write("income,weight_x100\n" + "".join(f"{x},{100 + x % 7}\n" for x in incomes))
