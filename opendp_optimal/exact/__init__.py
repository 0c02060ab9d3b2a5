"""Exact arithmetic: numbers rounded one way, and the search for the last that fits."""
