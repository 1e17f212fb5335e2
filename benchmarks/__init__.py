"""Measurements that `make bench` makes and writes to docs/benchmarks.md."""
