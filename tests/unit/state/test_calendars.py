"""Calendars in the state machine."""

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import CalendarChanged, CalendarInUse, CalendarNotFound, InvalidField
from raftsched.state.calendars import cron_schedule, get_calendar, list_calendars
from raftsched.state.results import Done, JobsCreated
from raftsched.store import keys, rows
from raftsched.v1 import calendar_pb2
from tests.unit.state.support import Node, create_command, minutely


def put(*dates: str, name: str = "closed", replaced: int = 0, namespace: str = "default") -> command_pb2.PutCalendar:
    calendar = calendar_pb2.Calendar(namespace=namespace, name=name, dates=dates)
    return command_pb2.PutCalendar(calendar=calendar.SerializeToString(deterministic=True), replaced=replaced)


def delete(replaced: int, name: str = "closed") -> command_pb2.DeleteCalendar:
    return command_pb2.DeleteCalendar(namespace="default", name=name, replaced=replaced)


def version(node: Node, name: str = "closed") -> int:
    value = node.machine.find_calendar("default", name)
    return rows.CALENDAR.unpack_from(value)[0] if value is not None else 0


def job_with(*calendars: str, version: int) -> command_pb2.CreateJobs:
    command = create_command(ticks_ms=minutely(3))
    schedule = command_pb2.Schedule(expression="* * * * *", time_zone="UTC")
    for name in calendars:
        schedule.calendars.add(namespace="default", calendar=name, rule=1)
    command.schedules[0].schedule = schedule.SerializeToString()
    command.schedules[0].rules.calendars_version = version
    return command


def test_a_calendar_is_put_replaced_and_deleted(node: Node) -> None:
    assert node.do(put("2026-12-25")) == Done()
    first = version(node)
    assert first == node.machine.applied_index
    assert node.do(put("2026-12-26", replaced=first)) == Done()
    assert version(node) > first
    assert node.do(delete(version(node))) == Done()
    assert version(node) == 0


def test_who_saw_another_version_changes_nothing(node: Node) -> None:
    node.do(put("2026-12-25"))
    node.do(put("2026-12-26", replaced=version(node)))
    node.refused(CalendarChanged, put("2026-12-25"))
    node.refused(CalendarChanged, delete(1))
    node.do(delete(version(node)))
    node.refused(CalendarNotFound, delete(1))


def test_putting_what_is_there_changes_nothing(node: Node) -> None:
    node.do(put("2026-12-25"))
    before = node.dump()
    assert node.do(put("2026-12-25")) == Done()
    assert node.dump() == before


@pytest.mark.parametrize(
    "command",
    [
        command_pb2.PutCalendar(calendar=b"\xff"),
        put(name=""),
        put(namespace=""),
        put(name="n" * 600),
        put("2026-02-30"),
        put("25.12.2026"),
        put(*["2026-12-25"] * 5_001),
    ],
)
def test_a_malformed_calendar_is_refused(node: Node, command: command_pb2.PutCalendar) -> None:
    node.refused(InvalidField, command)


def test_a_job_needs_its_calendars(node: Node) -> None:
    error = node.refused(InvalidField, job_with("closed", version=1))
    assert error.field == "schedules[0].calendars[0].calendar"
    node.do(put("2026-12-25"))
    assert isinstance(node.do(job_with("closed", version=1)), JobsCreated)


def test_a_calendar_that_a_job_uses_stays(node: Node) -> None:
    node.do(put("2026-12-25"))
    (job,) = node.want(JobsCreated, job_with("closed", version=version(node))).job_ids
    node.refused(CalendarInUse, delete(version(node)))
    node.machine.commit()
    node.reopen()
    node.refused(CalendarInUse, delete(version(node)))
    node.do(command_pb2.CancelJob(job=job))
    assert node.do(delete(version(node))) == Done()


def test_tables_of_a_changed_calendar_are_out_of_date(node: Node) -> None:
    node.do(put("2026-12-25"))
    node.do(put("2026-12-25", name="other"))
    node.do(job_with("closed", "other", version=version(node, "other")))
    node.do(job_with("closed", version=version(node)))
    assert node.machine.schedules_to_replace("2026a", 10) == []
    node.do(put("2026-12-26", name="other", replaced=version(node, "other")))
    (need,) = node.machine.schedules_to_replace("2026a", 10)
    assert need.schedule_id == 1
    node.machine.commit()
    node.reopen()
    assert node.machine.schedules_to_replace("2026a", 10) == [need]
    node.do(put("2026-12-27", replaced=version(node)))
    assert [one.schedule_id for one in node.machine.schedules_to_replace("2026a", 10)] == [1, 2]
    node.do(
        command_pb2.ReplaceTicks(
            schedule=2,
            replaced=command_pb2.TickRules(calendars_version=1),
            rules=command_pb2.TickRules(calendars_version=version(node)),
            after_ms=node.now_ms,
            ticks_ms=minutely(3),
        )
    )
    assert [one.schedule_id for one in node.machine.schedules_to_replace("2026a", 10)] == [1]


def test_a_table_evaluated_before_a_change_that_came_first_is_out_of_date(node: Node) -> None:
    node.do(put("2026-12-25"))
    seen = version(node)
    node.do(put("2026-12-26", replaced=seen))
    node.do(job_with("closed", version=seen))
    assert len(node.machine.schedules_to_replace("2026a", 10)) == 1


def test_lists_are_in_order_of_name_and_of_one_namespace(node: Node) -> None:
    for name in ("b", "a", "ab", "c"):
        node.do(put("2026-12-25", name=name))
    node.do(put("2026-12-25", name="x", namespace="default-2"))
    node.machine.commit()
    with node.store.read() as view:
        first = list_calendars(view, "default", after="", limit=2)
        assert [one.message.name for one in first.items] == ["a", "ab"]
        assert first.next == "ab"
        second = list_calendars(view, "default", after="ab", limit=2)
        assert [one.message.name for one in second.items] == ["b", "c"]
        assert second.next is None
        assert list_calendars(view, "none", after="", limit=2).items == []
        found = get_calendar(view, "default", "a")
        assert found is not None
        assert list(found.message.dates) == ["2026-12-25"]
        assert get_calendar(view, "default", "none") is None


def test_a_schedule_names_calendars_that_are_there() -> None:
    schedule = command_pb2.Schedule(expression="* * * * *", time_zone="UTC")
    schedule.calendars.add(namespace="default", calendar="a")
    schedule.calendars.add(namespace="default", calendar="b")
    calendar = calendar_pb2.Calendar(namespace="default", name="a", dates=["1970-01-03"])
    row = rows.CALENDAR.pack(7) + calendar.SerializeToString()
    value, version = cron_schedule(schedule, lambda _namespace, _name: row)
    assert version == 7
    assert value.calendars[0].calendar.days == {2}
    with pytest.raises(InvalidField) as caught:
        cron_schedule(schedule, lambda _namespace, name: row if name == "a" else None)
    assert caught.value.field == "calendars[1].calendar"
    assert keys.calendar("a", "b") == b"a\x00b"
