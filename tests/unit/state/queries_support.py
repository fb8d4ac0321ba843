"""Writes rows into a real store, as the state machine lays them out, so that reads can meet any of them."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from raftsched.internal.v1 import command_pb2
from raftsched.model.transitions import ExecutionState
from raftsched.store import keys, rows
from raftsched.store.environment import Store

CREATED_MS = 1_700_000_000_000


@dataclass
class Rows:
    """Each `add_` writes and commits; ids ascend from 1."""

    store: Store
    jobs: int = 0
    executions: int = 0
    profiles: int = 0

    @classmethod
    def at(cls, path: Path) -> "Rows":
        return cls(Store(path / "state", map_size=1 << 30))

    def add_name(self, kind: int, text: str) -> int:
        table, txn = self.store.tables.interned, self.store.write
        if (known := txn.get(keys.interned(kind, text), db=table)) is not None:
            return keys.unpack_small_id(known)
        number = txn.stat(table)["entries"] + 1
        txn.put(keys.interned(kind, text), keys.pack_small_id(number), db=table)
        txn.put(keys.interned_text(kind, number), text.encode(), db=table)
        self.store.commit()
        return number

    def add_profile(self, *, namespace: str = "default", queue: str = "default", handler: str = "h") -> int:
        self.profiles += 1
        head = rows.PROFILE.pack(
            self.add_name(keys.NAMESPACE, namespace),
            self.add_name(keys.QUEUE, queue),
            self.add_name(keys.TENANT, ""),
            self.add_name(keys.HANDLER, handler),
            0,
        )
        profile = command_pb2.Profile(namespace=namespace, queue=queue, handler=handler, max_attempts=3)
        self._put("profiles", keys.pack_small_id(self.profiles), head + profile.SerializeToString())
        return self.profiles

    def add_job(
        self,
        profile: int,
        *,
        state: int = rows.JOB_WAITING,
        scheduled_for_ms: int = CREATED_MS + 1_000,
        last_execution: int = 0,
        schedule: int = 0,
        name: str = "",
        labels: Mapping[str, str] | None = None,
        payload: bytes = b"",
    ) -> int:
        self.jobs += 1
        row = rows.JobRow(
            state=state,
            last_execution=last_execution,
            scheduled_for_ms=scheduled_for_ms,
            profile=profile,
            payload_bytes=len(payload),
            schedule=schedule,
            created_ms=CREATED_MS,
            cancelled_ms=0,
            name=name,
            labels=dict(labels or {}),
        )
        *head, _name, _labels = astuple(row)
        tail = rows.pack_job_tail(name, row.labels.items())
        if payload:
            self._put("payloads", keys.pack_id(self.jobs), payload)
        self._put("jobs", keys.pack_id(self.jobs), rows.JOB.pack(*head, len(name.encode())) + tail)
        return self.jobs

    def delete_job(self, job: int) -> None:
        self.store.write.delete(keys.pack_id(job), db=self.store.tables.jobs)
        self.store.commit()

    def add_execution(
        self,
        job: int,
        profile: int,
        *,
        previous: int = 0,
        status: ExecutionState = ExecutionState.PENDING,
        session: int = 0,
        error: str = "",
        changed_ms: int = 0,
    ) -> int:
        self.executions += 1
        row = rows.ExecutionRow(
            job=job,
            previous=previous,
            scheduled_for_ms=CREATED_MS,
            profile=profile,
            cause=0,
            payload_bytes=0,
            fired_ms=CREATED_MS,
            failures=0,
            lost_leases=0,
            attempt=1,
            session=session,
            token=9,
            leased_ms=CREATED_MS,
            status=status,
            started_ms=0,
            ended_ms=0,
        )
        job, previous, scheduled_for_ms, _cause, *rest = astuple(row)
        # The last five are in no row of this size, or not by themselves.
        value = rows.EXECUTION.pack(job, previous, scheduled_for_ms, *rest[:-5])
        if error or changed_ms:
            value += rows.EXECUTION_EXTRA.pack(changed_ms, 0, 0) + error.encode()
        self._put("executions", keys.pack_id(self.executions), value)
        return self.executions

    def add_dead_letter(self, namespace: str, dead_ms: int, execution: int) -> None:
        key = keys.dead_letter(self.add_name(keys.NAMESPACE, namespace), dead_ms, execution)
        self._put("dead_letters", key, b"")

    def add_skipped(self, job: int, scheduled_for_ms: int, row: rows.SkippedRow) -> None:
        self._put("skipped", keys.skipped(job, scheduled_for_ms), row.pack())

    def add_due(self, job: int, due_ms: int) -> None:
        self._put("due", keys.due(job, due_ms), rows.DUE_FIRST)

    def add_session(self, session: int, *, worker: str, queues: tuple[str, ...], open: bool = True) -> None:
        row = rows.SessionRow(open, CREATED_MS, 10_000, CREATED_MS, 0, worker, queues)
        self._put("sessions", keys.pack_id(session), row.pack())
        if open:
            self._put("deadlines", keys.deadline(keys.SESSION_EXPIRY, CREATED_MS, session), b"")

    def add_lease(self, session: int, token: int, executions: list[int]) -> None:
        row = rows.LeaseRow(CREATED_MS, (), keys.pack_ids(executions))
        self._put("leases", keys.lease(session, token), row.pack())

    def _put(self, table: str, key: bytes, value: bytes) -> None:
        self.store.write.put(key, value, db=getattr(self.store.tables, table))
        self.store.commit()
