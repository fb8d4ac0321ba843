"""Verify: marks an entry as the one as of which every node hashes its whole state."""

from raftsched.internal.v1 import command_pb2
from raftsched.state.context import Context
from raftsched.state.results import VerificationStarted


def apply_verify(context: Context, command: command_pb2.Verify) -> VerificationStarted:  # noqa: ARG001
    """Writes nothing: the reading happens beside the core thread, see node/verification.py."""
    context.effects.verify = True
    return VerificationStarted(context.index)
