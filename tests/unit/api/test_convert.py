"""What becomes of a job that is sent to be registered."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField, NotImplementedField, RaftschedError
from raftsched.model.limits import HOUR_MS, MINUTE_MS, YEAR_MS
from raftsched.v1 import job_pb2
from tests.unit.api.job_requests import NOW_MS, SOON, create, cron, job, repeated, seconds


def profile(*jobs: job_pb2.Job) -> command_pb2.Profile:
    (serialized,) = create(*jobs).profiles
    return command_pb2.Profile.FromString(serialized)


def test_a_bare_one_off_gets_every_default() -> None:
    command = create(job())
    assert list(command.jobs) == [command_pb2.NewJob(profile=0, schedule=0, due_ms=NOW_MS + MINUTE_MS)]
    assert list(command.schedules) == []
    assert profile(job()) == command_pb2.Profile(
        namespace="default",
        handler="reports.nightly",
        queue="default",
        content_type="application/octet-stream",
        max_attempts=3,
        initial_backoff_ms=1000,
        max_backoff_ms=HOUR_MS,
        multiplier=2.0,
        overlap=job_pb2.OVERLAP_POLICY_ALLOW,
        catch_up=job_pb2.CATCH_UP_POLICY_LATEST,
    )


def test_every_setting_arrives() -> None:
    full = job(
        namespace="team-a",
        name="Täglicher Bericht",
        payload=b"\x00\xff",
        content_type="application/json; charset=utf-8",
        queue="slow.queue_1",
        priority=9,
        tenant="Müller & Söhne",
        labels={"app/part": "größe", "b": ""},
        cron=cron(),
        jitter=seconds(30.5),
        retry=job_pb2.RetryPolicy(
            max_attempts=10_000, initial_backoff=seconds(0.25), max_backoff=seconds(60), multiplier=1.5, jitter=0.1
        ),
        run_timeout=seconds(90),
        overlap=job_pb2.OVERLAP_POLICY_ALLOW,
        catch_up=job_pb2.CATCH_UP_POLICY_ALL,
    )
    command = create(full)
    assert profile(full) == command_pb2.Profile(
        namespace="team-a",
        handler="reports.nightly",
        queue="slow.queue_1",
        content_type="application/json; charset=utf-8",
        tenant="Müller & Söhne",
        priority=9,
        max_attempts=10_000,
        initial_backoff_ms=250,
        max_backoff_ms=MINUTE_MS,
        multiplier=1.5,
        backoff_jitter=0.1,
        run_timeout_ms=90_000,
        jitter_ms=30_500,
        overlap=job_pb2.OVERLAP_POLICY_ALLOW,
        catch_up=job_pb2.CATCH_UP_POLICY_ALL,
    )
    assert list(command.jobs) == [
        command_pb2.NewJob(
            profile=0,
            schedule=1,
            name="Täglicher Bericht",
            payload=b"\x00\xff",
            labels={"app/part": "größe", "b": ""},
        )
    ]
    (new_schedule,) = command.schedules
    assert command_pb2.Schedule.FromString(new_schedule.schedule) == command_pb2.Schedule(
        expression="0 2 * * *", time_zone="Europe/Berlin"
    )
    # 02:00 in Berlin is 01:00 UTC in winter.
    assert new_schedule.ticks_ms[0] == NOW_MS + HOUR_MS
    assert len(new_schedule.ticks_ms) == 64
    assert (command.key_namespace, command.key) == ("team-a", "key")


def test_recurring_jobs_skip_overlaps_unless_told_otherwise() -> None:
    assert profile(job(cron=cron())).overlap == job_pb2.OVERLAP_POLICY_SKIP
    assert profile(job(interval=job_pb2.Interval(every=seconds(60)))).overlap == job_pb2.OVERLAP_POLICY_SKIP


def test_a_cron_without_a_zone_is_in_utc_and_whitespace_is_no_difference() -> None:
    (schedule,) = create(job(cron=cron(" 0  2 * * *", "")), job(cron=cron("0 2 * * *", "UTC"))).schedules
    assert command_pb2.Schedule.FromString(schedule.schedule).time_zone == "UTC"
    assert schedule.ticks_ms[0] == NOW_MS + 2 * HOUR_MS


def test_a_run_at_in_the_past_is_due_now() -> None:
    for past in (Timestamp(seconds=0), Timestamp(seconds=-62_135_596_800), Timestamp(seconds=NOW_MS // 1000 - 1)):
        assert create(job(run_at=past)).jobs[0].due_ms == NOW_MS


def test_a_run_at_between_two_milliseconds_is_not_early() -> None:
    run_at = Timestamp(seconds=NOW_MS // 1000 + 1, nanos=1)
    assert create(job(run_at=run_at)).jobs[0].due_ms == NOW_MS + 1001


def test_an_interval_begins_one_interval_from_now_or_stays_anchored_to_its_start() -> None:
    every = seconds(3600)
    plain = job_pb2.Interval(every=every)
    future = job_pb2.Interval(every=every, start=SOON)
    past = job_pb2.Interval(every=every, start=Timestamp(seconds=NOW_MS // 1000 - 10_800 - 7))
    command = create(job(interval=plain), job(interval=future), job(interval=past))
    assert [new.due_ms - NOW_MS for new in command.jobs] == [HOUR_MS, MINUTE_MS, HOUR_MS - 7000]
    (schedule,) = command.schedules
    assert command_pb2.Schedule.FromString(schedule.schedule) == command_pb2.Schedule(every_ms=HOUR_MS)
    assert not schedule.ticks_ms


def test_jobs_share_profiles_and_schedules() -> None:
    command = create(
        job(name="a", cron=cron()),
        job(name="b", cron=cron(), queue="default", namespace="default", payload=b"x"),
        job(name="c", cron=cron(), queue="other"),
        job(name="d", cron=cron("0 3 * * *")),
        job(name="e"),
    )
    assert [(new.profile, new.schedule) for new in command.jobs] == [(0, 1), (0, 1), (1, 1), (0, 2), (2, 0)]
    assert len(command.profiles) == 3
    assert len(command.schedules) == 2


def test_a_long_initial_backoff_lifts_the_default_maximum() -> None:
    retry = job_pb2.RetryPolicy(initial_backoff=seconds(7200))
    assert profile(job(retry=retry)).max_backoff_ms == 2 * HOUR_MS


def test_values_at_their_limits_are_accepted() -> None:
    create(
        job(
            namespace=repeated(63),
            name="ß" * 200,
            handler=repeated(200),
            payload=bytes(limits.PAYLOAD_MAX_BYTES),
            queue=repeated(63),
            tenant="𝒳" * 100,
            labels={f"{i:063}": "ß" * 200 for i in range(32)},
            run_at=Timestamp(seconds=(NOW_MS + limits.HORIZON_MS) // 1000),
            jitter=seconds(3600),
            retry=job_pb2.RetryPolicy(
                max_attempts=10_000,
                initial_backoff=seconds(0),
                max_backoff=seconds(30 * 86_400),
                multiplier=100,
                jitter=1,
            ),
            run_timeout=seconds(30 * 86_400),
        ),
        request_id="k" * 200,
    )


def fingerprint(*jobs: job_pb2.Job, request_id: str = "key", now_ms: int = NOW_MS) -> bytes:
    return create(*jobs, request_id=request_id, now_ms=now_ms).fingerprint


def test_the_fingerprint_says_whether_the_request_is_the_same() -> None:
    base = job(name="a", labels={"x": "1", "y": "2"}, cron=cron())
    assert len(fingerprint(base)) == 16
    assert fingerprint(base) == fingerprint(base, request_id="other", now_ms=NOW_MS + 7 * HOUR_MS)
    # Said in another way or order.
    assert fingerprint(base) == fingerprint(job(labels={"y": "2", "x": "1"}, cron=cron(), name="a", queue="default"))


def test_a_repeated_request_has_the_same_fingerprint_when_its_time_has_passed_meanwhile() -> None:
    for one in (job(), job(interval=job_pb2.Interval(every=seconds(60), start=SOON))):
        assert fingerprint(one) == fingerprint(one, now_ms=NOW_MS + YEAR_MS)


def test_the_fingerprint_stays_what_it_was() -> None:
    # Stored in clusters: a change breaks retries over an upgrade.
    stored = fingerprint(job(name="a", payload=b"p", labels={"x": "1"}), job(cron=cron()))
    assert stored.hex() == "2bb69c3fc25d49bbb1d17718a8a2edf4"


DIFFERENT = [
    job(),
    job(run_at=Timestamp(seconds=SOON.seconds, nanos=1_000_000)),
    job(name="n"),
    job(payload=b"n"),
    job(labels={"n": ""}),
    job(labels={"n": "n"}),
    job(labels={"nn": ""}),
    job(namespace="n"),
    job(tenant="n"),
    job(queue="n"),
    job(priority=1),
    job(jitter=seconds(1)),
    job(run_timeout=seconds(1)),
    job(retry=job_pb2.RetryPolicy(max_attempts=4)),
    job(retry=job_pb2.RetryPolicy(multiplier=4)),
    job(cron=cron()),
    job(cron=cron(time_zone="UTC")),
    job(cron=cron("0 3 * * *")),
    job(cron=cron(), overlap=job_pb2.OVERLAP_POLICY_ALLOW),
    job(cron=cron(), catch_up=job_pb2.CATCH_UP_POLICY_ALL),
    job(interval=job_pb2.Interval(every=seconds(60))),
    job(interval=job_pb2.Interval(every=seconds(61))),
    job(interval=job_pb2.Interval(every=seconds(60), start=SOON)),
]


def test_requests_that_differ_in_anything_have_different_fingerprints() -> None:
    alone = [fingerprint(one) for one in DIFFERENT]
    pairs = [fingerprint(one, other) for one in DIFFERENT for other in DIFFERENT]
    assert len({*alone, *pairs}) == len(alone) + len(pairs)


ANY_JOB = st.builds(
    job_pb2.Job,
    id=st.sampled_from([0, 0, 0, 1]),
    namespace=st.sampled_from(["", "default", "a", "A"]),
    name=st.text(max_size=3),
    handler=st.sampled_from(["h", "h", ""]),
    payload=st.binary(max_size=3),
    priority=st.integers(0, 11),
    labels=st.dictionaries(st.text(max_size=2), st.text(max_size=2), max_size=2),
    retry=st.builds(
        job_pb2.RetryPolicy,
        max_attempts=st.integers(0, 2**32 - 1),
        initial_backoff=st.builds(Duration, seconds=st.integers(-1, 2), nanos=st.integers(-(2**31), 2**31 - 1)),
        multiplier=st.floats(),
        jitter=st.floats(),
    ),
    overlap=st.integers(-1, 6),
    catch_up=st.integers(-1, 6),
    jitter=st.builds(Duration, seconds=st.integers(-(2**63), 2**63 - 1)),
    run_timeout=st.builds(Duration, seconds=st.integers(-1, 100), nanos=st.integers(-(2**31), 2**31 - 1)),
)
ANY_SCHEDULE = st.one_of(
    st.builds(Timestamp, seconds=st.integers(-(2**63), 2**63 - 1), nanos=st.integers(-(2**31), 2**31 - 1)),
    st.builds(job_pb2.Cron, expression=st.text(max_size=12), time_zone=st.text(max_size=5)),
    st.builds(
        job_pb2.Cron,
        expression=st.lists(st.text("0123456789*/,-lw#?rh", min_size=1, max_size=4), min_size=5, max_size=6).map(
            " ".join
        ),
    ),
    st.builds(job_pb2.Interval, every=st.builds(Duration, seconds=st.integers(-(2**63), 2**63 - 1))),
)


@settings(max_examples=150, deadline=None)
@given(anything=ANY_JOB, schedule=ANY_SCHEDULE)
def test_whatever_is_sent_yields_a_command_or_a_typed_error_with_a_field(
    anything: job_pb2.Job, schedule: Timestamp | job_pb2.Cron | job_pb2.Interval
) -> None:
    names = {Timestamp: "run_at", job_pb2.Cron: "cron", job_pb2.Interval: "interval"}
    getattr(anything, names[type(schedule)]).CopyFrom(schedule)
    refused: RaftschedError | None = None
    try:
        command = create(anything)
    except RaftschedError as error:
        refused = error
    if refused is None:
        assert command_pb2.CreateJobs.FromString(command.SerializeToString()) == command
    else:
        assert isinstance(refused, InvalidField | NotImplementedField)
        assert refused.field.startswith("jobs[0].")
