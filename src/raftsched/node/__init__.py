"""Wires the parts of one node: the core thread with Raft and the state machine, and its door to the asyncio loop."""
