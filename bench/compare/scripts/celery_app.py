"""Celery's application: `python celery_app.py JOBS DUE_MS` creates tasks that are due at one instant."""

import os
import sys
from datetime import UTC, datetime

from celery import Celery
from start_log import note_start

app = Celery("hot", broker=os.environ["BENCH_URL"])
app.conf.update(
    # Without it a task is lost with its worker.
    task_acks_late=True,
    # The manual's "Optimizing" on many short tasks: results off when unused, and fetch far more than one at a time.
    task_ignore_result=True,
    worker_prefetch_multiplier=128,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop() -> None:
    note_start()


def create(jobs: int, due_ms: int) -> None:
    due = datetime.fromtimestamp(due_ms / 1_000, UTC)
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(jobs):
            noop.apply_async(eta=due, producer=producer)


if __name__ == "__main__":
    create(int(sys.argv[1]), int(sys.argv[2]))
