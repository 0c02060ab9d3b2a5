"""Every public constructor: a good object, or an error that says so; nothing else, nothing slow."""

import contextlib
import inspect

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import opendp_optimal
from opendp_optimal import Loss, make_optimal_bounded_noise, make_optimal_noise
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.testing import audit
from tests.attacks.mechanisms import REAL, VALUES, WHOLE
from tests.attacks.mechanisms_more import BUILT, NOT_RELEASES

dp.enable_features("contrib", "honest-but-curious")
QUICK = settings(max_examples=60, suppress_health_check=list(HealthCheck))

numbers = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.integers(-3, 3),
    st.integers(min_value=2**62),
    st.just(10**400),
    st.sampled_from(["l1", "pinball:0.5", object(), abs]),
    st.floats(),
    st.floats(0.0, 1.0),
    st.lists(st.floats(), max_size=2),
)
NOT_BUILT = (ValueError, TypeError)
SPACES = [
    (dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)),
    (dp.atom_domain(T=float), dp.absolute_distance(T=float)),
    (dp.atom_domain(T=int), dp.absolute_distance(T=int)),
    (dp.atom_domain(T=str), dp.discrete_distance()),
    (dp.vector_domain(dp.atom_domain(T=int), 2), dp.l1_distance(T=int)),
    (dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)),
    (None, 3),
]


@given(numbers, numbers, numbers, numbers)
@QUICK
def test_problems(epsilon, delta, support, sensitivity):
    try:
        problem = NoiseProblem(
            epsilon=epsilon, delta=delta, support=support, integer_sensitivity=sensitivity
        )
    except (ValueError, TypeError, OverflowError):
        return
    assert 0 < problem.epsilon <= 32
    assert 0 <= problem.delta < 1


@given(st.sampled_from(SPACES), numbers, st.one_of(numbers, st.tuples(numbers, numbers)))
@QUICK
def test_make_optimal_noise(space, d_in, d_out):
    d_out = _cheap(d_out)
    with contextlib.suppress(*NOT_BUILT):
        made = make_optimal_noise(*space, d_in, d_out, gap=10.0, cache=False)
        assert made.map(d_in) is not None


def _cheap(d_out):
    """Rounded to a few targets, so that hardly anything new is solved."""

    def near(value):
        if isinstance(value, float) and 1e-3 < value < 1:
            return 0.5
        if isinstance(value, float) and 0 < value < 32:
            return 1.0 if value >= 1 else 1e-3
        return value

    return tuple(map(near, d_out)) if isinstance(d_out, tuple) else near(d_out)


@given(st.sampled_from(SPACES), numbers, numbers, st.tuples(numbers, numbers))
@settings(QUICK, max_examples=40)
def test_make_optimal_bounded_noise(space, d_in, epsilon, ends):
    with contextlib.suppress(*NOT_BUILT):
        make_optimal_bounded_noise(
            *space, d_in, (_cheap(epsilon), 0.5), range=ends, bins=2, gap=10.0, cache=False
        )


@given(st.text(max_size=12))
@QUICK
@example("pinball:nan")
@example("pinball:1e999")
@example("custom:a:b")
def test_losses_by_name(name):
    from opendp_optimal.losses.base import loss_of

    with contextlib.suppress(ValueError):
        assert isinstance(loss_of(name), Loss)


@given(numbers, numbers, numbers, numbers)
@QUICK
def test_audit_arguments(epsilon, delta, draws, alarm):
    with contextlib.suppress(*NOT_BUILT):
        few = draws if not isinstance(draws, int) or draws < 0 else 100
        audit(lambda x: x, 0, 1, epsilon, delta, draws=few, alarm=alarm, fork=False)


# --- by a table: what each parameter may well be; any of them is replaced by anything -------------

LINE = [[0, 1], [1, 0]]
SMALL = {"gap": 10.0, "cache": False}
VECTOR = (dp.vector_domain(dp.atom_domain(T=float, nan=False), 2), dp.l2_distance(T=float))
PLANE = np.array([[0.0, 0.0], [5.0, 1.0], [2.0, 3.0]])


