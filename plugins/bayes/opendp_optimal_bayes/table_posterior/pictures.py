"""Before and after, drawn: grids as heat maps, other tables cell by cell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_optimal.extend import new_figure, save_figure

if TYPE_CHECKING:
    from opendp_optimal_bayes.table_posterior.posterior import Posterior

_LEAST_SIDE = 8
_MOST_SHOWN = 200


def draw(found: Posterior, path: str | Path | None) -> Any:
    """Draw a posterior beside what was released; save it, if a path is given.

    :param found: the posterior
    :param path: of the picture; the ending chooses the format
    """
    grid = len(found.shape) == 2 and min(found.shape) >= _LEAST_SIDE
    figure = _maps(found) if grid else _cells(found)
    if path is not None:
        save_figure(figure, str(path))
    return figure


def _maps(found: Posterior) -> Any:
    from matplotlib.colors import FuncNorm, Normalize

    figure, axes = new_figure(12.0, 3.6, columns=3)
    lattice = found.observed.lattice
    low = 0.0 if lattice.low is None else lattice.base + lattice.unit * lattice.low
    most = max(float(np.quantile(np.abs(found.mean - low), 0.999)), 1e-300)

    def roots(value: Any) -> Any:
        return np.sign(value - low) * np.sqrt(np.abs(value - low))

    def squares(root: Any) -> Any:
        return low + np.sign(root) * root**2

    # Roots, so that small counts can be told apart; what is below the bound is blue.
    values = FuncNorm((roots, squares), vmin=low - most, vmax=low + most)
    deviation = Normalize(0.0, max(float(found.deviation.max()), 1e-300))
    parts = (
        ("released", found.released, values, "RdBu_r"),
        ("posterior mean", found.mean, values, "RdBu_r"),
        ("posterior deviation", found.deviation, deviation, "Reds"),
    )
    for axis, (name, part, norm, colours) in zip(np.ravel(axes), parts, strict=True):
        shown = axis.imshow(part.T, origin="lower", cmap=colours, norm=norm, aspect="auto")
        figure.colorbar(shown, ax=axis)
        axis.set_title(name)
        axis.set_xticks([])
        axis.set_yticks([])
    return figure


def _cells(found: Posterior) -> Any:
    figure, axes = new_figure(9.0, 3.6, columns=2)
    left, right = np.ravel(axes)[:2]
    flat = found.mean.ravel()
    order = np.argsort(-flat, kind="stable")
    order = order[np.unique(np.linspace(0, len(order) - 1, _MOST_SHOWN).astype(np.intp))]
    at = np.arange(len(order))
    low, high = (end.ravel()[order] for end in found.interval(0.9))
    left.vlines(at, low, high, color="#c1272d", alpha=0.35, label="90 % interval")
    left.plot(at, found.released.ravel()[order], ".", color="#4575b4", label="released", ms=3)
    left.plot(
        at, np.asarray(found.median).ravel()[order], ".", color="#c1272d", label="median", ms=3
    )
    left.set_xlabel("cells, the largest first")
    left.legend()
    prior = found.prior
    right.step(prior.low, np.cumsum(prior.chances), where="post", color="#c1272d")
    right.set_xscale("symlog", linthresh=max(1.0, float(np.abs(prior.low[1] - prior.low[0]))))
    right.set_ylim(0, 1.02)
    right.set_xlabel("true value")
    right.set_title("share of cells up to it, as learnt")
    return figure
