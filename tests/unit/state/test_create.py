import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField, NameTaken
from raftsched.model.jitter import job_jitter_ms
from raftsched.state.results import JobsCreated, KeyConflict
from raftsched.store import keys, rows
from tests.unit.state.support import ALL_SHARDS, MINUTE_MS, START_MS, Node, create_command, minutely, profile


def test_jobs_get_dense_ids_in_the_order_of_the_request(node: Node) -> None:
    assert node.create(3) == [1, 2, 3]
    assert node.create(2) == [4, 5]


def test_a_one_off_waits_for_its_time(node: Node) -> None:
    (job,) = node.create(due_ms=START_MS + 1_234)
    row = node.job(job)
    assert (row.state, row.scheduled_for_ms, row.created_ms) == (rows.JOB_WAITING, START_MS + 1_234, START_MS)
    assert node.machine.next_due_ms(ALL_SHARDS) == START_MS + 1_234


def test_a_nameless_job_takes_little_room(node: Node) -> None:
    node.create()
    ((_, value),) = node.table("jobs")
    assert len(value) <= 100


def test_name_labels_and_payload_are_kept(node: Node) -> None:
    (job,) = node.create(names=["nächtlich"], payloads=[b"\x00\xff"], labels={"b": "2", "a": "eins ü"})
    row = node.job(job)
    assert (row.name, row.labels, row.payload_bytes) == ("nächtlich", {"a": "eins ü", "b": "2"}, 2)
    assert node.table("payloads") == [(keys.pack_id(job), b"\x00\xff")]


def test_like_jobs_share_one_profile(node: Node) -> None:
    first, second, third = node.create() + node.create() + node.create(handler="other")
    assert node.job(first).profile == node.job(second).profile != node.job(third).profile
    assert node.machine.profile(node.job(third).profile).handler == "other"


def test_a_cron_job_waits_for_its_first_tick_after_the_replicated_clock(node: Node) -> None:
    node.advance(MINUTE_MS)
    (job,) = node.create(ticks_ms=minutely(3))
    assert node.job(job).scheduled_for_ms == START_MS + 2 * MINUTE_MS


def test_an_interval_job_waits_for_the_occurrence_it_was_given(node: Node) -> None:
    (job,) = node.create(every_ms=5_000, due_ms=START_MS + 77)
    assert node.job(job).scheduled_for_ms == START_MS + 77


def test_jitter_delays_the_due_time_by_a_share_that_depends_on_the_job(node: Node) -> None:
    jobs = node.create(40, due_ms=START_MS, jitter_ms=30_000)
    delays = {keys.unpack_id(key[keys.DUE_JOB]): keys.due_ms_of(key) - START_MS for key, _ in node.table("due")}
    assert delays == {job: job_jitter_ms(job, 30_000) for job in jobs}
    assert len(set(delays.values())) > 30
    assert {node.job(job).scheduled_for_ms for job in jobs} == {START_MS}


def test_the_same_key_with_the_same_request_gives_the_same_jobs(node: Node) -> None:
    command = create_command(3, key="k", fingerprint=b"f" * 16)
    assert node.want(JobsCreated, command) == JobsCreated(range(1, 4), existed=False)
    before = node.dump()
    assert node.want(JobsCreated, command) == JobsCreated(range(1, 4), existed=True)
    assert node.dump() == before


def test_the_same_key_with_another_request_is_a_conflict(node: Node) -> None:
    node.do(create_command(2, key="k", fingerprint=b"f" * 16))
    before = node.dump()
    conflict = node.want(KeyConflict, create_command(2, key="k", fingerprint=b"g" * 16))
    assert list(conflict.job_ids) == [1, 2]
    assert node.dump() == before


def test_keys_of_two_namespaces_are_different_keys(node: Node) -> None:
    first = create_command(key="k")
    second = create_command(key="k")
    second.key_namespace = "other"
    assert node.want(JobsCreated, first).job_ids != node.want(JobsCreated, second).job_ids


def test_a_name_is_refused_while_a_job_that_has_it_is_alive(node: Node) -> None:
    node.create(names=["n"])
    error = node.refused(NameTaken, create_command(2, names=["m", "n"]))
    assert error.field == "jobs[1].name"


def test_a_name_twice_in_a_batch_is_refused_and_nothing_is_written(node: Node) -> None:
    error = node.refused(NameTaken, create_command(3, names=["a", "b", "a"]))
    assert error.field == "jobs[2].name"
    assert node.create() == [1]


def test_a_name_is_free_in_another_namespace(node: Node) -> None:
    node.create(names=["n"])
    assert node.create(names=["n"], namespace="other") == [2]


