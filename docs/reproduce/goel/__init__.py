"""Goel, Jiang, Korolova, Munagala, Sarmasarkar: multi-selection."""
