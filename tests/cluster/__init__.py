"""Fault tests with real node and worker processes."""
