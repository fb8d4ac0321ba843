"""Fixtures of the Raft tests."""

from tests.unit.raft.stock import stock_clock

__all__ = ["stock_clock"]
