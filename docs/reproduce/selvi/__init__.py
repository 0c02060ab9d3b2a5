"""Selvi, Liu, Wiesemann (2024): Differential Privacy via Distributionally Robust Optimization."""
