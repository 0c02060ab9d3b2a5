import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from opendp_optimal.extend import postprocess
from opendp_optimal.testing import clopper_pearson
from opendp_optimal_select import audit_signal, make_multi_selection, offsets


@given(draws=st.integers(1, 2000), share=st.floats(0.0, 1.0), alpha=st.floats(1e-9, 0.2))
def test_bounds_have_exact_binomial_tails(draws, share, alpha):
    hits = round(share * draws)
    low, high = clopper_pearson(hits, draws, alpha)
    assert 0.0 <= low <= hits / draws <= high <= 1.0
    if hits > 0:
        assert binom.sf(hits - 1, draws, low) == pytest.approx(alpha, rel=1e-5)
    if hits < draws:
        assert binom.cdf(hits, draws, high) == pytest.approx(alpha, rel=1e-5)


def chain_with_scale(line, epsilon, k, scale):
    steps = offsets(k, epsilon=epsilon)
    noise = dp.m.make_laplace(*line, scale=scale)
    return postprocess(noise, lambda s: [s + a for a in steps], TO="Vec<f64>")


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.slow
def test_the_real_chain_is_not_refuted(line, k):
    """False alarm at most 1e-6 per case."""
    meas = make_multi_selection(*line, 1.0, k)
    report = audit_signal(
        meas, claimed=meas.map(1.0), values=(3.0, 4.0), draws=3000, false_alarm=1e-6
    )
    assert not report.violated
    # The audit has teeth: it proves most of the loss that is really there.
    assert report.proven > 0.6


@pytest.mark.slow
def test_a_wrong_scale_is_refuted(line):
    """Noise a third too small, claimed as epsilon = 1: the same audit must fail it."""
    wrong = chain_with_scale(line, 1.0, 3, scale=1 / 1.5)
    report = audit_signal(wrong, claimed=1.0, values=(3.0, 4.0), draws=4000, false_alarm=1e-6)
    assert report.violated
    right = chain_with_scale(line, 1.0, 3, scale=1.0)
    assert not audit_signal(right, claimed=1.0, values=(3.0, 4.0), draws=4000).violated


def test_bad_arguments(line):
    meas = make_multi_selection(*line, 1.0, 1)
    with pytest.raises(ValueError, match="must differ"):
        audit_signal(meas, claimed=1.0, values=(1.0, 1.0), draws=10)
    with pytest.raises(ValueError, match=r"draws \(0\)"):
        audit_signal(meas, claimed=1.0, values=(0.0, 1.0), draws=0)
