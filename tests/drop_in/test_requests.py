"""Random requests in four measures of privacy: answered, and no worse than OpenDP's own noise."""

import pytest

from tests.drop_in.requests import asked, holds


@pytest.mark.slow
def test_never_refused_and_never_worse() -> None:
    for seed in range(60):
        ours, native = holds(asked(seed))
        assert ours <= 1.001 * native, asked(seed)
