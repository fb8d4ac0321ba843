import json
import re
from datetime import timedelta
from typing import Any

import pytest

from raftsched.cli.workflow_file import parse_workflow
from raftsched.client import Backoff, DependencyRule, OverlapPolicy


def parse(*nodes: Any) -> Any:
    return parse_workflow(json.dumps({"nodes": nodes}))


def test_a_file_holds_what_a_job_can_have() -> None:
    first, second = parse(
        {
            "name": "extract",
            "job": {
                "handler": "etl.extract",
                "cron": "0 2 * * *",
                "time_zone": "Europe/Berlin",
                "payload": {"table": "orders"},
                "labels": {"team": "data"},
                "priority": 3,
                "jitter": "10s",
                "overlap": "allow",
                "retry": {"max_attempts": 5, "initial_backoff": "250ms", "backoff": "fixed", "multiplier": 1.5},
            },
        },
        {"name": "load", "depends_on": ["extract"], "rule": "ALL_DONE", "job": {"handler": "l", "run_timeout": "30m"}},
    )
    assert (first.name, first.job.cron, first.job.time_zone) == ("extract", "0 2 * * *", "Europe/Berlin")
    assert first.job.payload == {"table": "orders"}
    assert (first.job.labels, first.job.priority) == ({"team": "data"}, 3)
    assert first.job.jitter == timedelta(seconds=10)
    assert first.job.overlap is OverlapPolicy.ALLOW
    assert first.job.retry is not None
    assert (first.job.retry.max_attempts, first.job.retry.backoff) == (5, Backoff.FIXED)
    assert first.job.retry.initial_backoff == timedelta(milliseconds=250)
    assert first.rule is DependencyRule.UNSPECIFIED
    assert (second.depends_on, second.rule) == (["extract"], DependencyRule.ALL_DONE)
    assert second.job.run_timeout == timedelta(minutes=30)


def test_a_root_may_run_now() -> None:
    (root,) = parse({"name": "a", "job": {"handler": "h", "run_at": "now"}})
    (again,) = parse({"name": "a", "job": {"handler": "h", "run_at": "now"}})
    # The same at each repetition: a request id stands for one request.
    assert root == again


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", 'must be an object with "nodes"'),
        ('{"nodes": {}}', 'must be an object with "nodes"'),
        ('{"nodes": [], "more": 1}', "and nothing else"),
        ('{"nodes": [1]}', "nodes[0]: must be an object"),
        ('{"nodes": [{"name": "a"}]}', "nodes[0].job: must be an object"),
        ('{"nodes": [{"job": {"handler": "h"}}]}', "nodes[0].name: must be a text"),
        ('{"nodes": [{"name": "a", "job": {}}]}', "nodes[0].job.handler: must be a text"),
        ('{"nodes": [{"name": "a", "jbo": {}}]}', "nodes[0].jbo: is not known; there are: depends_on, job, name, rule"),
        ('{"nodes": [{"name": "a", "job": {"handler": "h", "depends_on": [1]}}]}', "nodes[0].job.depends_on: is not"),
        ('{"nodes": [{"name": "a", "job": {"handler": "h", "queue": 5}}]}', "nodes[0].job.queue: must be a text"),
        ('{"nodes": [{"name": "a", "job": {"handler": "h", "priority": "5"}}]}', "priority: must be a whole number"),
        ('{"nodes": [{"name": "a", "job": {"handler": "h", "jitter": "5 parsecs"}}]}', "nodes[0].job.jitter: "),
        ('{"nodes": [{"name": "a", "job": {"handler": "h", "run_at": "soon"}}]}', "nodes[0].job.run_at: "),
        ('{"nodes": [{"name": "a", "job": {"handler": "h", "overlap": "x"}}]}', "nodes[0].job.overlap: must be one of"),
        ('{"nodes": [{"name": "a", "job": {"handler": "h", "retry": {"x": 1}}}]}', "nodes[0].job.retry.x: is not"),
        (
            '{"nodes": [{"name": "a", "rule": "some", "job": {"handler": "h"}}]}',
            "nodes[0].rule: must be one of all_succ",
        ),
        (
            '{"nodes": [{"name": "a", "depends_on": "b", "job": {"handler": "h"}}]}',
            "depends_on: must be a list of names",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_workflow(text)
