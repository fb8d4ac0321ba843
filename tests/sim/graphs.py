"""What jobs that depend on others must have done: their occurrences follow from what became of their upstreams."""

from collections import Counter
from collections.abc import Mapping

from raftsched.model.transitions import ExecutionState
from raftsched.store import rows
from raftsched.v1 import execution_pb2, job_pb2
from tests.sim.accounting import OVER, Account
from tests.sim.timeline import Violation

_ALL_SUCCESS = job_pb2.DEPENDENCY_RULE_ALL_SUCCESS
_ALL_DONE = job_pb2.DEPENDENCY_RULE_ALL_DONE
_ANY_SUCCESS = job_pb2.DEPENDENCY_RULE_ANY_SUCCESS
_NONE_FAILED = job_pb2.DEPENDENCY_RULE_NONE_FAILED
RULES = (_ALL_SUCCESS, _ALL_DONE, _ANY_SUCCESS, _NONE_FAILED)
_TO_COME = (rows.JOB_WAITING, rows.JOB_STARVED, rows.JOB_PAUSED, rows.JOB_BLOCKED)


def expect(account: Account, accounts: Mapping[str, Account], *, all_told: bool) -> None:
    """Adds what the job must have run and may have run. Its upstreams' accounts are complete already.

    `all_told`: nobody has yet to be told of an end.
    """
    upstreams = [accounts[key] for key in account.record.upstreams]
    times_ms = Counter(
        one.scheduled_for_ms
        for one in account.executions.values()
        if one.cause == execution_pb2.EXECUTION_CAUSE_DEPENDENCY
    )
    twice = [time_ms for time_ms, count in times_ms.items() if count > 1]
    if twice:
        raise Violation(f"{account.record.key} ran twice for {twice[:3]}, though each upstream counts once")
    if account.record.follows_ticks:
        _expect_instances(account, upstreams, set(times_ms))
        return
    if len(times_ms) > 1:
        raise Violation(f"{account.record.key} waits for jobs that run once, and ran {len(times_ms)} times")
    for time_ms in times_ms:
        (account.required if time_ms < account.until_ms else account.optional).append(time_ms)
    if account.row is not None and account.record.cancel_asked_ms is None:
        _check_state(account, account.row.state, upstreams, all_told=all_told)


def _expect_instances(account: Account, upstreams: list[Account], times_ms: set[int]) -> None:
    """An instance for each time of its upstreams: whatever the rule, it is met where all have succeeded."""
    succeeded = set.intersection(*(_succeeded_ms(upstream) for upstream in upstreams))
    possible = {time_ms for upstream in upstreams for time_ms in (*upstream.required, *upstream.optional)}
    if times_ms - possible:
        raise Violation(f"{account.record.key} ran for {sorted(times_ms - possible)[:3]}, which no upstream has")
    account.optional += sorted(possible)
    if account.record.cancel_asked_ms is None and account.row is not None:
        account.required += sorted(time_ms for time_ms in succeeded if time_ms < account.until_ms)


def _succeeded_ms(account: Account) -> set[int]:
    return {one.scheduled_for_ms for one in account.executions.values() if one.status == ExecutionState.SUCCEEDED}


def _check_state(account: Account, state: int, upstreams: list[Account], *, all_told: bool) -> None:
    """Whether the rule allows the state in which a job that runs once has come to rest."""
    rule, key = account.record.rule, account.record.key
    any_succeeded = [bool(_succeeded_ms(upstream)) for upstream in upstreams]
    ended_well = [_has_only_succeeded(upstream) for upstream in upstreams]
    if state == rows.JOB_FIRED:
        met = {
            _ALL_SUCCESS: all(any_succeeded),
            _ANY_SUCCESS: any(any_succeeded),
            _ALL_DONE: all(map(_has_ended, upstreams)),
            _NONE_FAILED: all(any_succeeded[at] or _was_cancelled(upstream) for at, upstream in enumerate(upstreams)),
        }
        if not met[rule]:
            raise Violation(f"{key} ran, and its rule {rule} was not met by {account.record.upstreams}")
    elif state == rows.JOB_UPSTREAM_FAILED:
        unmet = {
            _ALL_SUCCESS: not all(ended_well),
            _ANY_SUCCESS: not any(ended_well),
            _ALL_DONE: False,
            _NONE_FAILED: not all(ended_well),
        }
        if not unmet[rule]:
            raise Violation(f"{key} was given up, and its rule {rule} can be met by {account.record.upstreams}")
    elif state == rows.JOB_BLOCKED and all_told and not any(map(_is_open, upstreams)):
        raise Violation(f"{key} still waits, and all of {account.record.upstreams} have ended")


def _is_open(account: Account) -> bool:
    if account.row is None or account.row.state in _TO_COME:
        return True
    return any(one.status not in OVER for one in account.executions.values())


def _has_ended(account: Account) -> bool:
    """At some time, perhaps before it was replayed."""
    if account.row is not None and account.row.state in (rows.JOB_CANCELLED, rows.JOB_UPSTREAM_FAILED):
        return True
    # A replay shows that what it replays had ended, and one that is revived has been given up before.
    return bool(account.executions) or account.record.rule != 0


def _has_only_succeeded(account: Account) -> bool:
    states = {one.status for one in account.executions.values()}
    is_cancelled = account.row is not None and account.row.state == rows.JOB_CANCELLED
    return states == {ExecutionState.SUCCEEDED} and not is_cancelled


def _was_cancelled(account: Account) -> bool:
    is_cancelled = account.row is not None and account.row.state == rows.JOB_CANCELLED
    return is_cancelled or any(one.status == ExecutionState.CANCELLED for one in account.executions.values())
