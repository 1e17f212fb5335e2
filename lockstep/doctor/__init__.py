"""`lockstep doctor`: what this machine can promise, what grading would refuse, and what mends it."""
