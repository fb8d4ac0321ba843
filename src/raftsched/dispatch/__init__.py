"""The pumps between the outside and the state machine: they turn time, credits and calls into commands.

A pump may be late, repeat itself or die; what is right is decided in state/ alone.
"""
