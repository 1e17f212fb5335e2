"""Runs a student's code where it can do no harm and brings back what it did."""
