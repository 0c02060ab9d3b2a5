"""The matrices and theorems of Fernandes, McIver and Morgan (2021), and incomes as a prior.

    python -m docs.reproduce.fernandes.bayes_theorems --data DIR [--only income] [--page PAGE]

Matrices and Theorem 12 in exact fractions; optimality of geometric noise against certified optima;
Theorem 14's bound beside what is lost; convergence on the incomes of households.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

from rich.progress import track

from docs.reproduce.fernandes.income import STEPS, compare, read_incomes
from docs.reproduce.fernandes.plots import income_figure
from docs.reproduce.fernandes.trials import illegal_trial, laplace_excesses, random_trials
from docs.reproduce.report import (
    CONSOLE,
    HERE,
    Parts,
    arguments,
    command,
    figure,
    markdown,
    save,
    sections,
    write,
)
from opendp_optimal_bayes import (
    Channel,
    geometric_channel,
    pixelated_laplace_channel,
    refines,
    step_geometric_channel,
)

PAPER = json.loads((HERE.parents[1] / "plugins/bayes/tests/golden.json").read_text())
DECAY = Fraction(1, 16)
"""exp(-epsilon) at epsilon = 2 ln 4, the paper's example."""
REFINED = (
    (1, 4, Fraction(1, 2)),
    (2, 8, Fraction(1, 2)),
    (3, 12, Fraction(3, 4)),
    (5, 20, Fraction(4, 5)),
    (8, 16, Fraction(9, 10)),
    (12, 24, Fraction(9, 10)),
)
"""N, T, and the decay across one pixel."""
PRIORS = (("cps", "l1"), ("cps", "l2"), ("oregon", "l1"), ("oregon", "l2"))
PLACES = {"cps": "US Current Population Survey", "oregon": "Oregon, American Community Survey"}
HEAD = (
    "N",
    "certified lower bound",
    "geometric + remap",
    "truncated Laplace",
    "excess",
    "Theorem 14 allows",
    "used",
)


def fractions(rows: Any) -> tuple[tuple[Fraction, ...], ...]:
    """Rows of fractions from rows of text."""
    return tuple(tuple(Fraction(v) for v in row) for row in rows)


def shown(rows: Any) -> str:
    """A matrix on one line."""
    return "; ".join(" ".join(str(v) for v in row) for row in rows)


def same(found: Any, printed: Any) -> list[str]:
    """Two cells: what was found, and the printed value if it is another."""
    equal = found == printed
    text = [shown(v) if isinstance(v, tuple) else str(v) for v in (found, printed)]
    return [text[0], "the same" if equal else text[1]]


def matrices(given: Any) -> list[str]:
    """Every matrix and number that the paper prints."""
    uniform = [Fraction(1, 3)] * 3
    risk = [[int(w != x) for x in range(3)] for w in range(3)]
    example = Channel(fractions(PAPER["M"]["rows"]))
    row = geometric_channel(2, decay=Fraction(1, 2)).rows[:1]
    rows = [
        [f"G_{n}, {PAPER[f'G_{n}']['where']}", *same(found, fractions(PAPER[f"G_{n}"]["rows"]))]
        for n in (2, 4)
        for found in [step_geometric_channel(n, decay=DECAY).rows]
    ]
    rows.append(
        [
            "Bayes risk of M for the uniform prior, section IV-C2",
            *same(example.exact_loss(uniform, risk), Fraction(PAPER["M"]["bayes_risk"])),
        ]
    )
    nearest = max(a / b for a, b in zip(example.rows[0], example.rows[1], strict=True))
    rows.append(["distance of the first rows of M, section IV-C1", f"ln {nearest}", "ln 4"])
    rows.append(
        [
            f"row of 0, {PAPER['truncated']['where']}",
            *same(row, fractions([PAPER["truncated"]["row"]])),
        ]
    )
    half = Fraction(1, 4)  # exp(-epsilon / 2)
    inner = 1 - half
    return [
        "In exact fractions, rows separated by semicolons.",
        "",
        *markdown(["what", "ours", "paper"], rows),
        "",
        "Where we differ, slips of the paper. Definition 4 prints end masses e^(εx)/2 and "
        "e^(ε(1-x))/2: at ε = 2 ln 4 and x = 1/2 the row would add up to "
        f"{inner + 1 / half}; with e^(-εx)/2 and e^(-ε(1-x))/2 it adds up to {inner + half}. "
        "Section II-D prints 2a/(1-a) for the chance that geometric noise is not 0: at a = 1/2 "
        "that is 2; 2a/(1+a) is 2/3, as its own example has it.",
    ]


