"""The ring: the best answers to a place on a circle."""
