"""From floats to integers with exact proofs. Nothing here knows a solver."""