def table():
    """Constructors and functions that build something, with good arguments."""
    core = opendp_optimal
    space = {"input_domain": REAL[0], "input_metric": REAL[1]}
    yield core.solve, {"epsilon": 1.0, "delta": 0.5, "integer_sensitivity": 1, **SMALL}
    yield core.solve_bounded, {
        "epsilon": 1.0, "delta": 0.5, "sensitivity": 1.0, "range": (0.0, 2.0), "bins": 2, **SMALL,
    }  # fmt: skip
    yield core.solve_channel, {"prior": [0.5, 0.5], "loss": LINE, "epsilon": 1.0, "metric": LINE}
    yield core.make_optimal, {**space, **SMALL}
    yield core.make_optimal_bounded, {**space, "range": (0.0, 2.0), **SMALL}
    yield core.then_optimal_noise, {"d_in": 1.0, "d_out": (1.0, 0.5), **SMALL}
    yield core.then_optimal_bounded_noise, {"d_in": 1.0, "d_out": (1.0, 0.5), "range": (0.0, 2.0)}
    yield core.solve_pair, {"epsilon": 2.0, "delta": 1e-3, **SMALL}
    yield core.solve_radial, {"epsilon": 1.0, "delta": 0.5, "size": 2, "cache": False}
    yield core.make_exact_gaussian, {**space, "d_in": 1.0, "d_out": (1.0, 0.5)}
    yield core.then_exact_gaussian, {"d_in": 1.0, "d_out": (1.0, 0.5)}
    yield core.make_concentrated_noise, {**space, "d_in": 1.0, "d_out": 0.5, "kind": "laplace"}
    column = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    rows = dp.numpy.array2_domain(num_columns=1, T=float, nan=False), dp.symmetric_distance()
    for name, (domain, metric), bounds in (
        ("mean", column, (0.0, 1.0)),
        ("means", rows, [(0.0, 1.0)]),
        ("moments", column, (0.0, 1.0)),
    ):
        good = {"bounds": bounds, "d_in": 1, "d_out": (2.0, 1e-3)}
        both = {"input_domain": domain, "input_metric": metric, **good}
        yield getattr(core, f"make_optimal_{name}"), both
        yield getattr(core, f"then_optimal_{name}"), good
    good = {"bounds": (0.0, 1.0), "probabilities": [0.5], "d_in": 1, "d_out": 1.0, "bins": 8}
    yield (
        core.make_optimal_quantiles,
        {
            "input_domain": column[0],
            "input_metric": column[1],
            **good,
        },
    )
    yield core.then_optimal_quantiles, good
    yield core.solve_keys, {"epsilon": 1.0, "delta": 1e-3, "move": 1}
    keyed = dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=int))
    by_key = dp.l01inf_distance(dp.absolute_distance(T=int))
    good = {"d_in": (1, 1, 1), "d_out": (2.0, 1e-3)}
    yield core.make_optimal_threshold, {"input_domain": keyed, "input_metric": by_key, **good}
    yield core.then_optimal_threshold, good
    total = column >> dp.t.then_clamp((0.0, 1.0)) >> dp.t.then_sum()
    yield core.make_joint, {"transformations": [total, total], "d_in": 1, "d_out": (1.0, 0.5)}
    yield core.compose, {"releases": [], "delta": 1e-6}
    yield core.advise, {"epsilon": 1.0, "delta": 0.5, "sensitivity": 1.0}
    for mechanism in core.load_plugins().mechanisms.values():
        make = mechanism.value
        names = list(inspect.signature(make).parameters)[2:]
        yield make, {**space, **{n: VALUES[n] for n in names if n in VALUES}}
    with contextlib.suppress(ModuleNotFoundError):
        yield from select()
    with contextlib.suppress(ModuleNotFoundError):
        yield from bayes()
    with contextlib.suppress(ModuleNotFoundError):
        yield from geo()
    with contextlib.suppress(ModuleNotFoundError):
        yield from learn()


