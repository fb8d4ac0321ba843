"""How commands end: exit codes, and errors as people and programs read them on standard error."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from raftsched.client import errors

OK = 0
ERROR = 1
USAGE = 2
NOT_FOUND = 3
CONFLICT = 4
UNAVAILABLE = 5

EXIT_CODES_HELP = """\b
Exit codes:
  0  done
  1  the cluster answered with another error, or some items could not be taken
  2  wrong usage: an option, or a value that the cluster does not allow
  3  there is no such job, name, execution, backfill or node
  4  a conflict: name taken, request id used otherwise, job running, finished or changed meanwhile, not a dead letter,
     nodes that must change otherwise or later
  5  no node could be reached, no quorum, or overloaded: try again
"""

_EXIT_CODES: tuple[tuple[type[errors.RaftschedError], int], ...] = (
    (errors.InvalidField, USAGE),
    (errors.JobNotFound, NOT_FOUND),
    (errors.ExecutionNotFound, NOT_FOUND),
    (errors.UnknownName, NOT_FOUND),
    (errors.NameTaken, CONFLICT),
    (errors.IdempotencyConflict, CONFLICT),
    (errors.JobRunning, CONFLICT),
    (errors.JobFinished, CONFLICT),
    (errors.ExecutionFinished, CONFLICT),
    (errors.JobStateForbids, CONFLICT),
    (errors.EtagMismatch, CONFLICT),
    (errors.OverlapRefused, CONFLICT),
    (errors.BackfillNotFound, NOT_FOUND),
    (errors.NotDeadLetter, CONFLICT),
    (errors.NoResult, CONFLICT),
    (errors.WorkflowNotFound, NOT_FOUND),
    (errors.Unavailable, UNAVAILABLE),
)
_EXIT_CODES_BY_REASON = {
    "MEMBER_EXISTS": CONFLICT,
    "NODE_NOT_FOUND": NOT_FOUND,
    "CALENDAR_NOT_FOUND": NOT_FOUND,
    "CALENDAR_IN_USE": CONFLICT,
    "CALENDAR_CHANGED": CONFLICT,
    "MEMBERSHIP_CHANGE_IN_PROGRESS": CONFLICT,
    "LEADER_NOT_READY": UNAVAILABLE,
    "QUORUM_AT_RISK": CONFLICT,
    "CANNOT_LEAD": CONFLICT,
}

_ADVICE = {
    "FIELD_NOT_IMPLEMENTED": "leave that option out",
    "JOB_NOT_FOUND": "see the ids with: raftsched job list",
    "EXECUTION_NOT_FOUND": "see the ids with: raftsched job history JOB, or: raftsched dead-letter list",
    "UNKNOWN_NAME": "check the spelling against: raftsched job list",
    "NAME_TAKEN": "choose another --name, or cancel the job that has it: raftsched job cancel --name NAME",
    "IDEMPOTENCY_CONFLICT": "use a new --request-id, or leave it out",
    "JOB_RUNNING": "wait until it has ended (raftsched job history JOB), then cancel again",
    "JOB_FINISHED": "nothing; it will not run again",
    "EXECUTION_FINISHED": "nothing; it will not run again",
    "JOB_STATE_FORBIDS": "see how it stands with: raftsched job get JOB",
    "ETAG_MISMATCH": "see what has changed with: raftsched job get JOB, then repeat it with the new --etag",
    "OVERLAP_REFUSED": "wait until the run under way has ended (raftsched job history JOB), or use --ignore-overlap",
    "BACKFILL_NOT_FOUND": "see the ids with: raftsched backfill list JOB",
    "DEPENDENCY_CYCLE": "take one of these dependencies out",
    "UNKNOWN_NODE": "name a node of the workflow in depends_on",
    "NO_RESULT": "see how it stands with: raftsched execution get EXECUTION",
    "WORKFLOW_NOT_FOUND": "see the ids with: raftsched job get JOB",
    "CALENDAR_NOT_FOUND": "see the names with: raftsched calendar list",
    "CALENDAR_IN_USE": "cancel or update the jobs whose schedule uses it: raftsched job list",
    "CALENDAR_CHANGED": "repeat the command",
    "NOT_DEAD_LETTER": "see what can be replayed with: raftsched dead-letter list",
    "OVERLOADED": "try again in a moment, with fewer requests at once",
    "NO_QUORUM": "a majority of the nodes must run and reach each other: raftsched cluster status",
    "READ_TIMEOUT": "a majority of the nodes must run and reach each other: raftsched cluster status",
    "NODE_DRAINING": "name another node with --node",
    "NODE_DIVERGED": "name another node with --node, and have that one rebuilt: stop it, "
    "raftsched repair --data ITS_FOLDER, start it",
    "UNAVAILABLE": "start a node (raftsched dev), or name one that runs (--node or RAFTSCHED_NODES); "
    "nodes with TLS want the --tls options too",
    "DEADLINE_EXCEEDED": "repeat the command: it will not be done twice; --timeout sets how long to wait",
    "MEMBER_EXISTS": "see the nodes with: raftsched cluster status; to move one: raftsched cluster remove, then add",
    "NODE_NOT_FOUND": "see the nodes with: raftsched cluster status",
    "MEMBERSHIP_CHANGE_IN_PROGRESS": "repeat it once no node is a learner any more (raftsched cluster status); "
    "one that will not come can be removed",
    "LEADER_NOT_READY": "repeat the command in a moment",
    "QUORUM_AT_RISK": "start the nodes that are down, or add others first: raftsched cluster status",
    "CANNOT_LEAD": "name a node that votes and is connected: raftsched cluster status",
    "OUTCOME_UNKNOWN": "repeat the command: it will not be done twice",
}


class Failure(Exception):
    """Ends the command with an exit code and a message that needs no trace."""

    def __init__(self, message: str, *, exit_code: int = ERROR, reason: str = "", field: str = "", advice: str = ""):
        self.message = message
        self.exit_code = exit_code
        self.reason = reason
        self.field = field
        self.advice = advice
        super().__init__(message)


def failure_of(error: errors.RaftschedError, nodes: Sequence[str] = ()) -> Failure:
    """An error of the client, with its exit code and what to do about it. `nodes` are those that were asked."""
    by_reason = _EXIT_CODES_BY_REASON.get(error.reason, ERROR)
    exit_code = next((code for cls, code in _EXIT_CODES if isinstance(error, cls)), by_reason)
    message = error.message
    if error.reason == "UNAVAILABLE":
        message = f"no node answers at {', '.join(nodes)} ({message})"
    return Failure(
        message, exit_code=exit_code, reason=error.reason, field=error.field, advice=_ADVICE.get(error.reason, "")
    )


def as_document(failure: Failure) -> dict[str, Any]:
    """What --json prints on standard error."""
    parts = {"message": failure.message, "reason": failure.reason, "field": failure.field, "advice": failure.advice}
    return {"error": parts, "exit_code": failure.exit_code}


def report(failure: Failure, *, as_json: bool) -> NoReturn:
    """Prints the failure on standard error and exits."""
    if as_json:
        click.echo(json.dumps(as_document(failure)), err=True)
    else:
        click.echo(f"error: {failure.message}", err=True)
        for label, text in (("field", failure.field), ("reason", failure.reason), ("what to do", failure.advice)):
            if text:
                click.echo(f"  {label}: {text}", err=True)
    raise SystemExit(failure.exit_code)


@contextmanager
def reported(*, as_json: bool, nodes: Sequence[str] = ()) -> Iterator[None]:
    """Turns failures, and the errors of a client of `nodes`, into a message and an exit code."""
    try:
        yield
    except errors.RaftschedError as error:
        report(failure_of(error, nodes), as_json=as_json)
    except Failure as failure:
        report(failure, as_json=as_json)