def optimality(given: Any) -> list[str]:
    """Random consumers."""
    count, largest = (3, 8) if given.quick else (60, 30)
    found = list(
        track(
            random_trials(count, largest=largest),
            description="random consumers",
            total=count,
            console=CONSOLE,
        )
    )
    odd = illegal_trial()
    within = sum(t.lower <= t.geometric * (1 + 1e-12) <= t.upper * (1 + 1e-9) for t in found)
    rows = [
        [
            f"{low} to {high}",
            str(len(own)),
            f"{max(t.gap for t in own):.1e}",
            f"{max(t.excess for t in own):.1e}",
        ]
        for low, high in ((2, 10), (11, 20), (21, 30))
        if (own := [t for t in found if low <= t.n <= high])
    ]
    head = ["N", "consumers", "largest certified gap", "largest excess of geometric"]
    return [
        "The theorem of Ghosh, Roughgarden and Sundararajan, on which the paper builds (section "
        "II-E, Lemma 10): for every prior and every legal loss no ε-private mechanism loses less "
        "than geometric noise with the best remap. Random priors, random legal losses, ε from 0.05 "
        "to 3: the loss of geometric noise lies between the certified bounds of the linear "
        f"programme in **{within} of {count}** (paper: all). Gap and excess are parts of the loss.",
        "",
        *markdown(head, rows),
        "",
        f"Legality is needed: for the parity of 0..{odd.n} at ε = {odd.epsilon:g} geometric noise "
        f"loses {odd.geometric:.6f}, the certified optimum is {odd.upper:.6f}.",
    ]


def simplex(given: Any) -> str:
    """Figure 1b: posteriors of G_2 and of Laplace in eight pixels, uniform prior."""
    drawn, axes = figure(1, 4.6, 4.2)
    axis = axes[0, 0]
    corners = [(0.0, 0.0), (0.5, math.sqrt(0.75)), (1.0, 0.0)]
    axis.plot(*zip(*[*corners, corners[0]], strict=True), color="grey", linewidth=0.8)
    laplace = pixelated_laplace_channel(2, 8, epsilon=2 * math.log(4))
    for channel, colour, label in (
        (step_geometric_channel(2, decay=DECAY), "tab:orange", "geometric, N = 2"),
        (laplace, "tab:blue", "Laplace, T = 8"),
    ):
        hyper = channel.hyper([Fraction(1, 3)] * 3)
        places = [
            [sum(float(p) * c[i] for p, c in zip(q, corners, strict=True)) for i in (0, 1)]
            for q in hyper.posteriors
        ]
        axis.plot(*zip(*places, strict=True), "o", color=colour, label=label, markersize=5)
    for (x, y), label in zip(corners, ("0", "1/2", "1"), strict=True):
        axis.annotate(label, (x, y), textcoords="offset points", xytext=(4, 4))
    axis.set_aspect("equal")
    axis.axis("off")
    axis.legend(fontsize=7, frameon=False)
    return save(drawn, given.page, "bayes-posteriors")


def theorem_12(given: Any) -> list[str]:
    """Exact witnesses, and losses that refute the converse."""
    rows = []
    for n, t, pixel in REFINED[:2] if given.quick else REFINED:
        geometric = step_geometric_channel(n, decay=pixel**t)
        laplace = pixelated_laplace_channel(n, t, decay=pixel**t, ends=True)
        there, back = refines(geometric, laplace, tolerance=0), refines(laplace, geometric)
        assert there.witness is not None
        exact = geometric >> there.witness == laplace
        rows.append(
            [
                str(n),
                str(t),
                f"{-t * math.log(pixel):.3f}",
                "yes, exactly" if exact else "no",
                f"no: {float(back.loss_a):.5f} > {float(back.loss_b):.5f}"
                if back.loss_a is not None and back.loss_b is not None
                else "yes",
            ]
        )
    eight = refines(
        step_geometric_channel(2, epsilon=2 * math.log(4)),
        pixelated_laplace_channel(2, 8, epsilon=2 * math.log(4)),
    )
    fit = "exactly" if eight.residual == 0 else f"to within {float(eight.residual):.0e}"
    head = ["N", "T pixels", "ε", "G_N R = Laplace", "converse, losses that separate"]
    return [
        "Theorem 12: G_N is refined by Laplace on the same answers: Laplace is geometric noise, "
        "post-processed. A witness R with G_N R = Laplace is found in exact fractions, for Laplace "
        "observed in T pixels and the two end points (Lemma 11; the theorem is the limit of T). "
        "The converse is false each time, with a loss under which Laplace is strictly worse.",
        "",
        *markdown(head, rows),
        "",
        "The paper's Figure 1b, N = 2 and T = 8 at ε = 2 ln 4: the posteriors of Laplace lie "
        "between neighbouring posteriors of geometric noise. Entries are irrational there; for the "
        f"nearest floats a witness fits {fit}.",
        "",
        simplex(given),
    ]


