"""The plot of an experiment."""

from __future__ import annotations

from pathlib import Path

from docs.reproduce.liang.sweep import Figure
from docs.reproduce.report import canvas


def plot_experiment(path: Path, result: Figure) -> None:
    """Draw savings above errors, one column per panel.

    :param path: file to write; the ending chooses the format
    :param result: from :mod:`~docs.reproduce.liang.experiments`
    """
    panels, methods = result.panels, result.methods
    figure, axes = canvas(2, len(panels), (4.0 * len(panels) + 1.0, 6.0))
    for column, panel in enumerate(panels):
        for index, method in enumerate(methods):
            rows = [r for r in result.rows if r.panel == panel and r.method == method]
            if not rows:
                continue
            x = [r.x for r in rows]
            style = {"color": f"C{index % 10}", "marker": "o", "markersize": 3, "label": method}
            style["linestyle"] = "--" if method.startswith("BM") else "-"
            axes[0, column].plot(x, [r.saving for r in rows], **style)
            axes[1, column].plot(x, [r.error for r in rows], **style)
            axes[1, column].fill_between(
                x, [r.low for r in rows], [r.high for r in rows], color=f"C{index % 10}", alpha=0.08
            )
        axes[0, column].set(title=panel, xscale="log", ylabel="privacy saving", ylim=(-0.02, 1.02))
        axes[1, column].set(xscale="log", xlabel=result.x_label, ylabel=result.error_label)
    axes[0, 0].legend(frameon=False, fontsize=7)
    figure.suptitle(f"Figure {result.name}: {result.title}")
    figure.savefig(path)
