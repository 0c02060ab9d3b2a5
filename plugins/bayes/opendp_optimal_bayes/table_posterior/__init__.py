"""Posteriors of released tables: every cell's true value, with what the whole table tells of it."""
