"""Runs launch scripts with stand-ins for the programs they start."""
