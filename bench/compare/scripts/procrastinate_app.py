"""Procrastinate's application: `python procrastinate_app.py JOBS DUE_MS` creates jobs that are due at one instant."""

import asyncio
import os
import sys
from datetime import UTC, datetime

import procrastinate
from start_log import note_start

BATCH = 5_000

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["BENCH_URL"], max_size=20))


@app.task(name="noop", queue="hot")
async def noop() -> None:
    note_start()


async def create(jobs: int, due_ms: int) -> None:
    async with app.open_async():
        deferrer = noop.configure(schedule_at=datetime.fromtimestamp(due_ms / 1_000, UTC))
        for first in range(0, jobs, BATCH):
            await deferrer.batch_defer_async(*[{}] * min(BATCH, jobs - first))


if __name__ == "__main__":
    asyncio.run(create(int(sys.argv[1]), int(sys.argv[2])))
