"""Measurements on data frames."""
