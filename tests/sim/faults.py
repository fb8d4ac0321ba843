"""What goes wrong, when, and for how long: all from the seed."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

from tests.sim.disk import QUICK_US, cut_short, flip_bit, spoil_root
from tests.sim.network import Network
from tests.sim.node import SimNode
from tests.sim.timeline import MILLISECOND_US, SECOND_US, Timeline
from tests.sim.worker import SimWorker

HOUR_MS = 3_600_000
# By group, so that a seed can have some kinds of trouble and not others.
GROUPS: dict[str, tuple[str, ...]] = {
    "crashes": ("crash", "crash_leader", "stop"),
    "power": ("power", "power_all"),
    "pauses": ("pause", "pause_leader"),
    "partitions": ("split", "isolate", "isolate_leader", "one_way", "ring"),
    "connections": ("reset", "refuse", "slow_link"),
    "slowness": ("slow_network", "slow_disk"),
    "disks": ("full", "install", "empty", "damage", "rot"),
    "clocks": ("clock", "drift"),
    "leaders": ("transfer", "step_down"),
    "members": ("remove", "remove_leader", "remove_two", "remove_in_split"),
    "workers": ("worker_crash", "worker_stall", "worker_cut", "worker_clock"),
}


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The groups that a simulation draws from, and the seconds between one fault and the next."""

    groups: tuple[str, ...] = tuple(GROUPS)
    every_s: tuple[float, float] = (0.5, 8.0)


