"""Turns the credits of this node's worker streams into Lease commands. Runs on the core thread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from raftsched.dispatch.ports import Clock, MachineViews, Submit
from raftsched.internal.v1 import command_pb2
from raftsched.state.results import Leased, Result
from raftsched.store.keys import pack_ids

# Executions a command leases: beyond this a batch gains nothing and a worker's loss costs more.
LEASE_LIMIT = 1_000
# A lease block becomes one message to the worker.
PAYLOAD_BYTES_LIMIT = 16 << 20
# Executions a stream is granted at once, whatever credit it gives: what a worker hoards nobody else can run.
MAX_FREE_CREDIT = 10_000
# After a Lease that got nothing although something was ready: another node was quicker.
EMPTY_WAIT_S = 0.005

# Called on the core thread with what a stream was granted.
OnLeased = Callable[[Leased], None]


@dataclass(slots=True)
class _Stream:
    session: int
    queues: tuple[str, ...]
    on_leased: OnLeased
    credit_total: int = 0
    # Sent, or asked for and not answered yet.
    promised: int = 0
    in_flight: bool = False
    not_before_s: float = 0.0
    # The most it ever had free: what its worker can hold.
    capacity: int = 0

    @property
    def free(self) -> int:
        return max(0, min(self.credit_total - self.promised, MAX_FREE_CREDIT))


class LeasePump:
    """One Lease under way per stream; what came in meanwhile goes into the next."""

    def __init__(self, *, machine: MachineViews, submit: Submit, clock: Clock) -> None:
        self._machine = machine
        self._submit = submit
        self._clock = clock
        self._streams: dict[int, _Stream] = {}

    def open(self, stream_id: int, session: int, queues: Sequence[str], on_leased: OnLeased) -> None:
        """Adds a stream, without credit yet."""
        self._streams[stream_id] = _Stream(session, tuple(queues), on_leased)

    def close(self, stream_id: int) -> None:
        """Forgets a stream. What is still granted to it is given back when it arrives."""
        self._streams.pop(stream_id, None)

    def credit(self, stream_id: int, total: int) -> None:
        """The stream may have been sent `total` executions since it began."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.credit_total = max(stream.credit_total, total)
            stream.capacity = max(stream.capacity, stream.free)

    def stop(self) -> None:
        """Leases nothing more, for draining."""
        for stream in self._streams.values():
            stream.credit_total = stream.capacity = 0

    @property
    def capacity(self) -> int:
        """Executions this node's workers can hold: its weight when shards are shared out."""
        return sum(stream.capacity for stream in self._streams.values())

    def step(self) -> float | None:
        """Proposes a Lease for each stream that can have one. Returns as FirePump.step."""
        if not any(self._machine.ready_by_queue.values()):
            return None
        waits_s: list[float] = []
        now_s = self._clock.monotonic()
        queue_waits_s: dict[str, float | None] = {}
        for stream_id, stream in self._streams.items():
            free = stream.free
            if stream.in_flight or not free:
                continue
            for queue in stream.queues:
                if queue not in queue_waits_s:
                    queue_waits_s[queue] = self._queue_wait_s(queue)
            ready_s = min((wait for queue in stream.queues if (wait := queue_waits_s[queue]) is not None), default=None)
            if ready_s is None:
                continue
            wait_s = max(ready_s, stream.not_before_s - now_s)
            if wait_s > 0:
                waits_s.append(wait_s)
            else:
                self._lease(stream_id, stream, min(free, LEASE_LIMIT))
        return min(waits_s, default=None)

    def _queue_wait_s(self, queue: str) -> float | None:
        """How long until something of a queue may be leased; None: not before something is applied."""
        if self._machine.leasable(queue):
            return 0.0
        refill_ms = self._machine.refill_ms(queue)
        if refill_ms is None:
            return None
        return max(0.0, (refill_ms - max(self._clock.wall_ms(), self._machine.now_ms)) / 1000)

    def _lease(self, stream_id: int, stream: _Stream, limit: int) -> None:
        stream.in_flight = True
        stream.promised += limit
        lease = command_pb2.Lease(
            session=stream.session, queues=stream.queues, limit=limit, payload_bytes_limit=PAYLOAD_BYTES_LIMIT
        )

        def on_result(result: Result) -> None:
            stream.in_flight = False
            granted = len(result.executions) if isinstance(result, Leased) else 0
            stream.promised -= limit - granted
            if isinstance(result, Leased) and granted:
                if self._streams.get(stream_id) is stream:
                    stream.on_leased(result)
                else:
                    self.give_back(result)
            else:
                stream.not_before_s = self._clock.monotonic() + EMPTY_WAIT_S

        self._submit(command_pb2.Command(lease=lease), limit, on_result)

    def give_back(self, leased: Leased) -> None:
        """Releases a block that reached nobody. If this is lost, the next heartbeat's list of leases does it."""
        block = command_pb2.LeasedBlock(token=leased.token, executions=pack_ids(leased.executions))
        release = command_pb2.Release(blocks=[block])
        self._submit(command_pb2.Command(release=release), len(leased.executions), _ignore)


def _ignore(_result: Result) -> None:
    """A release is settled by the state machine; there is nobody left to tell."""
