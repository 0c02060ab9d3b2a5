"""What the paper says of its figures, beside what our numbers say."""

from __future__ import annotations

import itertools
import math
from statistics import median

from docs.reproduce.liang.sweep import Figure, Row

Claims = list[tuple[str, str]]
"""What the paper says of a figure, and what we measure."""


def rows(found: Figure, method: str) -> dict[tuple[str, float], Row]:
    """The rows of one method by panel and place."""
    return {(row.panel, row.x): row for row in found.rows if row.method == method}


def span(values: list[float], form: str = ".2f") -> str:
    """Least and largest of some numbers."""
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def error_ratio(found: Figure, over: str, under: str, x: float | None = None) -> str:
    """The errors of one method as multiples of another's, over all cells or at one place."""
    above, below = rows(found, over), rows(found, under)
    ratios = [
        row.error / below[key].error
        for key, row in above.items()
        if key in below and below[key].error > 0 and (x is None or key[1] == x)
    ]
    return f"{span(ratios)} times" if ratios else "no errors to compare"


def alike(found: Figure) -> str:
    """Errors of every PM as multiples of its BM, and in how many cells they are clearly apart."""
    ratios, worse, better, cells = [], 0, 0, 0
    for method in found.methods:
        if not method.startswith("PM") or "NoShift" in method:
            continue
        base = rows(found, method.split()[0].replace("PM", "BM"))
        for key, row in rows(found, method).items():
            cells += 1
            if base[key].error > 0:
                ratios.append(row.error / base[key].error)
            apart = row.error - base[key].error
            noise = math.hypot(
                row.deviation / math.sqrt(row.repetitions),
                base[key].deviation / math.sqrt(base[key].repetitions),
            )
            worse += apart > 2 * noise
            better += -apart > 2 * noise
    middle = f"median {median(ratios):.2f} times BM's, {span(ratios)}; " if ratios else ""
    return (
        f"{middle}of {cells} cells PM is worse by more than two standard errors in {worse} "
        f"and better in {better}"
    )


def savings(found: Figure, method: str) -> str:
    """Savings of one method by place, over panels."""
    mine = rows(found, method)
    places = sorted({x for _, x in mine})
    return ", ".join(
        f"{span([row.saving for (_, at), row in mine.items() if at == x])} at {x:g}" for x in places
    )


def savings_by_panel(found: Figure, method: str) -> str:
    """Savings of one method by panel, over places."""
    mine = rows(found, method)
    return ", ".join(
        f"{span([row.saving for (at, _), row in mine.items() if at == panel])} for {panel}"
        for panel in found.panels
    )


def rising(found: Figure, method: str) -> str:
    """Whether savings never fall as the budget rises, by more than a hundredth."""
    mine = rows(found, method)
    steps = [
        (first, second)
        for panel in found.panels
        for first, second in itertools.pairwise(
            [row.saving for (at, _), row in sorted(mine.items()) if at == panel]
        )
    ]
    good = sum(second >= first - 0.01 for first, second in steps)
    return f"rise or stay in {good} of {len(steps)} steps"


def improvements(found: Figure, panel_part: str) -> str:
    """The mean improvement of PM with doubling looks over BM, by place."""
    gains: dict[float, list[float]] = {}
    for index in (0, 1):
        base = rows(found, f"BM_{index}")
        for key, row in rows(found, f"PM_{index} log-c10").items():
            if panel_part in key[0]:
                gains.setdefault(key[1], []).append(100 * (row.error / base[key].error - 1))
    return ", ".join(f"{span(values, '+.0f')} % at {x:g}" for x, values in sorted(gains.items()))


def claims_3(found: Figure) -> Claims:
    """Section 7.1, range counting."""
    least = min(row.x for row in found.rows)
    return [
        ("similar performance of PM and BM", alike(found)),
        (
            "a slight advantage of distances over points when rho is small",
            f"errors of BM_1 are {error_ratio(found, 'BM_1', 'BM_0', least)} those of BM_0 at the "
            f"smallest rho, over three widths",
        ),
        (
            "savings increase with rho",
            f"PM_0 log-c10: {rising(found, 'PM_0 log-c10')}; {savings(found, 'PM_0 log-c10')}",
        ),
        (
            "large savings even when rho is very small",
            f"PM_0 c64: {savings(found, 'PM_0 c64')}",
        ),
        (
            "savings are similar across widths",
            f"PM_0 log-c10: {savings_by_panel(found, 'PM_0 log-c10')}",
        ),
    ]


def claims_4(found: Figure) -> Claims:
    """Section 7.1, kernel density."""
    least = min(row.x for row in found.rows)
    return [
        ("similar performance of PM and BM", alike(found)),
        (
            "points have an advantage over distances (smaller bias)",
            f"errors of BM_1 are {error_ratio(found, 'BM_1', 'BM_0', least)} those of BM_0 at the "
            f"smallest rho, {error_ratio(found, 'BM_1', 'BM_0')} over all",
        ),
        (
            "large savings, which depend on the bandwidth b",
            f"PM_0 log-c10: {savings_by_panel(found, 'PM_0 log-c10')}",
        ),
    ]


def claims_5(found: Figure) -> Claims:
    """Section 7.1, nearest neighbours."""
    least = min(row.x for row in found.rows)
    return [
        ("similar errors of PM and BM", alike(found)),
        (
            "distances outperform points",
            f"errors of BM_1 are {error_ratio(found, 'BM_1', 'BM_0', least)} those of BM_0 at the "
            f"smallest rho; savings of PM_0 log-c10 {savings(found, 'PM_0 log-c10')}, of PM_1 "
            f"log-c10 {savings(found, 'PM_1 log-c10')}",
        ),
        ("savings are smaller for larger k", f"PM_1 c64: {savings_by_panel(found, 'PM_1 c64')}"),
        (
            "more looks save more",
            f"PM_1 c4: {savings(found, 'PM_1 c4')}; PM_1 c64: {savings(found, 'PM_1 c64')}",
        ),
    ]


def claims_6(found: Figure) -> Claims:
    """Section 7.2."""
    return [
        ("significant improvements of PM over BM", alike(found)),
        (
            "the improvement grows with the number of queries m (top row)",
            f"log-c10, error against BM: {improvements(found, 'B = ')}",
        ),
        (
            "and with the budget B (bottom row)",
            f"log-c10, error against BM: {improvements(found, 'm = ')}",
        ),
    ]


def claims_8(found: Figure) -> Claims:
    """Appendix B."""
    low, high = (pick(row.x for row in found.rows) for pick in (min, max))
    name = "PM_1 log-c10"
    return [
        (
            "for smaller budgets the shift significantly improves performance",
            f"without it errors are {error_ratio(found, 'BM_1 NoShift', 'BM_1', low)} (BM) and "
            f"{error_ratio(found, f'{name} NoShift', name, low)} (PM) as large at {low:g}, "
            f"{error_ratio(found, 'BM_1 NoShift', 'BM_1', high)} and "
            f"{error_ratio(found, f'{name} NoShift', name, high)} at {high:g}",
        )
    ]


def claims_9(found: Figure) -> Claims:
    """Appendix C."""
    return [
        ("no loss in utility against BM", alike(found)),
        (
            "significant savings when rho is sufficiently large",
            f"PM_1 log-c10: {savings(found, 'PM_1 log-c10')}",
        ),
    ]
