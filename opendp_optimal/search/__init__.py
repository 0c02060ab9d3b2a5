"""From a problem to a certified table."""
