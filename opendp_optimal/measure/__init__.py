"""From a noise table to OpenDP: ``make_``, ``then_``, the Context API, Polars, accounting."""
