"""The handler `shell.run`: takes a command from a job's payload and runs it on the worker's machine.

The payload is a JSON object: `command` (required), and `stdin` (text), `env` (variables), `user` (null: whoever the
worker runs as).
"""

import json
import logging
from dataclasses import dataclass, field
from typing import Any

from raftsched.cli.shell_command import UserRefused, account_for, run_command
from raftsched.client import Context, PlainFailure

SHELL_HANDLER = "shell.run"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShellPayload:
    """What to run."""

    command: str
    stdin: str = ""
    env: dict[str, str] = field(default_factory=dict)
    user: str | None = None


def read_payload(payload: bytes) -> ShellPayload:
    """Raises ValueError naming the field that is wrong."""
    try:
        document = json.loads(payload)
    except ValueError as error:
        raise ValueError(f"the payload is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError('the payload is a JSON object, such as {"command": "df -h"}')
    unknown = sorted(set(document) - {"command", "stdin", "env", "user"})
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; known are command, stdin, env, user")
    command, stdin, env, user = (document.get(name) for name in ("command", "stdin", "env", "user"))
    if not isinstance(command, str) or not command.strip():
        raise ValueError("command must be a string that is not blank")
    if stdin is not None and not isinstance(stdin, str):
        raise ValueError("stdin must be a string")
    if user is not None and (not isinstance(user, str) or not user):
        raise ValueError("user must be the name of a user, or null")
    if env is not None and not _is_environment(env):
        raise ValueError("env must map variable names to strings")
    if any("\0" in text for text in (command, *(env or {}).values())):
        raise ValueError("command and env cannot hold NUL characters")
    return ShellPayload(command, stdin or "", env or {}, user)


async def run_shell(context: Context, payload: bytes) -> None:
    """Runs the command; a non-zero exit status fails the attempt with the end of the output."""
    try:
        shell = read_payload(payload)
        account = account_for(shell.user)
    except (ValueError, UserRefused) as error:
        raise PlainFailure(str(error), permanent=True) from error
    about = {"execution": context.execution_id, "job": context.job_id, "attempt": context.attempt, "user": account.name}
    log.info("shell command begins", extra={**about, "command": shell.command})
    environment = {
        **shell.env,
        "RAFTSCHED_JOB_ID": str(context.job_id),
        "RAFTSCHED_EXECUTION_ID": str(context.execution_id),
        "RAFTSCHED_ATTEMPT": str(context.attempt),
        "RAFTSCHED_TOKEN": str(context.token),
        "RAFTSCHED_IDEMPOTENCY_KEY": context.idempotency_key,
    }
    try:
        end = await run_command(shell.command, account=account, stdin=shell.stdin, environment=environment)
    except OSError as error:
        raise PlainFailure(f"the command could not be started: {error}") from error
    about |= {"status": end.status, "output_bytes": end.output_bytes}
    log.info("shell command ended", extra={**about, "output": end.output_tail.decode(errors="replace")})
    if end.status != 0:
        raise PlainFailure(end.describe())


def _is_environment(value: Any) -> bool:
    return isinstance(value, dict) and all(
        name and "=" not in name and "\0" not in name and isinstance(text, str) for name, text in value.items()
    )
