"""Fernandes, McIver, Morgan (2021): Laplace noise and Bayesian consumers."""
