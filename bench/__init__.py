"""Benchmarks: what raftsched does in a second, how late, and at what cost; README.md says how to read them."""