def theorem_14(given: Any) -> list[str]:
    """The bound and what is lost, by privacy."""
    count = 20 if given.quick else 300
    found = list(laplace_excesses(count))
    rows = []
    for epsilon in sorted({e.epsilon for e in found}):
        own = [e for e in found if e.epsilon == epsilon]
        worst = max(own, key=lambda e: e.ratio)
        rows.append(
            [
                f"{epsilon:g}",
                str(len(own)),
                f"{sum(e.measured <= e.bound for e in own)}",
                f"{worst.measured:.2e} of {worst.bound:.2f} (N = {worst.n})",
                f"{100 * worst.ratio:.2g} %",
                f"{100 * max(0.0, min(e.ratio for e in own)):.1g} %",  # rounding
            ]
        )
    head = ["ε", "priors", "within the bound", "largest part", "in per cent", "least part"]
    return [
        "For a κ-Lipschitz loss Laplace loses at most cκ/N more than geometric noise, "
        "c = 3/(1 - e^-ε)², whatever the prior. Random priors on {0, 1/N, ..., 1}, N up to 30, "
        "absolute error (κ = 1), both after the best remap; Laplace is observed in about 1,000 "
        "pixels, which can only make it lose more. The bound holds with room to spare: it is "
        "proved for the worst prior by moving every posterior to a neighbour.",
        "",
        *markdown(head, rows),
    ]


def income(given: Any) -> list[str]:
    """A real prior, finer and finer."""
    steps = (2, 4) if given.quick else STEPS
    lines, apart = [], 0.0
    for name, loss in PRIORS[2:] if given.quick else PRIORS:
        incomes, weights = read_incomes(given.data, name)
        found = list(
            track(
                compare(incomes, weights, epsilon=4.0, loss=loss, steps=steps),
                description=f"{name} {loss}",
                total=len(steps),
                console=CONSOLE,
            )
        )
        before, last = found[-2:]
        power = math.log(before.excess / last.excess) / math.log(last.n / before.n)
        apart = max(
            apart, *(row.geometric / row.lower - 1 for row in found if row.lower is not None)
        )
        kind = "absolute" if loss == "l1" else "squared"
        title = f"{PLACES[name]}, {kind} error"
        lines += [
            f"{title}, {len(incomes):,} households; from N = {before.n} to {last.n} the excess "
            f"falls with N to the power {power:.2f}:",
            "",
            save(income_figure(found, title), given.page, f"bayes-income-{name}-{loss}"),
            "",
            *markdown(
                HEAD,
                [
                    [
                        str(row.n),
                        "-" if row.lower is None else f"{row.lower:.7f}",
                        f"{row.geometric:.7f}",
                        f"{row.laplace:.7f}",
                        f"{row.excess:.1e}",
                        f"{row.bound:.3g}",
                        f"{100 * row.ratio:.2g} %",
                    ]
                    for row in found
                ],
            ),
            "",
        ]
    return [
        "The paper proves (Theorem 5, by way of 14) that truncated Laplace is optimal in the "
        "limit, and prints no experiment. Incomes clipped to 0..200,000 dollars, scaled to [0, 1], "
        "ε = 4 from one end to the other. The least loss of all private mechanisms is certified up "
        f"to N = 32; geometric noise with a remap exceeds the bound by at most {apart:.0e} of it. "
        "Laplace approaches it faster than the theorem says, whose bound falls with N.",
        "",
        *lines[:-1],
    ]


PARTS: Parts = {
    "matrices": ("The printed matrices", matrices),
    "optimality": ("Geometric noise with a remap is optimal", optimality),
    "theorem-12": ("Theorem 12: Laplace is geometric, post-processed", theorem_12),
    "theorem-14": ("Theorem 14: what Laplace can lose", theorem_14),
    "income": ("Convergence on incomes", income),
}


def main() -> None:
    """Compute, draw and write or print the page."""
    given = arguments(__doc__, parts=PARTS).parse_args()
    lines = [
        "# Bayesian consumers: matrices and theorems of Fernandes, McIver and Morgan (2021)",
        "",
        "*The Laplace Mechanism has optimal utility for differential privacy over continuous "
        "queries*. Needs the plugin `opendp-optimal-bayes`. Written by",
        "",
        f"    {command('fernandes.bayes_theorems', given)}",
        "",
        *sections("fernandes.bayes_theorems", given, PARTS),
    ]
    write("\n".join(lines), given.page)


if __name__ == "__main__":
    main()