def select():
    import opendp_optimal_select as of

    space = of.FeatureSpace(PLANE, directions=1)
    yield of.Client, {"epsilon": 1.0, "k": 2}
    yield of.FeatureClient, {"scale": 1.0, "k": 3, "dimension": 2}
    yield of.Catalogue, {"positions": [1.0, 2.0], "items": ["a", "b"]}
    yield of.VectorCatalogue, {"points": PLANE, "items": ["a", "b", "c"]}
    yield of.FeatureSpace, {"points": PLANE, "directions": 1}
    yield of.Server, {"catalogue": of.Catalogue([1.0, 2.0], ["a", "b"]), "max_answers": 2}
    yield of.Request, {"signal": 1.0, "noise": "laplace", "scale": 1.0, "k": 1}
    yield of.RingNoise, {"step_epsilon": 1.0, "weights": (2, 1, 1), "answers": (0,)}
    yield of.GeographicPrivacy, {"bound": lambda d: d, "slope": 1.0}
    yield of.grid_offsets, {"per_side": 1, "directions": 1, "scale": 1.0}
    yield of.offsets, {"k": 2, "epsilon": 1.0}
    yield of.design_ring, {"epsilon": 0.4, "k": 1, "points": 6}
    yield of.make_feature_selection, {
        "input_domain": VECTOR[0], "input_metric": VECTOR[1], "scale": 1.0, "space": space,
        "per_side": 1,
    }  # fmt: skip
    yield of.make_ring_selection, {
        "input_domain": WHOLE[0], "input_metric": WHOLE[1], "noise": of.design_ring(0.4, 1, 6),
    }  # fmt: skip
    yield of.then_multi_selection, {"epsilon": 1.0, "k": 2}
    yield of.then_ring_selection, {"noise": of.design_ring(0.4, 1, 6)}
    yield of.then_feature_selection, {"scale": 1.0, "space": space, "per_side": 1}


def bayes():
    import opendp_optimal_bayes as of

    best = of.optimal_channel(prior=[0.5, 0.5], loss=LINE, epsilon=1.0)
    yield of.Channel, {"rows": [[0.5, 0.5], [0.25, 0.75]]}
    yield of.optimal_channel, {"prior": [0.5, 0.5], "loss": LINE, "epsilon": 1.0}
    yield of.loss_matrix, {"loss": "l1", "answers": [0, 1]}
    yield of.clamp, {"lo": 0, "hi": 3}
    yield of.remap, {"prior": None, "loss": "l1"}
    yield of.geometric_channel, {"n": 2, "epsilon": 1.0}
    yield of.step_geometric_channel, {"n": 2, "epsilon": 1.0}
    yield of.make_optimal_channel, {
        "input_domain": WHOLE[0], "input_metric": WHOLE[1], "optimum": best, "lo": 0,
    }  # fmt: skip
    yield of.then_optimal_channel, {"optimum": best, "lo": 0}
    yield of.then_bounded_geometric, {"lo": 0, "hi": 3, "epsilon": 1.0}
    yield of.then_bounded_laplace, {"lo": 0.0, "hi": 3.0, "epsilon": 1.0}


