"""Jobs as requests hold them, and the command they become."""

from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.api.convert import create_jobs_command
from raftsched.internal.v1 import command_pb2
from raftsched.v1 import job_pb2

NOW_MS = 1_767_225_600_000
SOON = Timestamp(seconds=NOW_MS // 1000 + 60)


def job(**fields: Any) -> job_pb2.Job:
    """A valid one-off unless told otherwise."""
    if not {"run_at", "cron", "interval", "dependencies"} & set(fields):
        fields["run_at"] = SOON
    return job_pb2.Job(**{"handler": "reports.nightly", **fields})


def create(*jobs: job_pb2.Job, request_id: str = "key", now_ms: int = NOW_MS) -> command_pb2.CreateJobs:
    return create_jobs_command(jobs, request_id, now_ms, batch=True).create_jobs


def seconds(number: float) -> Duration:
    return Duration(seconds=int(number), nanos=round((number - int(number)) * 1e9))


def cron(expression: str = "0 2 * * *", time_zone: str = "Europe/Berlin") -> job_pb2.Cron:
    return job_pb2.Cron(expression=expression, time_zone=time_zone)


def repeated(length: int) -> str:
    return "x" * length
