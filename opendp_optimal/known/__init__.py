"""Noises with closed forms."""