def geo():
    import opendp_optimal_geo as of

    yield of.Population, {"points": PLANE, "budget": 1.0, "privacy": "cgp", "grid": 0.5}
    yield of.Curator, {"records": [1, 2, 3], "budget": 1.0}
    yield of.GpFilter, {"budget": 1.0}
    yield of.CgpFilter, {"budget": 1.0}
    yield of.GaussianFilter, {"budget": 1.0, "delta": 1e-6, "reach": 10.0}
    yield of.LocalProtocol, {"budget": of.GpFilter(1.0), "space": VECTOR, "d_in": 1.0}
    yield of.DistanceTo, {"point": [0.0, 1.0]}
    yield of.SignedDistance, {"region": of.rectangle((0, 0), 1, 1)}
    yield of.rectangle, {"centre": (0, 0), "width": 1.0, "height": 2.0, "angle": 0.0}
    metric = dp.l2_distance(T=float)
    plane = {"input_domain": VECTOR[0], "input_metric": metric}
    yield of.make_signed_distance, {**plane, "region": of.rectangle((0, 0), 1, 1)}
    yield of.make_distance_to_point, {**plane, "point": [0.0, 1.0]}
    crs = "EPSG:32618"
    degrees = {**plane, "input_metric": of.projected_distance(crs)}
    yield of.make_projection, {**degrees, "crs": crs}
    yield of.then_grid_gaussian, {"rho": 1.0}
    yield of.then_grid_laplace, {"epsilon": 1.0}
    yield of.then_signed_distance, {"region": of.rectangle((0, 0), 1, 1)}
    yield of.then_distance_to_point, {"point": [0.0, 1.0]}
    yield of.then_projection, {"crs": "EPSG:32618"}


def learn():
    import opendp_optimal_learn as of

    data = np.linspace(0, 1, 24).reshape(12, 2)
    labels = np.arange(12) % 2
    public = {"bounds": (0.0, 1.0), "classes": [0, 1]}

    def bayes(**options):
        return of.PrivateNaiveBayes(**options).fit(data, labels)

    def logistic(**options):
        return of.PrivateLogisticRegression(max_iter=1, **options).fit(data, labels)

    for fit in (bayes, logistic):
        yield fit, {"epsilon": 9.0, "delta": 0.5, "noise": "laplace", **public}
    yield of.plan, {"noise": "laplace", "epsilon": 1.0, "delta": 0.5, "releases": 2}
    yield of.truncated_table, {"epsilon": 1.0, "delta": 0.5}
    yield of.make_truncated_laplace, {
        "input_domain": REAL[0], "input_metric": REAL[1], "d_in": 1.0, "d_out": (1.0, 0.5),
    }  # fmt: skip


TABLE = list(table())
REFUSED = (ValueError, TypeError, dp.OpenDPException)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("build", "good"), TABLE, ids=[build.__name__ for build, _ in TABLE])
@given(data=st.data())
@settings(QUICK, max_examples=25)
def test_constructors_refuse_what_they_cannot_use(build, good, data):
    named = [
        p.name for p in inspect.signature(build).parameters.values() if p.kind != p.VAR_KEYWORD
    ]
    wrong = data.draw(st.sets(st.sampled_from(sorted({*good, *named})), min_size=1, max_size=2))
    options = {**good, **{name: data.draw(numbers) for name in sorted(wrong)}}
    for name in ("epsilon", "delta", "d_out"):
        if name in options:
            options[name] = _cheap(options[name])
    with contextlib.suppress(*REFUSED):
        build(**options)


def test_good_arguments_are_accepted():
    refused = []
    for build, good in TABLE:
        try:
            build(**good)
        except REFUSED as error:
            refused.append((build.__name__, str(error)[:80]))
    # Mechanisms and transformations that are not for single floats.
    others = {"make_bounded_geometric", "make_sized_mean", "make_quantiles", *BUILT, *NOT_RELEASES}
    assert {name for name, _ in refused} <= others, refused


def test_every_public_constructor_is_in_the_table():
    import importlib

    listed = {build.__name__ for build, _ in TABLE}
    listed |= {"make_optimal_noise", "make_optimal_bounded_noise", "make_filter"}
    for name in ("select", "bayes", "geo", "learn", "example"):
        with contextlib.suppress(ModuleNotFoundError):
            package = importlib.import_module(f"opendp_optimal_{name}")
            public = [n for n in package.__all__ if n.startswith(("make_", "then_"))]
            assert set(public) <= listed
    frames = {n for n in opendp_optimal.__all__ if "_frame_" in n}  # tests/measure/test_frames.py
    made = {n for n in opendp_optimal.__all__ if n.startswith(("make_", "then_", "solve"))}
    assert made - frames <= listed
