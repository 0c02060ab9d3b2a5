"""From floats to integers. Nothing here is a proof."""
