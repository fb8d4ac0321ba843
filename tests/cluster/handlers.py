"""What the workers of these tests run: handlers that write down when they ran, as what, and how it ended."""

import asyncio

from raftsched.client import Context, Worker
from tests.cluster.processes import now_ms
from tests.cluster.run_log import RunLog

# The command line says which nodes.
app = Worker(["127.0.0.1:1"])
_log = RunLog.from_environment()


@app.handler("record")
async def record(context: Context, _payload: bytes) -> None:
    """Sleeps as long as the payload says; fails on the first attempts, as many as it says."""
    order = context.json()
    call = _log.started(
        key=order["key"],
        started_ms=now_ms(),
        scheduled_for_ms=round(context.scheduled_for.timestamp() * 1_000),
        attempt=context.attempt,
        execution=context.execution_id,
        token=context.token,
    )
    if order["sleep_ms"]:
        await asyncio.sleep(order["sleep_ms"] / 1_000)
    succeeds = context.attempt > order["failures"]
    _log.ended(call, now_ms(), succeeds)
    if not succeeds:
        raise RuntimeError(f"attempt {context.attempt} of {order['key']} is meant to fail")
