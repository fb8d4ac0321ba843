"""The worker of the benchmarks: handlers that note when they were called, and then do nothing or really wait."""

import asyncio
import os

from bench.worker_log import WAIT_VARIABLE, note_confirmations, note_start
from raftsched.client import Context, Worker

_WAIT_S = float(os.environ.get(WAIT_VARIABLE, "10")) / 1_000

# The command line says which nodes.
app = Worker(["127.0.0.1:1"])
note_confirmations(lambda: app.stats.confirmed)


@app.handler("noop", inline=True)
def noop(context: Context, _payload: bytes) -> None:
    note_start(context.execution_id)


@app.handler("wait")
async def wait(context: Context, _payload: bytes) -> None:
    note_start(context.execution_id)
    await asyncio.sleep(_WAIT_S)


@app.handler("timed", inline=True)
def timed(context: Context, _payload: bytes) -> None:
    """Notes the time it was scheduled for, in milliseconds, in place of the execution."""
    note_start(round(context.scheduled_for.timestamp() * 1_000))
