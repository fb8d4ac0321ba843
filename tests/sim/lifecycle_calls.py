"""What simulated clients ask of jobs that are there: pause, resume, trigger, cancel one execution."""

import random
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from raftsched.model.errors import ExecutionFinished, ExecutionNotFound, JobNotFound, JobStateForbids, OverlapRefused
from raftsched.v1 import execution_pb2, job_pb2
from tests.sim.ledger import JobRecord, Ledger, Trigger
from tests.sim.timeline import Violation

_OVER = (
    execution_pb2.EXECUTION_STATE_SUCCEEDED,
    execution_pb2.EXECUTION_STATE_DEAD_LETTER,
    execution_pb2.EXECUTION_STATE_CANCELLED,
)


class LifecycleCalls:
    """The part of SimClient that this file is about."""

    number: int
    _rng: random.Random
    _ledger: Ledger
    _cluster_ms: Callable[[], int]
    _requests: int
    # How often the last call was tried.
    _tries: int

    async def _call(self, method: str, request: Message) -> Any:
        raise NotImplementedError

    def _answered(self, index: int, what: str) -> None:
        """A change was confirmed at that index."""
        self._ledger.count(what)
        self._ledger.answered_index = max(self._ledger.answered_index, index)

    def _known(self) -> JobRecord | None:
        """One of the jobs that were confirmed lately; a recurring one more often than not."""
        records = [one for one in self._ledger.jobs.values() if one.job_id and not one.is_delete_asked]
        recurring = [record for record in records if record.is_recurring and record.cancel_asked_ms is None]
        if recurring and self._rng.random() < 0.7:
            return self._rng.choice(recurring)
        return self._rng.choice(records[-40:]) if records else None

    def _check_deleted(self, record: JobRecord) -> None:
        """It was not found."""
        if not record.is_delete_asked and record.job_id not in self._ledger.archive.jobs:
            raise Violation(f"job {record.job_id} was confirmed and is not there")

    async def _pause(self) -> None:
        record = self._known()
        if record is None:
            return
        record.is_pause_asked = True
        try:
            response = await self._call("pause", job_pb2.PauseJobRequest(id=record.job_id, note="for a while"))
        except JobStateForbids:
            self._ledger.count("pauses refused")
            return
        except JobNotFound:
            self._check_deleted(record)
            return
        self._answered(response.index, "pauses")

    async def _resume(self) -> None:
        records = [record for record in self._ledger.jobs.values() if record.job_id and record.is_pause_asked]
        if not records:
            return
        record = self._rng.choice(records)
        try:
            response = await self._call("resume", job_pb2.ResumeJobRequest(id=record.job_id))
        except JobStateForbids:
            self._ledger.count("resumes refused")
        except JobNotFound:
            self._check_deleted(record)
        else:
            self._answered(response.index, "resumes")

    async def _trigger(self) -> None:
        """A run now; some of them with a payload of their own, some asked for twice."""
        record = self._known()
        if record is None:
            return
        self._requests += 1
        request_id = f"{self.number}-t{self._requests}"
        request = job_pb2.TriggerJobRequest(id=record.job_id, request_id=request_id)
        if self._rng.random() < 0.4:
            request.payload = f"{record.key}/{request_id}".encode()
        policy = self._rng.random()
        request.ignore_overlap, request.refuse_overlap = policy < 0.2, policy > 0.8
        trigger = record.triggers[request_id] = Trigger(payload=request.payload.decode())
        try:
            response = await self._call("trigger", request)
        except (JobStateForbids, OverlapRefused):
            self._ledger.count("triggers refused")
            if self._tries == 1:
                # Otherwise an earlier try may be on its way.
                del record.triggers[request_id]
            return
        except JobNotFound:
            self._check_deleted(record)
            return
        self._answered(response.index, "triggers")
        trigger.is_confirmed = True
        trigger.execution, trigger.skipped = response.execution_id, response.skipped
        trigger.scheduled_for_ms = response.scheduled_for.ToMilliseconds()
        if self._rng.random() < 0.2 and not record.is_delete_asked:
            try:
                again = await self._call("trigger", request)
            except JobNotFound:
                self._check_deleted(record)
                return
            if (again.execution_id, again.scheduled_for) != (response.execution_id, response.scheduled_for):
                raise Violation(f"trigger {request_id} repeated: {again.execution_id}, not {response.execution_id}")

    async def _cancel_execution(self) -> None:
        """One that has begun lately, so that some of them are under way."""
        begun = self._ledger.begun[-12:]
        if not begun:
            return
        execution = self._rng.choice(begun)
        self._ledger.cancels_asked.add(execution)
        try:
            response = await self._call("cancel_execution", execution_pb2.CancelExecutionRequest(id=execution))
        except ExecutionFinished:
            self._ledger.count("execution cancels refused")
            return
        except ExecutionNotFound:
            is_removed = execution in self._ledger.archive.executions
            if not is_removed and not any(record.is_delete_asked for record in self._ledger.jobs.values()):
                raise Violation(f"execution {execution} was leased and is not there") from None
            return
        self._answered(response.index, "execution cancels")
        state = response.execution.state
        if state not in _OVER and not response.execution.cancel_requested:
            raise Violation(f"execution {execution} is {state} after its cancel was confirmed")
        self._ledger.cancels_confirmed[execution] = state == execution_pb2.EXECUTION_STATE_CANCELLED
