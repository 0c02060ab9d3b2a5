"""Files of radial tables."""

from __future__ import annotations

import numpy as np

from opendp_optimal.certify.decay import Decay
from opendp_optimal.certify.radial import Staircase
from opendp_optimal.certify.radial_bound import RadialPrices
from opendp_optimal.certify.radial_smooth import SmoothPrices
from opendp_optimal.certify.steps import Steps
from opendp_optimal.losses.base import Loss
from opendp_optimal.problem.radial import RadialProblem
from opendp_optimal.table.files.container import Arrays, Header, Kind, bounds
from opendp_optimal.table.radial import RadialTable

_VERSIONS = (1, 2, 3)
"""Version 2 has steps, or prices of two events or without corners; version 3 coordinates that weigh
differently, offsets, or prices of shorter vectors."""


def _parts(table: RadialTable) -> tuple[Header, Arrays]:
    law, prices = table.law, table.prices
    smooth = isinstance(prices, SmoothPrices)
    further = isinstance(prices, RadialPrices) and prices.further is not None
    shorter = isinstance(prices, SmoothPrices) and prices.size > 0
    version = 2 if isinstance(law, Steps) or smooth or further else 1
    uneven = table.problem.weights is not None or (isinstance(law, Staircase) and law.offsets)
    if shorter or uneven:
        version = 3
    header: Header = {
        "version": version,
        "problem": table.problem.describe(),
        "upper": table.upper.hex(),
        "lower": table.lower.hex(),
    }
    arrays: Arrays = {"weights": np.empty(0, np.int64)}
    if isinstance(law, Staircase):
        names = ("first", "step", "start", "tail", "again")
        header["staircase"] = {name: getattr(law, name) for name in names}
        arrays["weights"] = law.weights
        if law.offsets:
            arrays["offsets"] = np.array(law.offsets, np.int64)
    elif isinstance(law, Steps):
        header["steps"] = {"step": law.step}
        arrays = {"weights": law.weights, "balls": law.radii}
    else:
        header["decay"] = {"c": law.c.hex(), "k": law.k.hex(), "fine": law.fine}
    if isinstance(prices, SmoothPrices):
        header["smooth"] = {"price": prices.price.hex()}
        if shorter:
            header["smooth"]["size"] = prices.size
        arrays.update(places=prices.places, radii=prices.radii, slopes=prices.slopes)
    elif prices is not None:
        header["prices"] = {"price": prices.price.hex(), "width": prices.width}
        arrays["radii"] = prices.radii
        if (more := prices.further) is not None:
            about = {"price": more.price.hex(), "width": more.width, "length": more.length}
            header["further"] = about
            arrays["further"] = more.radii
    return header, arrays


def _build(header: Header, arrays: Arrays, loss: Loss | None) -> RadialTable:
    problem = RadialProblem.from_description(header["problem"], loss)
    law: Staircase | Steps | Decay
    if "staircase" in header:
        offsets = tuple(arrays["offsets"].tolist()) if "offsets" in arrays else ()
        law = Staircase(weights=arrays["weights"], offsets=offsets, **header["staircase"])
    elif "steps" in header:
        law = Steps(radii=arrays["balls"], weights=arrays["weights"], **header["steps"])
    else:
        given = header["decay"]
        law = Decay(float.fromhex(given["c"]), float.fromhex(given["k"]), given["fine"])
    return RadialTable(problem, law, **bounds(header), prices=_prices(header, arrays))


def _prices(header: Header, arrays: Arrays) -> RadialPrices | SmoothPrices | None:
    if "smooth" in header:
        given = header["smooth"]
        places, radii, slopes = (arrays[name] for name in ("places", "radii", "slopes"))
        price = float.fromhex(given["price"])
        return SmoothPrices(price, places, radii, slopes, given.get("size", 0))
    if "prices" not in header:
        return None
    given, further = header["prices"], None
    if "further" in header:
        more = header["further"]
        price = float.fromhex(more["price"])
        further = RadialPrices(price, more["width"], arrays["further"], more["length"])
    price = float.fromhex(given["price"])
    return RadialPrices(price, given["width"], arrays["radii"], further=further)


KIND: Kind[RadialTable] = Kind(
    name="radial",
    magic=b"ODPRADIA",
    versions=_VERSIONS,
    problem=RadialProblem,
    parts=_parts,
    build=_build,
)
