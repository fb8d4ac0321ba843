"""The handlers of the demo: each writes down that it ran, then does what its name says."""

import os
from pathlib import Path

from raftsched.cli import demo_record
from raftsched.cli.demo_jobs import DOOMED_HANDLER, FLAKY_FAILURES, FLAKY_HANDLER, ONCE_HANDLER, TICK_HANDLER
from raftsched.client import Context, Worker

# The demo gives the real addresses on the command line.
app = Worker(["127.0.0.1:7101"])


@app.handler(ONCE_HANDLER)
async def once(context: Context, _payload: bytes) -> None:
    """Runs once."""
    _write_down(context)


@app.handler(TICK_HANDLER)
async def tick(context: Context, _payload: bytes) -> None:
    """Runs on a cron."""
    _write_down(context)


@app.handler(FLAKY_HANDLER)
async def flaky(context: Context, _payload: bytes) -> None:
    """Fails at first, then succeeds."""
    _write_down(context)
    if context.attempt <= FLAKY_FAILURES:
        raise RuntimeError(f"attempt {context.attempt} fails on purpose")


@app.handler(DOOMED_HANDLER)
async def doomed(context: Context, _payload: bytes) -> None:
    """Fails always."""
    _write_down(context)
    raise RuntimeError("this job always fails, on purpose")


def _write_down(context: Context) -> None:
    run = demo_record.Run(
        handler=context.handler,
        job_id=context.job_id,
        execution_id=context.execution_id,
        scheduled_for_ms=round(context.scheduled_for.timestamp() * 1000),
        attempt=context.attempt,
        token=context.token,
        pid=os.getpid(),
    )
    demo_record.append(Path(os.environ[demo_record.RECORD_VARIABLE]), run)