class Faults:
    """Begins a fault now and then and ends each after a while; `stop` ends all."""

    def __init__(
        self,
        plan: FaultPlan,
        *,
        timeline: Timeline,
        network: Network,
        rng: random.Random,
        nodes: list[SimNode],
        workers: list[SimWorker],
        clients: list[int],
    ) -> None:
        self._plan = plan
        self._timeline = timeline
        self._network = network
        self._rng = rng
        self._nodes = nodes
        self._workers = workers
        self._clients = clients
        self._is_over = False
        self._kinds = [kind for group in plan.groups for kind in GROUPS[group]]
        self.begun: dict[str, int] = {}
        # Nodes that were removed from the cluster, or may have been: they are added again.
        self._removed: list[SimNode] = []
        # When something last disturbed a node or a way between two parties.
        for node in nodes:
            node.on_stopped = lambda node=node: self._stopped(node)

    def start(self) -> None:
        if self._kinds:
            self._later(self._plan.every_s, self._next)

    def stop(self) -> None:
        """Ends everything that is wrong."""
        self._is_over = True
        network = self._network
        network.mend()
        network.allow_all()
        network.speed_up()
        for node in self._nodes:
            node.disk.is_full = node.disk.will_fail_install = False
            node.disk.latency_us = QUICK_US
            node.clock.offset_ms = 0
            if node.is_paused:
                node.resume()
        for worker in self._workers:
            if not worker.is_up:
                worker.start()
            if worker.is_stalled:
                worker.resume()
            worker.misbehaves = False
        self.bring_up()
        self.add_again()

    def bring_up(self) -> None:
        """Starts every node that is down; a harmed one looks at its files first."""
        for node in self._nodes:
            if node.damaged and node.is_up:
                node.crash()
            if not node.is_up:
                self._start(node)

    # --- when -------------------------------------------------------------------------------------------------------

    def _later(self, seconds: tuple[float, float], call: Callable[[], None]) -> None:
        def due() -> None:
            if not self._is_over:
                call()

        self._timeline.after(int(self._rng.uniform(*seconds) * SECOND_US), due)

    def _next(self) -> None:
        kind = self._rng.choice(self._kinds)
        begin: Callable[[], bool] = getattr(self, f"_{kind}")
        if begin():
            self.begun[kind] = self.begun.get(kind, 0) + 1
        self._later(self._plan.every_s, self._next)

    # --- nodes ------------------------------------------------------------------------------------------------------

    def _up(self) -> list[SimNode]:
        return [node for node in self._nodes if node.is_answering]

    def _any(self) -> SimNode | None:
        up = self._up()
        return self._rng.choice(up) if up else None

    def _leader(self) -> SimNode | None:
        leading = [node for node in self._up() if node.leads]
        return max(leading, key=lambda node: node.replica.term, default=None)

    def _stopped(self, node: SimNode) -> None:
        """However it ended, it comes back."""
        if self._is_over:
            self._timeline.after(SECOND_US, lambda: self._start(node))
        else:
            self._later((0.2, 12.0), lambda: self._start(node))

    def _start(self, node: SimNode) -> None:
        if node.is_up:
            return
        node.disk.is_full = node.disk.has_failed_install = False
        if not node.is_corrupt:
            node.start()
        if not node.is_up and node.is_corrupt:
            # Once no other node's disk is missing it may be replaced.
            if self._may_lose_disk(node):
                node.empty()
                node.start()
            else:
                self._timeline.after(SECOND_US, lambda: self._start(node))

    def _may_lose_disk(self, node: SimNode) -> bool:
        """A minority of the disks may be lost; here one at a time, and not before the last one is full again."""
        # A node that is being removed is missing already, however well its disk is.
        if any(other is not node for other in self._removed):
            return False
        return all(other.has_joined_for_good for other in self._nodes if other is not node)

    def _crash(self) -> bool:
        node = self._any()
        if node is not None:
            node.crash()
        return node is not None

    def _crash_leader(self) -> bool:
        node = self._leader()
        if node is not None:
            node.crash(loses_power=self._rng.random() < 0.3)
        return node is not None

    def _stop(self) -> bool:
        node = self._any()
        if node is None:
            return False
        life = node.lives
        node.live.drain()

        def stop() -> None:
            if node.is_up and node.lives == life and not node.is_paused:
                node.stop()

        self._timeline.after(self._rng.randint(1, 4) * SECOND_US, stop)
        return True

    def _power(self) -> bool:
        node = self._any()
        if node is not None:
            node.crash(loses_power=True)
        return node is not None

    def _power_all(self) -> bool:
        for node in self._nodes:
            if node.is_up:
                node.crash(loses_power=True)
        return True

    def _pause(self) -> bool:
        node = self._any()
        return node is not None and self._pause_node(node)

    def _pause_leader(self) -> bool:
        node = self._leader()
        return node is not None and self._pause_node(node)

    def _pause_node(self, node: SimNode) -> bool:
        life = node.lives
        node.pause()

        def resume() -> None:
            if node.is_paused and node.lives == life:
                node.resume()

        self._later((0.2, 25.0), resume)
        return True

    def _transfer(self) -> bool:
        node = self._leader()
        return node is not None and node.replica.transfer_leadership(None)

    def _step_down(self) -> bool:
        node = self._leader()
        if node is not None:
            node.replica.step_down()
            node.wake(0)
        return node is not None

    # --- membership ---------------------------------------------------------------------------------------------------

    def _remove(self) -> bool:
        return self._remove_nodes([self._rng.choice(self._nodes)])

    def _remove_leader(self) -> bool:
        node = self._leader()
        return node is not None and self._remove_nodes([node])

    def _remove_two(self) -> bool:
        """Asked for at the same time, of different nodes."""
        return self._remove_nodes(self._rng.sample(self._nodes, 2))

    def _remove_in_split(self) -> bool:
        """While the nodes do not all hear of it."""
        return self._remove_two() and self._split()

    def _remove_nodes(self, nodes: list[SimNode]) -> bool:
        """Each is asked for at some node; what was removed gets an empty disk, and is added again later."""
        asked = self._up()
        if not asked or self._removed or not all(node.has_joined_for_good for node in self._nodes):
            return False
        for node in nodes:
            at = self._rng.choice(asked)
            self._removed.append(node)
            self._timeline.note("is to be removed", node.number, at.number)
            at.replica.remove_node(node.number, lambda error, node=node: self._was_removed(node, error), timeout_s=6.0)
            at.wake(0)
        self._later((7.0, 25.0), self.add_again)
        return True

    def _was_removed(self, node: SimNode, error: Exception | None) -> None:
        self._timeline.note("is removed", node.number, type(error).__name__ if error is not None else "")
        if error is not None:
            return
        if node not in self._removed:
            # When all were asked for again, its removal was still on its way.
            self._removed.append(node)
            self._timeline.after(2 * SECOND_US, self.add_again)
        self._timeline.after(self._rng.randint(0, 3 * SECOND_US), lambda: self._replace(node))

    def _replace(self, node: SimNode) -> None:
        """By a new machine of the same number."""
        if node not in self._removed:
            return
        if node.is_up:
            node.crash()
        node.empty()

    def add_again(self) -> None:
        """Asks until every node is a member again."""
        leader = self._leader()
        if leader is not None:
            for node in self._removed:
                if node.number not in leader.replica.membership.members:
                    self._timeline.note("is to be added", node.number, leader.number)
                    address = f"n{node.number}:1"
                    leader.replica.add_node(node.number, address, lambda _error: None, timeout_s=5.0)
                    leader.wake(0)
            self._removed = [node for node in self._removed if not self._votes(leader, node)]
        if self._removed:
            self._timeline.after(2 * SECOND_US, self.add_again)

    def _votes(self, leader: SimNode, node: SimNode) -> bool:
        return node.number in leader.replica.membership.voters

    # --- the network ------------------------------------------------------------------------------------------------

    def _everyone(self) -> list[int]:
        return [node.number for node in self._nodes] + [worker.number for worker in self._workers] + self._clients

    def _cut_for(self, seconds: tuple[float, float], directions: list[tuple[int, int]]) -> bool:
        self._timeline.note("cuts", 0, sorted(directions) if len(directions) < 9 else len(directions))
        self._network.cut(directions)
        self._later(seconds, lambda: self._mend(directions))
        return True

    def _mend(self, directions: list[tuple[int, int]]) -> None:
        self._timeline.note("mends", 0, len(directions))
        self._network.mend(directions)

    def _between(self, side: set[int], others: set[int]) -> list[tuple[int, int]]:
        return [(a, b) for a, b in permutations(sorted(side | others), 2) if (a in side) != (b in side)]

    def _split(self) -> bool:
        """Halves; workers and clients fall to either side."""
        everyone = self._everyone()
        side = {party for party in everyone if self._rng.random() < 0.5}
        return self._cut_for((1.0, 40.0), self._between(side, set(everyone) - side))

    def _isolate(self) -> bool:
        return self._isolate_node(self._rng.choice(self._nodes))

    def _isolate_leader(self) -> bool:
        node = self._leader()
        return node is not None and self._isolate_node(node)

    def _isolate_node(self, node: SimNode) -> bool:
        """From the other nodes; workers and clients still reach it."""
        others = {other.number for other in self._nodes if other is not node}
        return self._cut_for((1.0, 40.0), self._between({node.number}, others))

    def _one_way(self) -> bool:
        a, b = self._rng.sample(self._nodes, 2)
        return self._cut_for((0.5, 30.0), [(a.number, b.number)])

    def _ring(self) -> bool:
        """Every node reaches a majority, and no two the same one."""
        numbers = [node.number for node in self._nodes]
        self._rng.shuffle(numbers)
        count, reach = len(numbers), max(1, len(numbers) // 4)
        near = {
            (numbers[at], numbers[(at + step) % count])
            for at in range(count)
            for step in range(-reach, reach + 1)
            if step
        }
        if len(numbers) == 3:
            near -= {(numbers[0], numbers[2]), (numbers[2], numbers[0])}
        return self._cut_for((2.0, 40.0), [pair for pair in permutations(sorted(numbers), 2) if pair not in near])

    def _reset(self) -> bool:
        a, b = self._rng.sample(self._everyone(), 2)
        self._network.reset_between(a, b)
        return True

    def _refuse(self) -> bool:
        a, b = self._rng.sample(self._nodes, 2)
        self._network.refuse(a.number, b.number)
        self._later((1.0, 30.0), self._network.allow_all)
        return True

    def _slow_link(self) -> bool:
        a, b = self._rng.sample(self._nodes, 2)
        latency_us = (MILLISECOND_US, self._rng.choice((100, 800, 3_000)) * MILLISECOND_US)
        self._network.slow_down([(a.number, b.number)], latency_us)
        self._later((1.0, 20.0), self._network.speed_up)
        return True

    def _slow_network(self) -> bool:
        self._network.latency_us = (MILLISECOND_US, self._rng.choice((10, 50, 200, 500)) * MILLISECOND_US)
        self._later((1.0, 20.0), self._network.speed_up)
        return True

    # --- disks and clocks -------------------------------------------------------------------------------------------

    def _slow_disk(self) -> bool:
        node = self._rng.choice(self._nodes)
        node.disk.latency_us = (MILLISECOND_US, self._rng.choice((10, 60, 400, 1_500)) * MILLISECOND_US)

        def quick() -> None:
            node.disk.latency_us = QUICK_US

        self._later((1.0, 25.0), quick)
        return True

    def _full(self) -> bool:
        self._rng.choice(self._nodes).disk.is_full = True
        return True

    def _install(self) -> bool:
        self._rng.choice(self._nodes).disk.will_fail_install = True
        return True

    def _empty(self) -> bool:
        node = self._any()
        if node is None or not self._may_lose_disk(node):
            return False
        node.crash()
        node.empty()
        return True

    def _damage(self) -> bool:
        """Harms a node's files while it is down; it notices when it starts."""
        node = self._any()
        if node is None or not self._may_lose_disk(node):
            return False
        log = node.live.engine.log
        record = self._some_entry(node)
        kind = self._rng.choice(("entry", "log short", "state short", "log root", "state root"))
        state = log._state.pack()
        node.crash()
        node.damaged = True
        self._timeline.note("is damaged", node.number, kind)
        files = {"log": node.folder / "log" / "data.mdb", "state": node.folder / "state" / "data.mdb"}
        if kind == "entry":
            flip_bit(files["log"], record or state, self._rng)
        elif kind.endswith("short"):
            cut_short(files[kind.split()[0]], self._rng)
        else:
            spoil_root(files[kind.split()[0]])
        return True

    def _rot(self) -> bool:
        """Changes a bit of an old entry on the disk of a node that runs; it notices when it reads it."""
        node = self._any()
        record = self._some_entry(node) if node is not None else None
        if node is None or record is None or not self._may_lose_disk(node):
            return False
        node.damaged = True
        self._timeline.note("rots", node.number)
        flip_bit(node.folder / "log" / "data.mdb", record, self._rng)
        return True

    def _some_entry(self, node: SimNode) -> bytes | None:
        """The content of an entry that is on the node's disk, large enough to be found there."""
        log = node.live.engine.log
        if log.durable_index <= log.base_index:
            return None
        command = log.entry(self._rng.randint(log.base_index + 1, log.durable_index)).command
        return command if len(command) > 24 else None

    def _clock(self) -> bool:
        """One node's clock jumps, for a while: so far that a minority is wrong."""
        if any(node.clock.offset_ms for node in self._nodes):
            return False
        node = self._rng.choice(self._nodes)
        node.clock.offset_ms = self._rng.choice((-HOUR_MS, -10_000, -1_000, 1_000, 10_000, HOUR_MS))
        self._timeline.note("clock jumps", node.number, node.clock.offset_ms)

        def right() -> None:
            node.clock.offset_ms = 0
            self._timeline.note("clock is right again", node.number)

        self._later((2.0, 60.0), right)
        return True

    def _drift(self) -> bool:
        """All clocks are a little wrong."""
        for node in self._nodes:
            if abs(node.clock.offset_ms) < 500:
                node.clock.offset_ms = self._rng.randint(-200, 200)
        return True

    # --- workers ----------------------------------------------------------------------------------------------------

    def _worker(self) -> SimWorker | None:
        up = [worker for worker in self._workers if worker.is_up and not worker.is_stalled]
        return self._rng.choice(up) if up else None

    def _worker_crash(self) -> bool:
        worker = self._worker()
        if worker is None:
            return False
        worker.crash()
        self._later((0.5, 10.0), lambda: None if worker.is_up else worker.start())
        return True

    def _worker_stall(self) -> bool:
        worker = self._worker()
        if worker is None:
            return False
        worker.stall()
        self._later((0.5, 25.0), lambda: worker.resume() if worker.is_stalled else None)
        return True

    def _worker_cut(self) -> bool:
        worker = self._worker()
        if worker is None:
            return False
        nodes = self._rng.sample(self._nodes, self._rng.randint(1, len(self._nodes)))
        directions = [(worker.number, node.number) for node in nodes]
        if self._rng.random() < 0.7:
            directions += [(node.number, worker.number) for node in nodes]
        return self._cut_for((1.0, 25.0), directions)

    def _worker_clock(self) -> bool:
        self._rng.choice(self._workers).wall_offset_ms = self._rng.choice((-HOUR_MS, 0, HOUR_MS))
        return True
