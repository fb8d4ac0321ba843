"""The attempts of an execution that did not simply succeed: who ran each, when, and how it ended.

A success is not written here: the execution's own row tells of its newest attempt.
"""

from raftsched.state.context import Context
from raftsched.store import keys, rows

# Kept for each execution, the newest ones.
MAX_ATTEMPTS = 10
# Of each error; the execution's row has more of the newest.
ERROR_MAX_BYTES = 1_024


def record(
    context: Context,
    number: bytes,
    row: bytes,
    outcome: int,
    *,
    started_ms: int,
    ended_ms: int,
    error: str = "",
    error_class: str = "",
) -> None:
    """Keeps how the attempt of a leased or running execution ended, `row` being its row until then.

    `outcome` is a value of raftsched.v1.AttemptOutcome. What was recorded for the same lease before is replaced.
    """
    session, token = keys.unpack_pair(row[rows.EXECUTION_LEASE])
    attempt = rows.AttemptRow(
        number=int.from_bytes(row[44:46], "big"),
        outcome=outcome,
        leased_ms=keys.unpack_id(row[62:70]),
        started_ms=started_ms,
        ended_ms=ended_ms,
        worker=_worker(context, session),
        error_class=error_class,
        error=error.encode()[:ERROR_MAX_BYTES].decode(errors="ignore"),
    )
    context.writer.put(context.tables.attempts, keys.attempt(number, token), attempt.pack())
    for key in _kept(context, number)[:-MAX_ATTEMPTS]:
        context.writer.delete(context.tables.attempts, key)


def _kept(context: Context, number: bytes) -> list[bytes]:
    """Keys of the execution's attempts, oldest first."""
    found = []
    cursor = context.writer.cursor(context.tables.attempts)
    if cursor.set_range(number):
        for key in cursor.iternext(values=False):
            if not key.startswith(number):
                break
            found.append(key)
    return found


def _worker(context: Context, session: int) -> str:
    """The worker's name, kept with the attempt since sessions are forgotten earlier."""
    row = context.sessions.get(session)
    if row is None:
        value = context.writer.get(context.tables.sessions, keys.pack_id(session))
        row = rows.SessionRow.unpack(value) if value is not None else None
    return row.worker if row is not None else ""
