"""Which mechanism should I use? Every one that applies, with its expected loss, ranked."""
