"""The run checker finds every kind of wrong it names, and only what is wrong."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checker import Accepted, Completion, Kind, Report, Run, Skip, check, match

ALLOWANCE_MS = 1_000
LATER_MS = 1_000_000


def run_of(key: str, started_ms: int, **fields: object) -> Run:
    """A completed run that took 5 ms."""
    return replace(Run(key=key, started_ms=started_ms, ended_ms=started_ms + 5), **fields)  # type: ignore[arg-type]


def named(
    key: str, scheduled_for_ms: int, delay_ms: int = 10, token: int = 1, attempt: int = 1, **fields: object
) -> Run:
    """A completed run that knows its occurrence."""
    return run_of(
        key,
        scheduled_for_ms + delay_ms,
        scheduled_for_ms=scheduled_for_ms,
        execution=scheduled_for_ms,
        token=token,
        attempt=attempt,
        **fields,
    )


def checked(jobs: Sequence[Accepted], runs: Sequence[Run], **more: object) -> Report:
    arguments: dict[str, object] = {"allowance_ms": ALLOWANCE_MS, "read_ms": LATER_MS, **more}
    return check(jobs, runs, **arguments)  # type: ignore[arg-type]


def test_each_target_with_a_run_of_its_own_is_clean() -> None:
    report = checked([Accepted("a", [1_000, 5_000])], [named("a", 1_000), named("a", 5_000)], lost_leases={})
    report.require_clean()
    assert (report.targets, report.matched_by_run, report.extra_runs) == (2, 2, 0)


def test_anonymous_runs_are_matched_by_their_time() -> None:
    checked([Accepted("a", [1_000, 5_000])], [run_of("a", 5_900), run_of("a", 1_000)], lost_leases={}).require_clean()


def test_a_target_without_a_run_is_found() -> None:
    report = checked([Accepted("a", [1_000, 5_000])], [named("a", 1_000)])
    assert report.kinds == {Kind.UNMATCHED_TARGET}
    with pytest.raises(AssertionError, match="5000"):
        report.require_clean()


def test_one_run_does_not_serve_two_targets() -> None:
    report = checked([Accepted("a", [1_000, 1_500])], [run_of("a", 1_600)])
    assert [finding.kind for finding in report.findings] == [Kind.UNMATCHED_TARGET]


def test_a_run_that_names_another_occurrence_does_not_serve_a_target() -> None:
    runs = [named("a", 1_000), named("a", 1_000, delay_ms=700, token=2)]
    assert checked([Accepted("a", [1_000, 1_500])], runs).kinds == {Kind.UNMATCHED_TARGET}


def test_a_run_that_started_after_the_allowance_is_too_late() -> None:
    assert checked([Accepted("a", [1_000])], [named("a", 1_000, delay_ms=1_001)]).kinds == {Kind.UNMATCHED_TARGET}
    checked([Accepted("a", [1_000])], [named("a", 1_000, delay_ms=1_000)]).require_clean()


def test_a_run_that_never_ended_or_failed_does_not_fulfil_a_target() -> None:
    for run in (replace(named("a", 1_000), ended_ms=None), replace(named("a", 1_000), succeeded=False)):
        assert checked([Accepted("a", [1_000])], [run]).kinds == {Kind.UNMATCHED_TARGET}


def test_a_job_that_is_meant_to_fail_is_fulfilled_by_failed_attempts() -> None:
    runs = [replace(named("a", 1_000, attempt=n, token=n, delay_ms=100 * n), succeeded=False) for n in (1, 2, 3)]
    report = checked([Accepted("a", [1_000], fails=True)], runs, lost_leases={})
    report.require_clean()
    assert report.extra_runs == 0


def test_a_target_whose_allowance_is_not_over_may_be_unmatched() -> None:
    checked([Accepted("a", [1_000])], [], read_ms=2_000).require_clean()
    assert checked([Accepted("a", [1_000])], [], read_ms=2_001).kinds == {Kind.UNMATCHED_TARGET}


def test_an_unconfirmed_create_may_run_or_not() -> None:
    job = Accepted("a", [1_000], confirmed=False)
    checked([job], []).require_clean()
    checked([job], [named("a", 1_000)]).require_clean()
    assert checked([job], [named("a", 1_000, delay_ms=-1)]).kinds == {Kind.EARLY_RUN}


def test_optional_targets_may_run_or_not() -> None:
    job = Accepted("a", [5_000], optional_targets_ms=[1_000])
    checked([job], [named("a", 5_000)], lost_leases={}).require_clean()
    checked([job], [named("a", 1_000), named("a", 5_000)], lost_leases={}).require_clean()


@pytest.mark.parametrize("run", [named("a", 5_000, delay_ms=-1), run_of("a", 4_999)])
def test_a_run_before_its_target_is_found(run: Run) -> None:
    later = run_of("a", 5_010) if run.scheduled_for_ms is None else named("a", 5_000, token=2)
    assert checked([Accepted("a", [5_000])], [run, later]).kinds == {Kind.EARLY_RUN}


def test_a_run_off_the_schedule_is_found() -> None:
    drifted = named("a", 5_001)
    assert checked([Accepted("a", [1_000])], [named("a", 1_000), drifted]).kinds == {Kind.OFF_SCHEDULE}


def test_a_run_of_a_job_that_nobody_created_is_found() -> None:
    report = checked([Accepted("a", [1_000])], [named("a", 1_000), named("ghost", 1_000)])
    assert [(finding.kind, finding.key) for finding in report.findings] == [(Kind.UNKNOWN_JOB, "ghost")]


def test_a_run_that_starts_after_a_confirmed_cancel_is_found() -> None:
    job = Accepted("a", [1_000, 3_000], cancel_requested_ms=2_900, cancel_confirmed_ms=3_005)
    assert checked([job], [named("a", 1_000), named("a", 3_000)]).kinds == {Kind.RUN_AFTER_CANCEL}


def test_a_run_that_raced_with_the_cancel_is_allowed_and_targets_after_it_are_not_required() -> None:
    job = Accepted("a", [1_000, 9_000], [3_000], cancel_requested_ms=3_100, cancel_confirmed_ms=3_120)
    checked([job], [named("a", 1_000)]).require_clean()
    checked([job], [named("a", 1_000), named("a", 3_000)]).require_clean()
    assert checked([job], []).kinds == {Kind.UNMATCHED_TARGET}


def test_two_accepted_completions_of_one_occurrence_are_found() -> None:
    first = Completion("a", 1_000, execution=1, token=7)
    for second in (replace(first, token=8), replace(first, execution=2)):
        report = checked([Accepted("a", [1_000])], [named("a", 1_000)], completions=[first, second])
        assert report.kinds == {Kind.DOUBLE_COMPLETION}


def test_a_completion_that_is_confirmed_twice_is_one() -> None:
    first = Completion("a", 1_000, execution=1, token=7)
    checked([Accepted("a", [1_000])], [named("a", 1_000)], completions=[first, replace(first)]).require_clean()


def test_one_lease_that_ran_in_two_processes_is_found() -> None:
    runs = [named("a", 1_000, process=11), named("a", 1_000, process=12, delay_ms=20)]
    report = checked([Accepted("a", [1_000])], runs)
    assert report.kinds == {Kind.SHARED_LEASE}
    assert "[11, 12]" in report.findings[0].detail


def test_extra_runs_are_counted_and_bounded_by_lost_leases() -> None:
    runs = [replace(named("a", 1_000, token=1), ended_ms=None), named("a", 1_000, token=2, delay_ms=500)]
    report = checked([Accepted("a", [1_000])], runs, lost_leases={"a": 1})
    report.require_clean()
    assert report.extra_runs == 1
    assert checked([Accepted("a", [1_000])], runs, lost_leases={}).kinds == {Kind.TOO_MANY_EXTRA_RUNS}


def test_extra_anonymous_runs_are_counted() -> None:
    runs = [run_of("a", 1_100), run_of("a", 1_200), run_of("a", 5_100)]
    report = checked([Accepted("a", [1_000, 5_000])], runs, lost_leases={})
    assert report.kinds == {Kind.TOO_MANY_EXTRA_RUNS}
    assert report.extra_runs == 1


def test_attempts_of_one_occurrence_are_not_extra() -> None:
    runs = [replace(named("a", 1_000), succeeded=False), named("a", 1_000, attempt=2, token=2, delay_ms=300)]
    checked([Accepted("a", [1_000])], runs, lost_leases={}).require_clean()


def test_an_expected_skip_stands_for_its_targets() -> None:
    job = Accepted("a", [1_000, 2_000, 3_000, 4_000], expected_skips=frozenset({"OVERLAP", "CATCH_UP"}))
    skips = [Skip("a", 1_000, 1_000, 1, "OVERLAP"), Skip("a", 3_000, 4_000, 2, "CATCH_UP")]
    report = checked([job], [named("a", 2_000)], skips=skips)
    report.require_clean()
    assert (report.matched_by_run, report.matched_by_skip) == (1, 3)


def test_a_skip_for_another_reason_than_expected_is_found() -> None:
    job = Accepted("a", [1_000], expected_skips=frozenset({"OVERLAP"}))
    report = checked([job], [], skips=[Skip("a", 1_000, 1_000, 1, "CATCH_UP")])
    assert report.kinds == {Kind.UNEXPECTED_SKIP, Kind.UNMATCHED_TARGET}


def test_a_skip_that_does_not_fit_the_schedule_is_found() -> None:
    job = Accepted("a", [1_000, 2_000], expected_skips=frozenset({"OVERLAP"}))
    report = checked([job], [named("a", 1_000)], skips=[Skip("a", 2_000, 2_000, 2, "OVERLAP")])
    assert Kind.UNEXPECTED_SKIP in report.kinds


def test_an_occurrence_that_was_skipped_and_ran_is_found() -> None:
    job = Accepted("a", [1_000], expected_skips=frozenset({"OVERLAP"}))
    report = checked([job], [named("a", 1_000)], skips=[Skip("a", 1_000, 1_000, 1, "OVERLAP")])
    assert report.kinds == {Kind.SKIPPED_AND_RAN}


def fewest_unmatched(targets: Sequence[int], starts: Sequence[int], allowance: int) -> int:
    """By trying every assignment."""
    slots: list[int | None] = [*starts, *[None] * len(targets)]
    best = len(targets)
    for chosen in itertools.permutations(slots, len(targets)):
        fits = all(s is None or t <= s <= t + allowance for t, s in zip(targets, chosen, strict=True))
        if fits:
            best = min(best, sum(start is None for start in chosen))
    return best


few_times = st.lists(st.integers(0, 12), max_size=4)


@given(few_times, few_times, st.integers(0, 5))
def test_greedy_matching_is_as_good_as_trying_everything(targets: list[int], starts: list[int], allowance: int) -> None:
    assert len(match(targets, starts, allowance)) == fewest_unmatched(targets, starts, allowance)


@given(few_times, few_times, st.integers(0, 5))
def test_the_checker_misses_no_target_and_invents_none(targets: list[int], starts: list[int], allowance: int) -> None:
    targets = sorted(set(targets))
    report = check(
        [Accepted("a", targets)], [run_of("a", start) for start in starts], allowance_ms=allowance, read_ms=99
    )
    unmatched = [finding for finding in report.findings if finding.kind is Kind.UNMATCHED_TARGET]
    assert len(unmatched) == fewest_unmatched(targets, starts, allowance)
    assert report.matched_by_run + len(unmatched) == len(targets)
    assert report.extra_runs == len(starts) - report.matched_by_run


@given(st.sets(st.integers(0, 30), min_size=1, max_size=6).map(sorted), st.data())
def test_any_single_run_taken_away_is_missed(targets: list[int], data: st.DataObject) -> None:
    runs = [named("a", target, delay_ms=data.draw(st.integers(0, 3)), token=target) for target in targets]
    assert not check([Accepted("a", targets)], runs, allowance_ms=3, read_ms=99, lost_leases={}).findings
    gone = data.draw(st.sampled_from(runs))
    report = check([Accepted("a", targets)], [r for r in runs if r is not gone], allowance_ms=3, read_ms=99)
    assert [finding.kind for finding in report.findings] == [Kind.UNMATCHED_TARGET]


def test_a_run_that_was_put_off_is_no_extra_run_and_fulfils_nothing() -> None:
    put_off = replace(named("a", 1_000, token=1), succeeded=False, put_off=True)
    report = checked([Accepted("a", [1_000])], [put_off, named("a", 1_000, delay_ms=500, token=2)], lost_leases={})
    report.require_clean()
    assert report.extra_runs == 0
    assert checked([Accepted("a", [1_000])], [put_off]).kinds == {Kind.UNMATCHED_TARGET}


def test_a_range_of_skipped_ticks_does_not_hold_what_is_beside_the_schedule() -> None:
    job = Accepted(
        "a",
        [1_000, 1_500, 2_000],
        beside_schedule_ms=frozenset({1_500}),
        expected_skips=frozenset({"CATCH_UP"}),
    )
    skip = Skip("a", 1_000, 2_000, 2, "CATCH_UP")
    checked([job], [named("a", 1_500)], skips=[skip]).require_clean()
    assert Kind.UNMATCHED_TARGET in checked([job], [], skips=[skip]).kinds


def test_what_was_skipped_may_run_once_somebody_asks_for_it() -> None:
    job = Accepted("a", [1_000], backfilled_ms=frozenset({1_000}), expected_skips=frozenset({"CATCH_UP"}))
    skip = Skip("a", 1_000, 1_000, 1, "CATCH_UP")
    checked([job], [named("a", 1_000)], skips=[skip]).require_clean()
    unasked = replace(job, backfilled_ms=frozenset())
    assert checked([unasked], [named("a", 1_000)], skips=[skip]).kinds == {Kind.SKIPPED_AND_RAN}
