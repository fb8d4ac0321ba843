"""Updates among all other commands in any order: every index stays true, and no node stops."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from raftsched.internal.v1 import command_pb2
from raftsched.state.etag import etag_of
from raftsched.store import keys, rows
from tests.unit.state.support import MINUTE_MS, create_command
from tests.unit.state.test_any_command import POLICIES, AnyCommand, as_profile

_ONE_OFF = bytes(4)


class AnyUpdate(AnyCommand):
    """What is said of ticks and overlaps in AnyCommand is said of jobs that stay as they are: not of these."""

    @precondition(lambda self: self.node.table("jobs"))
    @rule(
        data=st.data(),
        options=POLICIES,
        kind=st.sampled_from(["", "", "once", "interval", "cron"]),
        name=st.sampled_from([None, "", "n", "m"]),
        payload=st.sampled_from([None, b"", b"new"]),
        max_runs=st.sampled_from([0, 0, 2]),
    )
    def update(
        self,
        data: st.DataObject,
        options: dict[str, Any],
        kind: str,
        name: str | None,
        payload: bytes | None,
        max_runs: int,
    ) -> None:
        node = self.node
        key, row = data.draw(st.sampled_from(node.table("jobs")))
        before = node.machine.profile(int.from_bytes(row[rows.JOB_PROFILE], "big"))
        is_once = kind == "once" or (not kind and row[rows.JOB_SCHEDULE] == _ONE_OFF)
        chosen = {"queue": "a", "jitter_ms": options["jitter_ms"]} if is_once else as_profile(options)
        command = create_command(
            due_ms=node.now_ms + 700,
            every_ms=3_000 if kind == "interval" else 0,
            ticks_ms=self._ticks() if kind == "cron" else (),
            names=[name or ""],
            payloads=[payload or b""],
            **{**chosen, "dependency_rule": before.dependency_rule, "max_runs": 0 if is_once else max_runs},
        )
        self.series.clear()
        node.do(
            command_pb2.UpdateJob(
                job=keys.unpack_id(key),
                etag=self._etag(key, row),
                settings=command,
                changes_name=name is not None,
                changes_payload=payload is not None,
                changes_schedule=bool(kind),
            )
        )

    @invariant()
    def nothing_runs_beside_another_where_it_must_not(self) -> None:
        """What ran before a policy was changed goes on."""

    def _ticks(self) -> list[int]:
        next_ms = self.node.now_ms - self.node.now_ms % MINUTE_MS + MINUTE_MS
        return [next_ms + MINUTE_MS * number for number in range(3)]

    def _etag(self, key: bytes, row: bytes) -> str:
        schedules, payloads = dict(self.node.table("schedules")), dict(self.node.table("payloads"))
        every_ms = 0
        if row[rows.JOB_SCHEDULE] != _ONE_OFF:
            stored = schedules[row[rows.JOB_SCHEDULE]][rows.SCHEDULE.size :]
            every_ms = command_pb2.Schedule.FromString(stored).every_ms
        return etag_of(row, payloads.get(key, b""), every_ms)


AnyUpdate.TestCase.settings = settings(max_examples=15, stateful_step_count=50, deadline=None)
test_any_update_in_any_order = AnyUpdate.TestCase
