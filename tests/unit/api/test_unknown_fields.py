"""Fields that this version does not know are found wherever they are, and named."""

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.api.unknown_fields import refuse_unknown_fields
from raftsched.model.errors import InvalidField
from raftsched.v1 import job_pb2

# Field 99, a varint.
UNKNOWN = b"\x98\x06\x01"


def job(**fields: object) -> job_pb2.Job:
    return job_pb2.Job(handler="h", run_at=Timestamp(seconds=1), labels={"a": "b"}, **fields)


def newer(message: job_pb2.Job | job_pb2.RetryPolicy) -> object:
    return type(message).FromString(message.SerializeToString() + UNKNOWN)


def field_refused(request: job_pb2.BatchCreateJobsRequest) -> str:
    with pytest.raises(InvalidField) as caught:
        refuse_unknown_fields(request)
    return caught.value.field


def test_a_request_of_this_version_passes() -> None:
    refuse_unknown_fields(job_pb2.BatchCreateJobsRequest(jobs=[job(), job(retry=job_pb2.RetryPolicy())]))
    refuse_unknown_fields(job_pb2.BatchCreateJobsRequest())


def test_an_unknown_field_of_the_request_itself_is_named() -> None:
    assert field_refused(job_pb2.BatchCreateJobsRequest.FromString(UNKNOWN)) == "request"


def test_an_unknown_field_inside_is_named_with_its_path() -> None:
    jobs = [job(), newer(job()), job()]
    assert field_refused(job_pb2.BatchCreateJobsRequest(jobs=jobs)) == "jobs[1]"
    jobs = [job(), job(), job(retry=newer(job_pb2.RetryPolicy(max_attempts=3)))]
    assert field_refused(job_pb2.BatchCreateJobsRequest(jobs=jobs)) == "jobs[2].retry"


def test_an_unknown_field_in_a_message_without_any_other_is_found() -> None:
    assert field_refused(job_pb2.BatchCreateJobsRequest(jobs=[newer(job_pb2.Job())])) == "jobs[0]"


def test_an_unknown_field_in_the_entry_of_a_map_is_found() -> None:
    # Job.labels is field 10: an entry {key: "a", 99: 1}.
    entry = b"\x0a\x01a" + UNKNOWN
    broken = job_pb2.Job.FromString(b"\x52" + bytes([len(entry)]) + entry)
    assert field_refused(job_pb2.BatchCreateJobsRequest(jobs=[broken])) == "jobs[0]"
