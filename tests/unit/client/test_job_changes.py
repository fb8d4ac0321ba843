"""What an update sends: the settings that were given, as whole fields of a job."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from raftsched.client import InvalidField, OverlapPolicy, RetryPolicy
from raftsched.client.convert import job_changes

NOW = datetime(2026, 7, 12, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"priority": 3, "queue": "q"}, ["priority", "queue"]),
        ({"payload": b"x"}, ["payload"]),
        ({"payload": {"a": 1}}, ["payload", "content_type"]),
        ({"payload": None, "labels": {}}, ["payload", "labels"]),
        ({"retry": RetryPolicy(max_attempts=2), "overlap": OverlapPolicy.ALLOW}, ["retry", "overlap"]),
        ({"cron": "0 2 * * *", "time_zone": "Europe/Berlin"}, ["cron"]),
        ({"every": timedelta(minutes=1), "start": NOW, "jitter": None}, ["jitter", "interval"]),
        ({"run_at": NOW}, ["run_at"]),
    ],
)
def test_the_mask_names_what_is_given(changes: dict[str, Any], names: list[str]) -> None:
    job, mask = job_changes(changes)
    assert mask == names
    assert job.WhichOneof("schedule") in (None, *names)


def test_values_arrive_as_they_would_with_a_new_job() -> None:
    job, _ = job_changes({"cron": "0 2 * * *", "time_zone": "Europe/Berlin", "payload": {"a": 1}, "priority": 3})
    assert (job.cron.expression, job.cron.time_zone) == ("0 2 * * *", "Europe/Berlin")
    assert (job.payload, job.content_type, job.priority) == (b'{"a":1}', "application/json", 3)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"colour": "red"}, "colour"),
        ({"time_zone": "UTC"}, "time_zone"),
        ({"start": NOW}, "start"),
        ({"cron": "0 2 * * *", "run_at": NOW}, "schedule"),
        ({"priority": "high"}, "priority"),
    ],
)
def test_what_is_no_setting_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        job_changes(changes)
    assert refused.value.field == field
