"""What commands print and write: files are checked before anybody is asked."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from opendp_optimal.files import check_output


def check_outputs(
    *, pictures: Sequence[Path | None] = (), tables: Sequence[Path | None] = ()
) -> None:
    """Refuse files that cannot be written, before anybody is asked."""
    for path in (*pictures, *tables):
        if path is not None:
            try:
                check_output(path)
            except OSError as error:
                raise ValueError(
                    f"file ({path}) must be one that can be written: {error.strerror}"
                ) from None
    for path in pictures:
        if path is not None:
            from opendp_optimal_geo.plots import check_picture

            check_picture(path)


def print_json(report: dict[str, Any]) -> None:
    """Print JSON as everybody reads it: numbers that are not finite are null."""
    click.echo(json.dumps(_finite(report), allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_answer(answer: Any, people: Any, as_json: bool) -> None:
    """Print the answer to a query: what was released, and what it cost."""
    report = {
        "value": answer.value,
        "error_bound": answer.error_bound,
        "beta": answer.beta,
        "saving": answer.saving,
        "missing": answer.missing,
        "users": people.size,
        "mean_remaining": float(people.remaining.mean()),
        "halted": int(people.halted.sum()),
        "rounds": [asdict(r) for r in answer.rounds],
    }
    if as_json:
        print_json(report)
        return
    click.echo(f"value        {answer.value}")
    click.echo(f"error bound  {answer.error_bound:g} (except with probability {answer.beta:g})")
    click.echo(f"saving       {answer.saving:.4f} of the price")
    click.echo(f"remaining    {report['mean_remaining']:.6g} of {float(people.capacity):.6g}, mean")
    if answer.missing:
        click.echo(f"missing      {answer.missing} users gave no answer")
    for r in answer.rounds:
        click.echo(f"  look {r.look:<3} asked {r.asked:<9} in {r.inside:<9} out {r.outside}")
