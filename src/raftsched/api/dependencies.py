"""What callers say about jobs that wait for others, checked."""

from collections.abc import Sequence
from dataclasses import dataclass

from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.v1 import job_pb2


@dataclass(frozen=True, slots=True)
class WaitsFor:
    """Other jobs of the same request, by their positions; `rule` is a value of DependencyRule."""

    positions: Sequence[int]
    rule: int


def checked_rule(rule: int, field: str) -> int:
    """The rule, ALL_SUCCESS where it was left out. Raises InvalidField."""
    if rule not in job_pb2.DependencyRule.values():
        raise InvalidField(
            f"{rule} is not a rule; ALL_SUCCESS, ALL_DONE, ANY_SUCCESS and NONE_FAILED are right", field=field
        )
    return rule or job_pb2.DEPENDENCY_RULE_ALL_SUCCESS


def checked_upstreams(dependencies: job_pb2.Dependencies) -> Sequence[int]:
    """The ids of existing jobs. Raises InvalidField, the field relative to the job."""
    checked_rule(dependencies.rule, "dependencies.rule")
    ids = dependencies.job_ids
    if not ids:
        raise InvalidField("empty; name at least one job", field="dependencies.job_ids")
    check_count(len(ids), "dependencies.job_ids")
    seen: set[int] = set()
    for number, job in enumerate(ids):
        field = f"dependencies.job_ids[{number}]"
        if not job:
            raise InvalidField("0 is not the id of a job", field=field)
        if job in seen:
            raise InvalidField(f"{job} is named twice", field=field)
        seen.add(job)
    return ids


def check_count(count: int, field: str) -> None:
    """Raises InvalidField when a job waits for too many others."""
    if count > limits.UPSTREAMS_MAX_COUNT:
        raise InvalidField(
            f"{count:,} are too many; at most {limits.UPSTREAMS_MAX_COUNT} are right",
            field=field,
            limit=str(limits.UPSTREAMS_MAX_COUNT),
        )
