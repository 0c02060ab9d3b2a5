"""Provably optimal differentially private noise for OpenDP."""
