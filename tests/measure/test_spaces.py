"""What the noise can be added to, and the errors for what it cannot."""

from fractions import Fraction

import opendp.prelude as dp
import pytest

from opendp_optimal.measure.space import INTEGER_RANGES, Space, space_of

dp.enable_features("contrib")

ABSOLUTE = dp.absolute_distance(T=float)


@pytest.mark.parametrize("carrier", ["f32", "f64"])
def test_floats(carrier: str) -> None:
    space = space_of(dp.atom_domain(T=carrier, nan=False), ABSOLUTE)
    assert (space.carrier, space.integer, space.vector) == (carrier, False, False)


@pytest.mark.parametrize("carrier", INTEGER_RANGES)
def test_every_integer_type(carrier: str) -> None:
    space = space_of(dp.atom_domain(T=carrier), ABSOLUTE)
    assert (space.carrier, space.integer, space.output_type) == (carrier, True, carrier)


@pytest.mark.parametrize("carrier", ["i32", "i64", "u32", "u64", "usize", "f64"])
@pytest.mark.parametrize(
    ("metric", "norm"),
    [(dp.l1_distance, "l1"), (dp.l2_distance, "l2"), (dp.linf_distance, "linf")],
)
def test_vectors(carrier: str, metric: object, norm: str) -> None:
    options = {"nan": False} if carrier == "f64" else {}
    domain = dp.vector_domain(dp.atom_domain(T=carrier, **options), size=4)
    space = space_of(domain, metric(T=float))  # type: ignore[operator]
    assert space == Space(carrier, norm, 4)
    assert space.output_type == f"Vec<{carrier}>"


@pytest.mark.parametrize(
    ("domain", "metric", "words"),
    [
        (dp.atom_domain(T=float), ABSOLUTE, "input_domain.*NaN"),
        (dp.vector_domain(dp.atom_domain(T=float)), dp.l1_distance(T=float), "input_domain.*NaN"),
        (dp.atom_domain(T=bool), ABSOLUTE, "input_domain.*bool.*one of f32"),
        (dp.atom_domain(T=str), ABSOLUTE, "input_domain.*String.*one of f32"),
        (dp.option_domain(dp.atom_domain(T=int)), ABSOLUTE, "input_domain.*atom_domain"),
        (dp.atom_domain(T=int), dp.symmetric_distance(), "input_metric.*absolute_distance"),
        (dp.atom_domain(T=int), dp.l1_distance(T=int), "input_metric.*absolute_distance"),
        (dp.vector_domain(dp.atom_domain(T=int)), ABSOLUTE, "input_metric.*l1_distance"),
        (
            dp.vector_domain(dp.atom_domain(T=int)),
            dp.symmetric_distance(),
            "input_metric.*l1_distance",
        ),
        ("f64", ABSOLUTE, "input_domain"),
        (dp.atom_domain(T=int), "absolute", "input_metric"),
    ],
)
def test_refused(domain: object, metric: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        space_of(domain, metric)


def test_integers_move_by_whole_steps() -> None:
    assert Space("i32", "absolute").distance(2.9) == 2
    assert Space("f64", "absolute").distance(0.1) == Fraction(0.1)
    assert Space("i32", "l1").unit_steps(3) == 3
    assert Space("i32", "l2").unit_steps(2.0) == 4
    assert Space("i32", "l2").unit_steps(1.4142135623730951) == 2  # the float is above sqrt(2)


@pytest.mark.parametrize("d_in", [-1, -0.5, float("nan"), float("inf"), "1", None, True])
def test_bad_distances(d_in: object) -> None:
    with pytest.raises(ValueError, match="d_in"):
        Space("f64", "absolute").distance(d_in)
