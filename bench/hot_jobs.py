"""The jobs of the hot bucket: what they look like, and how millions of them are created through the API.

A few batches are made once and sent again and again, each time under a request id of its own: the measuring process
shares the cores with the nodes, and its memory stays the same however many jobs there are.
"""

import argparse
import random
import time
import uuid
from array import array
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime

from raftsched.v1 import job_pb2
from tests.cluster.harness import Cluster
from tests.cluster.ledger import timestamp

BATCH = 5_000
# A request must stay below the server's limit for one.
BATCH_BYTES = 8 << 20
QUEUED_BATCHES = 8


def hot_job(arguments: argparse.Namespace, due_ms: int, number: int) -> job_pb2.Job:
    """The job that is due at `due_ms`, once or every hour then."""
    job = job_pb2.Job(handler="wait" if arguments.async_handler_ms else "noop")
    job.payload = random.randbytes(arguments.payload_bytes)
    if arguments.tenants:
        job.tenant = f"tenant-{number % arguments.tenants}"
    if arguments.recurring:
        due = datetime.fromtimestamp(due_ms / 1_000, UTC)
        job.cron.expression = f"{due.second} {due.minute} * * * *"
    else:
        job.run_at.CopyFrom(timestamp(due_ms))
    return job


def batches(arguments: argparse.Namespace, due_ms: int) -> list[job_pb2.BatchCreateJobsRequest]:
    """To be sent in turn; together they hold every tenant once, or once more."""
    size = max(1, min(BATCH, BATCH_BYTES // (arguments.payload_bytes + 100)))
    count = max(1, -(-arguments.tenants // size))
    return [
        job_pb2.BatchCreateJobsRequest(
            jobs=[hot_job(arguments, due_ms, first * size + number) for number in range(size)]
        )
        for first in range(count)
    ]


def create_jobs(cluster: Cluster, arguments: argparse.Namespace, due_ms: int) -> tuple["array[int]", float]:
    """All jobs, in batches over all nodes; returns their ids and the seconds it took."""
    templates = batches(arguments, due_ms)

    def create(number: int, size: int) -> list[int]:
        request = job_pb2.BatchCreateJobsRequest(request_id=uuid.uuid4().hex)
        request.jobs.MergeFrom(templates[number % len(templates)].jobs[:size])
        return list(cluster.api.call(lambda node: node.jobs.BatchCreateJobs(request, timeout=60.0)).job_ids)

    job_ids: array[int] = array("Q")
    left, number = arguments.jobs, 0
    running: set[Future[list[int]]] = set()
    began = time.monotonic()
    with ThreadPoolExecutor(arguments.creators) as pool:
        while left or running:
            while left and len(running) < QUEUED_BATCHES:
                size = min(left, len(templates[number % len(templates)].jobs))
                running.add(pool.submit(create, number, size))
                left, number = left - size, number + 1
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for batch in done:
                job_ids.extend(batch.result())
    return job_ids, time.monotonic() - began
