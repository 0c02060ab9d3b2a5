"""From a problem to its linear programmes."""
