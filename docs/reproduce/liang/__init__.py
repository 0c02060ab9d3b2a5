"""Liang, Yi: Adaptive Privacy Budgeting."""
