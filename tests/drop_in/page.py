"""Write the table of docs/reference/drop-in.md: `python -m tests.drop_in.page`."""

from __future__ import annotations

from pathlib import Path

from opendp_optimal.measure.anatomy import chain_of
from tests.drop_in.pipelines import PIPELINES, expected

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "drop-in.md"
_HEAD = """# Drop-in for OpenDP's pipelines

Pipelines of OpenDP's documentation, with their own noise and with `then_optimal_noise(like=...)`
at the same price: expected absolute error of each released number, computed from the laws of the
noise, not drawn. `tests/drop_in` runs all of them, and contexts of four measures, weights, nested
contexts, filters, odometers and amplification; and random requests for numbers and vectors in four
measures of privacy (300 by `make bench`), each released: none was refused, none had more than 1.001
times the loss of OpenDP's Laplace, geometric or Gaussian noise at the same guarantee. Written by
`python -m tests.drop_in.page`.

| pipeline | price | OpenDP | swapped | less | noise |
|---|---|---:|---:|---:|---|
"""


def page() -> str:
    """The page, computed."""
    rows = []
    for pipeline in PIPELINES:
        native, ours = pipeline.pair()
        before, after = expected(native), expected(ours)
        last = chain_of(ours)[-1]
        noise = last.noise.kind if hasattr(last, "noise") else "table"
        measure = "rho" if "Concentrated" in str(native.output_measure) else "epsilon"
        rows.append(
            f"| {pipeline.name} | {measure} {native.map(pipeline.d_in):.4g} | {before:.4g} | "
            f"{after:.4g} | {max(0.0, 1 - after / before):.1%} | {noise} |"
        )
    return _HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
