"""Integrals over noise for vectors, for tests of the certifier."""

from __future__ import annotations

import math

import numpy as np
from scipy import integrate


def plain_delta(c, k, size, epsilon):
    """The delta of exp(-c r - k r^2): over the radius, and the angle to the move."""
    nodes, shares = np.polynomial.legendre.leggauss(60)
    whole = integrate.quad(lambda r: r ** (size - 1) * math.exp(-c * r - k * r * r), 0, 90)[0]
    sphere = math.gamma(size / 2) / math.gamma((size - 1) / 2) / math.sqrt(math.pi)
    panels = np.linspace(0, 60, 601)
    r = (panels[:-1, None] + (nodes + 1) / 20).ravel()
    rs = np.tile(shares / 20, 600)
    # Where the other density is e^epsilon times lower: from there on to the far side.
    least = c * r + k * r * r + epsilon
    far = least / c if k == 0 else (np.sqrt(c * c + 4 * k * least) - c) / (2 * k)
    cosine = np.clip((r * r + 1 - far * far) / (2 * r), -1, 1)
    begin = np.arccos(cosine)
    angle = begin[:, None] + (math.pi - begin)[:, None] * (nodes + 1) / 2
    other = np.sqrt(np.maximum(r[:, None] ** 2 + 1 - 2 * r[:, None] * np.cos(angle), 0))
    mine = np.exp(-c * r - k * r * r)[:, None]
    short = mine - math.exp(epsilon) * np.exp(-c * other - k * other**2)
    inner = (short * np.sin(angle) ** (size - 2) * shares).sum(1) * (math.pi - begin) / 2
    return float((inner * r ** (size - 1) * rs).sum() * sphere / whole)
