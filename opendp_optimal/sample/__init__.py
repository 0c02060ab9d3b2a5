"""Exact draws from integer weights with cryptographic randomness."""
