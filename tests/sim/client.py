"""Simulated clients: create, repeat, contradict themselves, cancel, replay and read, through any node."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from raftsched.model.errors import (
    ExecutionNotFound,
    IdempotencyConflict,
    IllegalTransition,
    InvalidField,
    JobFinished,
    JobNotFound,
    JobRunning,
    NameTaken,
    NoQuorum,
    OutcomeUnknown,
    RaftschedError,
    ReadTimeout,
    UnknownName,
)
from raftsched.v1 import execution_pb2, job_pb2, workflow_pb2
from tests.sim.calls import Answer
from tests.sim.change_calls import ChangeCalls, check_calendar_gone, draw_policies, set_schedule
from tests.sim.graphs import RULES
from tests.sim.handlers import FATAL, HANDLERS, RUN_TIMEOUT_MS, max_attempts
from tests.sim.ledger import JobRecord, Ledger
from tests.sim.loop import SimLoop
from tests.sim.network import Network
from tests.sim.node import SimNode
from tests.sim.specs import Spec
from tests.sim.timeline import Timeline, Violation

CALL_TIMEOUT_S = 6.0
# So often a call without an outcome is made again.
MOST_TRIES = 6
PAUSE_S = (0.1, 2.5)
# Request ids are kept for as long, where anything is removed: longer than it takes to give a call up.
REQUEST_ID_AGE_MS = 90_000
REPEATS_WITHIN_MS = 30_000
# Recurring jobs alive at once, over all clients: they run for as long as the simulation does.
MOST_RECURRING = 14
NAMES = tuple(f"name-{number}" for number in range(6))


class NoAnswer(Exception):
    """The node, or the way to it, failed meanwhile: nobody knows what became of the call."""


class SimClient(ChangeCalls):
    """Makes one call after the other, for as long as `is_open` says."""

    def __init__(
        self,
        number: int,
        *,
        nodes: list[SimNode],
        timeline: Timeline,
        network: Network,
        loop: SimLoop,
        rng: random.Random,
        ledger: Ledger,
        cluster_ms: Callable[[], int],
    ) -> None:
        self.number = number
        self.is_open = True
        self.has_ended = False
        self.pause_s = PAUSE_S
        self._nodes = nodes
        self._timeline = timeline
        self._network = network
        self._loop = loop
        self._rng = rng
        self._ledger = ledger
        self._cluster_ms = cluster_ms
        self._requests = 0
        self._tries = 0

    def start(self) -> None:
        self._loop.create_task(self._run())

    async def _run(self) -> None:
        work = (
            (self._create, 5),
            (self._create_batch, 3),
            (self._create_workflow, 1),
            (self._repeat, 1),
            (self._contradict, 1),
            (self._cancel, 3),
            (self._replay, 1),
            (self._read, 3),
            (self._pause, 1),
            (self._resume, 2),
            (self._trigger, 2),
            (self._cancel_execution, 1),
            (self._put_limit, 1),
            (self._delete_calendar, 1),
            (self._update, 3),
            (self._reschedule, 1),
            (self._backfill, 1),
            (self._delete, 1),
        )
        choices = [call for call, weight in work for _ in range(weight)]
        while self.is_open:
            await asyncio.sleep(self._rng.uniform(*self.pause_s))
            try:
                await self._rng.choice(choices)()
            except NoAnswer:
                self._ledger.count("calls given up")
        self.has_ended = True

    # --- what it asks for -------------------------------------------------------------------------------------------

    async def _create(self) -> None:
        record = self._record()
        if self._rng.random() < 0.15:
            record.name = self._rng.choice(NAMES)
        await self._submit_creation([record])

    async def _create_batch(self) -> None:
        await self._submit_creation([self._record() for _ in range(self._rng.randint(2, 12))])

    async def _create_workflow(self) -> None:
        """All that has no upstream has the same schedule; the others depend on some of those before them."""
        rng = self._rng
        roots = [self._record() for _ in range(rng.randint(1, 2))]
        for other in [root for root in roots if root.is_recurring != roots[0].is_recurring]:
            roots.remove(other)
            del self._ledger.jobs[other.key]
        records = roots
        if roots[0].is_recurring:
            for root in roots[1:]:
                root.spec = roots[0].spec
        for _ in range(rng.randint(1, 4)):
            record = self._record(depends=True)
            record.upstreams = [one.key for one in rng.sample(records, rng.randint(1, min(3, len(records))))]
            record.rule, record.follows_ticks = rng.choice(RULES), roots[0].is_recurring
            records = [*records, record]
        for record in records:
            record.is_node = True
        await self._submit_creation(records)

    async def _repeat(self) -> None:
        """The same request again: the same jobs, not new ones."""
        records = self._confirmed_request()
        if not records:
            return
        try:
            response = await self._call(*_creation(records))
        except JobNotFound:
            self._check_removed(records)
            return
        ids = [response.job.id] if len(records) == 1 else list(response.job_ids)
        if not response.existed or ids != [record.job_id for record in records]:
            raise Violation(f"request {records[0].request_id} repeated: {ids}, existed {response.existed}")

    def _check_removed(self, records: list[JobRecord]) -> None:
        """Their request was answered so."""
        gone = self._ledger.archive.payloads.values()
        if not all(record.is_delete_asked or record.key in gone for record in records):
            raise Violation(f"the jobs of request {records[0].request_id} were created and are not there")
        self._ledger.count("creates of what is removed")

    async def _contradict(self) -> None:
        """Another request under the same key."""
        records = self._confirmed_request()
        if not records:
            return
        method, request = _creation(records)
        job = request.job if method == "create" else request.nodes[0].job if method == "workflow" else request.jobs[0]
        job.payload = b"another"
        try:
            await self._call(method, request)
        except IdempotencyConflict:
            return
        raise Violation(f"request {records[0].request_id} was taken with another content")

    async def _cancel(self) -> None:
        records = [record for record in self._ledger.jobs.values() if record.job_id]
        if not records:
            return
        record = self._rng.choice(records[-60:])
        if record.cancel_asked_ms is None:
            record.cancel_asked_ms = self._cluster_ms()
        try:
            response = await self._call("cancel", job_pb2.CancelJobRequest(id=record.job_id))
        except (JobRunning, JobFinished):
            self._ledger.count("cancels refused")
            return
        except JobNotFound:
            self._check_deleted(record)
            return
        if response.job.state != job_pb2.JOB_STATE_CANCELLED:
            raise Violation(f"job {record.job_id} is {response.job.state} after its cancel was confirmed")
        self._ledger.count("cancels")
        self._ledger.answered_index = max(self._ledger.answered_index, response.index)
        if record.cancel_confirmed_ms is None:
            record.cancel_confirmed_ms = self._cluster_ms()

    async def _replay(self) -> None:
        request = execution_pb2.ListDeadLettersRequest(page_size=20)
        request.read.linearizable = True
        try:
            response = await self._call("dead_letters", request)
        except UnknownName:
            # Nobody has created a job yet.
            return
        dead = [letter.execution.id for letter in response.dead_letters]
        if not dead:
            return
        chosen = self._rng.sample(dead, min(len(dead), 2))
        try:
            replayed = await self._call("replay", execution_pb2.ReplayDeadLettersRequest(execution_ids=chosen))
        except (IllegalTransition, ExecutionNotFound):
            # Its job was cancelled, or deleted, or another has replayed it.
            return
        self._ledger.answered_index = max(self._ledger.answered_index, replayed.index)
        for old, new in zip(chosen, replayed.new_execution_ids, strict=True):
            if self._ledger.replays.setdefault(old, new) != new:
                raise Violation(f"dead letter {old} was replayed as {self._ledger.replays[old]} and as {new}")
            self._ledger.count("replays")

    async def _read(self) -> None:
        """A linearizable read sees all that was confirmed, to anybody, before it was asked for."""
        records = [record for record in self._ledger.jobs.values() if record.job_id]
        known = self._ledger.answered_index
        request = job_pb2.GetJobRequest()
        request.read.linearizable = True
        record = self._rng.choice(records[-20:]) if records else None
        request.id = record.job_id if record is not None else 1
        was_cancelled = record is not None and record.cancel_confirmed_ms is not None
        try:
            response = await self._call("get", request)
        except JobNotFound:
            if record is not None:
                self._check_deleted(record)
            return
        if response.index < known:
            raise Violation(f"a linearizable read at {response.index} does not see the confirmed index {known}")
        if record is not None and response.job.payload.decode().partition("/")[0] != record.key:
            raise Violation(f"job {record.job_id} has the payload {response.job.payload!r}, not {record.key}")
        if was_cancelled and response.job.state != job_pb2.JOB_STATE_CANCELLED:
            raise Violation(f"job {record.job_id} was cancelled and is {response.job.state}")  # type: ignore[union-attr]
        self._ledger.count("reads")

    # --- creating ---------------------------------------------------------------------------------------------------

    def _record(self, *, depends: bool = False) -> JobRecord:
        """A job with a random handler and, unless it depends on others, schedule."""
        rng = self._rng
        self._ledger.jobs_asked += 1
        record = JobRecord(
            key=f"k{self._ledger.jobs_asked}",
            handler=rng.choice(HANDLERS),
            request_id="",
            # Before the first entry there is no replicated clock.
            asked_ms=self._cluster_ms() or self._timeline.true_ms,
        )
        now_ms = max(self._timeline.true_ms, self._cluster_ms())
        recurring = sum(1 for job in self._ledger.jobs.values() if job.is_recurring and job.cancel_confirmed_ms is None)
        if depends:
            pass
        elif recurring < MOST_RECURRING and rng.random() < 0.3:
            record.overlap, record.catch_up = draw_policies(record.settings, rng)
            if rng.random() < 0.15:
                record.settings.max_runs = rng.randint(1, 8)
            if rng.random() < 0.15:
                record.settings.pause_after_failures = rng.randint(1, 3)
            record.spec = Spec.drawn(rng, now_ms)
        else:
            # In whole seconds many fall on the same one.
            record.due_ms = now_ms // 1000 * 1000 + rng.choice((0, 0, 1_000, 3_000, rng.randint(2, 45) * 1_000))
        if not depends:
            _draw_settings(record, rng)
        self._ledger.jobs[record.key] = record
        return record

    async def _submit_creation(self, records: list[JobRecord]) -> None:
        self._requests += 1
        for record in records:
            record.request_id = f"{self.number}-{self._requests}"
        for name in sorted({name for record in records if record.spec is not None for name in record.spec.calendars}):
            await self._put_calendar(name)
        try:
            response = await self._call(*_creation(records))
        except (NameTaken, InvalidField) as error:
            if isinstance(error, InvalidField):
                check_calendar_gone(error)
            if self._tries == 1:
                # Otherwise an earlier try may be on its way, and find the name free again.
                for record in records:
                    del self._ledger.jobs[record.key]
            self._ledger.count(f"creates refused {type(error).__name__}")
            return
        except JobNotFound:
            # It took so long to learn of it.
            self._check_removed(records)
            return
        ids = [response.job.id] if len(records) == 1 else list(response.job_ids)
        if records[0].is_node:
            self._ledger.count("workflows")
        confirmed_ms = self._cluster_ms()
        for record, job_id in zip(records, ids, strict=True):
            record.job_id, record.confirmed_ms = job_id, confirmed_ms
        self._ledger.answered_index = max(self._ledger.answered_index, response.index)
        self._ledger.count("creates")

    def _confirmed_request(self) -> list[JobRecord]:
        """All jobs of a random request that was confirmed."""
        confirmed = [record for record in self._ledger.jobs.values() if record.job_id]
        if not confirmed:
            return []
        request_id = self._rng.choice(confirmed[-40:]).request_id
        chosen = [record for record in confirmed if record.request_id == request_id]
        is_old = chosen[0].asked_ms + REPEATS_WITHIN_MS < self._cluster_ms()
        return [] if is_old or any(record.is_delete_asked for record in chosen) else chosen

    # --- calls ------------------------------------------------------------------------------------------------------

    async def _call(self, method: str, request: Message) -> Any:
        """The response, or the error that says what is. Tries again, elsewhere, while the outcome is unknown."""
        for self._tries in range(1, MOST_TRIES + 1):
            try:
                return await self._try(method, request, self._rng.choice(self._nodes))
            except (NoAnswer, OutcomeUnknown, NoQuorum, ReadTimeout):
                await asyncio.sleep(self._rng.uniform(0.05, 1.0))
            except RaftschedError as error:
                if error.code.name not in ("UNAVAILABLE", "RESOURCE_EXHAUSTED"):
                    raise
                await asyncio.sleep(self._rng.uniform(0.05, 1.0))
        raise NoAnswer

    async def _try(self, method: str, request: Message, node: SimNode) -> Any:
        """One call to one node. Raises its error, or NoAnswer."""
        answered: asyncio.Future[Answer] = self._loop.create_future()
        if not self._network.can_reach(self.number, node.number) or not node.is_up:
            await asyncio.sleep(0.01)
            raise NoAnswer
        deadline_s = self._loop.time() + CALL_TIMEOUT_S
        life = node.lives
        data = request.SerializeToString()
        request_type = type(request)

        def deliver(answer: Answer) -> None:
            if not answered.done():
                answered.set_result(answer)

        def answer(found: Answer) -> None:
            if (node.number, self.number) not in self._network.cuts:
                delay_us = self._network.delay_us(node.number, self.number)
                self._timeline.after(delay_us, lambda: deliver(found))

        def arrive() -> None:
            if node.is_up and node.lives == life and (self.number, node.number) not in self._network.cuts:
                node.serve(method, request_type.FromString(data), deadline_s, answer)

        self._timeline.after(self._network.delay_us(self.number, node.number), arrive)
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                found = await answered
        except TimeoutError:
            raise NoAnswer from None
        if found.error is not None:
            raise found.error
        if found.response is None:
            raise NoAnswer
        return found.response


def _creation(records: list[JobRecord]) -> tuple[str, Any]:
    """The request for these jobs."""
    jobs = [_job(record) for record in records]
    if records[0].is_node:
        nodes = [
            workflow_pb2.WorkflowNode(name=record.key, job=job, depends_on=record.upstreams, rule=record.rule)
            for record, job in zip(records, jobs, strict=True)
        ]
        return "workflow", workflow_pb2.CreateWorkflowRequest(nodes=nodes, request_id=records[0].request_id)
    if len(jobs) == 1:
        return "create", job_pb2.CreateJobRequest(job=jobs[0], request_id=records[0].request_id)
    return "batch", job_pb2.BatchCreateJobsRequest(jobs=jobs, request_id=records[0].request_id)


def _draw_settings(record: JobRecord, rng: random.Random) -> None:
    """What any job may have."""
    settings = record.settings
    if rng.random() < 0.3:
        settings.priority, settings.tenant = rng.randrange(10), rng.choice(("", "a", "b"))
    if rng.random() < 0.1:
        settings.concurrency_key, settings.concurrency_limit = rng.choice(("x", "y")), 2
    if rng.random() < 0.15:
        settings.start_deadline.FromMilliseconds(rng.choice((5_000, 20_000)))
    if rng.random() < 0.1:
        settings.retention.max_age.FromMilliseconds(rng.choice((1_000, 20_000)))
    if rng.random() < 0.1:
        settings.retention.max_executions = rng.choice((1, 2, 8))
    if rng.random() < 0.15 and record.is_recurring:
        # Shorter than any deadline.
        settings.jitter.FromMilliseconds(rng.choice((500, 4_000)))


def _job(record: JobRecord) -> job_pb2.Job:
    job = job_pb2.Job()
    job.CopyFrom(record.settings)
    job.handler, job.payload, job.name = record.handler, record.key.encode(), record.name
    job.retry.max_attempts = max_attempts(record.handler)
    job.retry.initial_backoff.FromMilliseconds(200)
    job.retry.max_backoff.FromMilliseconds(2_000)
    if record.handler == "timed":
        job.run_timeout.FromMilliseconds(RUN_TIMEOUT_MS)
    if not record.upstreams:
        set_schedule(record, job)
    if record.handler == "fussy":
        job.retry.non_retryable_errors.append(FATAL)
    job.overlap, job.catch_up = record.overlap, record.catch_up
    return job
