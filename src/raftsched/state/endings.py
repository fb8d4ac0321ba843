"""What follows the end of an execution: every way to end goes through here, and whoever must know is told."""

from collections.abc import Sequence

from raftsched.model.transitions import ExecutionState
from raftsched.state.context import Context

# Key and row of an execution that has ended, as it was written.
Ended = tuple[bytes, bytes]


def ended(context: Context, items: Sequence[Ended], status: ExecutionState) -> None:
    """These executions have just become `status`, a terminal one, and their rows are written."""
    for follow in context.end_followers:
        follow(context, items, status)