def test_the_name_of_a_finished_one_off_is_free_again(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session, names=["n"])
    node.refused(NameTaken, create_command(names=["n"]))
    node.ack(leased.token, leased.executions)
    assert node.create(names=["n"]) == [2]


def test_the_name_of_a_cancelled_job_is_free_again(node: Node) -> None:
    (job,) = node.create(names=["n"], every_ms=1_000)
    node.do(command_pb2.CancelJob(job=job))
    assert node.create(names=["n"]) == [2]


def test_a_known_schedule_keeps_its_table(node: Node) -> None:
    node.create(ticks_ms=minutely(3))
    node.create(ticks_ms=minutely(9))
    assert len(node.table("ticks")) == 3


def test_a_schedule_that_nothing_used_any_more_begins_a_new_table(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(3))
    node.do(command_pb2.CancelJob(job=job))
    node.advance(5 * MINUTE_MS)
    (job,) = node.create(ticks_ms=minutely(2, first=6))
    assert node.job(job).scheduled_for_ms == START_MS + 6 * MINUTE_MS
    assert [keys.unpack_tick(key)[1] for key, _ in node.table("ticks")] == minutely(2, first=6)


def test_a_cron_job_without_a_coming_tick_waits_for_more_ticks(node: Node) -> None:
    node.create(ticks_ms=minutely(2))
    node.advance(3 * MINUTE_MS)
    (job,) = node.create(ticks_ms=minutely(2, first=4))
    assert node.job(job).state == rows.JOB_STARVED


def test_ids_go_on_after_a_refused_batch(node: Node) -> None:
    node.create(names=["n"])
    node.refused(NameTaken, create_command(names=["n"]))
    assert node.create() == [2]


def bad(**changes: object) -> command_pb2.CreateJobs:
    command = create_command(2)
    for name, value in changes.items():
        setattr(command.jobs[1], name, value)
    return command


def with_profile(**settings: object) -> command_pb2.CreateJobs:
    command = create_command()
    command.profiles[0] = profile(**settings).SerializeToString()
    return command


def with_schedule(ticks_ms: tuple[int, ...] = (), **settings: object) -> command_pb2.CreateJobs:
    command = create_command()
    schedule = command_pb2.Schedule(**settings)  # type: ignore[arg-type]
    command.schedules.add(schedule=schedule.SerializeToString(), ticks_ms=ticks_ms)
    return command


def garbled(part: str) -> command_pb2.CreateJobs:
    command = create_command(ticks_ms=minutely(2))
    if part == "profile":
        command.profiles[0] = b"\xff\xff"
    elif part == "schedule":
        command.schedules[0].schedule = b"\xff\xff"
    elif part == "jobs":
        del command.jobs[:]
    elif part == "fingerprint":
        command.key, command.fingerprint = "k", b"short"
    return command


@pytest.mark.parametrize(
    "command",
    [
        bad(profile=1),
        bad(schedule=1),
        bad(due_ms=-1),
        bad(due_ms=1 << 62),
        bad(payload=bytes(256 * 1024 + 1)),
        bad(name="n" * 201),
        create_command(labels={"k" * 256: "v"}),
        create_command(labels={"k": "v" * 65_536}),
        with_profile(priority=10),
        with_profile(max_attempts=0),
        with_profile(max_attempts=10_001),
        with_profile(initial_backoff_ms=-1),
        with_profile(max_backoff_ms=1 << 40),
        with_profile(run_timeout_ms=-5),
        with_profile(jitter_ms=3_600_001),
        with_profile(multiplier=float("nan")),
        with_profile(backoff_jitter=float("inf")),
        with_profile(overlap=0),
        with_profile(overlap=5),
        with_profile(overlap_limit=1_001),
        with_profile(catch_up=4),
        with_profile(catch_up_limit=10_001),
        with_profile(catch_up_window_ms=-1),
        with_profile(start_deadline_ms=-1),
        with_profile(queue="q" * 600),
        with_schedule(),
        with_schedule(expression="* * * * *"),
        with_schedule(expression="* * * * *", every_ms=1_000, ticks_ms=(START_MS,)),
        with_schedule(expression="* * * * *", ticks_ms=(5, 5)),
        with_schedule(expression="* * * * *", ticks_ms=(-5, 5)),
        with_schedule(expression="* * * * *", ticks_ms=(1 << 60,)),
        with_schedule(every_ms=-1_000),
        with_schedule(every_ms=999),
        *map(garbled, ("profile", "schedule", "jobs", "fingerprint")),
    ],
)
def test_a_malformed_create_is_refused_whole(node: Node, command: command_pb2.CreateJobs) -> None:
    node.refused(InvalidField, command)
