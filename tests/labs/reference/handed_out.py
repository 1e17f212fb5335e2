"""What students of lockstep's own test lab are given."""

FACTOR = 2
