"""Which settings jobs had, and when: as the commands that were carried out say, seen as the first node applies them."""

from dataclasses import dataclass, field

from raftsched.internal.v1 import command_pb2
from raftsched.state.context import Context
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2
from tests.sim.specs import Spec, decoded
from tests.sim.timeline import Violation


@dataclass(frozen=True, slots=True)
class Era:
    """From `begin_ms` on a job has this schedule; what was due until then is its earlier one's."""

    begin_ms: int
    spec: Spec


@dataclass(slots=True)
class History:
    """By job and by execution."""

    eras: dict[int, list[Era]] = field(default_factory=dict)
    # Jobs whose settings were changed, such as their policies.
    changed: set[int] = field(default_factory=set)
    # What those executions must run with that were not given a payload of their own.
    payloads: dict[int, str] = field(default_factory=dict)

    def fired(self, context: Context, execution: int, row: rows.ExecutionRow) -> None:
        """It runs with the payload that its job has now."""
        has_its_own = row.flags & rows.OWN_PAYLOAD or row.cause == execution_pb2.EXECUTION_CAUSE_REPLAY
        if not has_its_own:
            payload = context.writer.get(context.tables.payloads, keys.pack_id(row.job)) or b""
            self.payloads[execution] = payload.decode()

    def look(self, context: Context, job: int) -> tuple[bytes | None, bytes | None]:
        """The job's row and payload, to be compared with those after an update."""
        tables, number = context.tables, keys.pack_id(job)
        return context.writer.get(tables.jobs, number), context.writer.get(tables.payloads, number)

    def updated(
        self, context: Context, command: command_pb2.UpdateJob, before: tuple[bytes | None, bytes | None]
    ) -> None:
        """A command was carried out, or refused."""
        after = self.look(context, command.job)
        if after == before or after[0] is None or before[0] is None:
            return
        self.changed.add(command.job)
        settings = command.settings
        if command.changes_payload and (after[1] or b"") != settings.jobs[0].payload:
            raise Violation(f"job {command.job} was to have another payload and has {after[1]!r}")
        if command.changes_schedule and settings.schedules:
            spec = decoded(settings.schedules[0].schedule, settings.jobs[0].due_ms)
            self.eras.setdefault(command.job, []).append(Era(context.now_ms, spec))
