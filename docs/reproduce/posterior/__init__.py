"""Posteriors of released tables, measured on real ones."""
