"""One simulation: a cluster with its clients, workers and faults, from one seed to its judgement."""

import gc
import logging
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from raftsched.model.retention import RetentionSettings
from tests.checker import Report
from tests.sim.client import REQUEST_ID_AGE_MS, SimClient
from tests.sim.faults import GROUPS, FaultPlan, Faults
from tests.sim.ledger import Ledger
from tests.sim.loop import SimLoop
from tests.sim.network import Network
from tests.sim.node import ROUND_US, SimNode
from tests.sim.settlement import StateView, is_drained, settle
from tests.sim.specs import CHANGES_MS
from tests.sim.timeline import SECOND_US, WALL_START_MS, Timeline, Violation
from tests.sim.witness import Witness
from tests.sim.worker import SimWorker

ROOT = Path(__file__).resolve().parents[2]
# Numbers of the parties on the network: nodes from 1, workers and clients from these.
FIRST_WORKER = 101
FIRST_CLIENT = 201
# How often logs and one node's indexes are compared.
LOOK_EVERY_US = 10 * SECOND_US
# Until what clients have given up on is carried out, or never will be.
LATE_US = 6 * SECOND_US
# After the last fault: until a leader is there, until all is drained.
RECOVER_US = 30 * SECOND_US
DRAIN_US = 150 * SECOND_US
# Nothing may be overdue by more, once all is drained.
OVERDUE_MS = 2_000
# A folder in memory, where there is one: syncs cost nothing there.
MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a seed runs; `drawn` chooses everything but the length."""

    nodes: int = 3
    workers: int = 3
    clients: int = 2
    fault_s: float = 240.0
    plan: FaultPlan = field(default_factory=FaultPlan)
    log_keep_entries: int = 200
    session_ttl_ms: int = 6_000
    client_pause_s: tuple[float, float] = (0.1, 2.5)
    bad_workers: int = 1
    # What one round of a core costs: the slower, the more arrives for one round.
    round_us: tuple[int, int] = ROUND_US
    # Nodes that a worker has streams to; 0: to all.
    worker_reach: int = 0
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    # Soon after it clocks may change somewhere.
    wall_start_ms: int = WALL_START_MS

    @classmethod
    def drawn(cls, seed: int, *, fault_s: float) -> "Settings":
        """Each seed has some groups of faults and not others, so that each is met in company and alone."""
        rng = random.Random(f"settings {seed}")
        groups = [group for group in GROUPS if rng.random() < 0.55] or ["crashes"]
        return cls(
            nodes=rng.choice((3, 3, 3, 5)),
            workers=rng.randint(1, 4),
            clients=rng.randint(1, 3),
            fault_s=fault_s,
            plan=FaultPlan(tuple(groups), rng.choice(((0.5, 8.0), (3.0, 20.0), (0.1, 2.0)))),
            log_keep_entries=rng.choice((16, 60, 300, 10_000)),
            session_ttl_ms=rng.choice((2_000, 5_000, 10_000)),
            client_pause_s=rng.choice(((0.1, 2.5), (0.1, 1.0), (1.0, 6.0), (1.0, 6.0))),
            bad_workers=rng.randint(0, 2),
            round_us=rng.choice((ROUND_US, (300, 3_000), (1_000, 8_000), (1_000, 8_000))),
            worker_reach=rng.choice((0, 0, 1, 2)),
            retention=_drawn_retention(rng),
            wall_start_ms=rng.choice((WALL_START_MS, *CHANGES_MS)),
        )


def _drawn_retention(rng: random.Random) -> RetentionSettings:
    """Often so short that much of a simulation is gone by its end."""
    if rng.random() < 0.35:
        return RetentionSettings()
    age_ms = rng.choice((0, 3_000, 10_000, 40_000))
    executions = rng.choice((0, 0, 1, 5)) if age_ms else rng.choice((1, 2, 5))
    return RetentionSettings(age_ms=age_ms, executions=executions, request_id_age_ms=REQUEST_ID_AGE_MS)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A simulation that broke no promise."""

    seed: int
    digest: str
    simulated_s: float
    events: int
    summary: str


class Simulation:
    """Made and run once. `run` raises Violation."""

    def __init__(self, seed: int, folder: Path, settings: Settings) -> None:
        self.seed = seed
        self.settings = settings
        self.timeline = Timeline(settings.wall_start_ms)
        self.witness = Witness(self.timeline)
        self.witness.archive.settings = settings.retention
        self.ledger = Ledger(archive=self.witness.archive, history=self.witness.history)
        self.network = Network(self.timeline, self._rng("network"))
        node_settings = {
            "log_keep_entries": settings.log_keep_entries,
            "session_ttl_ms": settings.session_ttl_ms,
            "retention": settings.retention,
        }
        self.nodes = [
            SimNode(
                number,
                folder / f"n{number}",
                members=settings.nodes,
                timeline=self.timeline,
                network=self.network,
                witness=self.witness,
                rng=self._rng(f"node {number}"),
                settings=node_settings,
                round_us=settings.round_us,
                find=lambda number: self.nodes[number - 1],
            )
            for number in range(1, settings.nodes + 1)
        ]
        self.witness.nodes = self.nodes
        self.workers = [
            SimWorker(
                FIRST_WORKER + at,
                nodes=self._reached_by(at),
                timeline=self.timeline,
                network=self.network,
                rng=self._rng(f"worker {at}"),
                ledger=self.ledger,
                cluster_ms=lambda: self.witness.cluster_ms,
            )
            for at in range(settings.workers)
        ]
        for worker in self.workers[: settings.bad_workers]:
            worker.misbehaves = True
        self.loop = SimLoop(self.timeline)
        self.clients = [
            SimClient(
                FIRST_CLIENT + at,
                nodes=self.nodes,
                timeline=self.timeline,
                network=self.network,
                loop=self.loop,
                rng=self._rng(f"client {at}"),
                ledger=self.ledger,
                cluster_ms=lambda: self.witness.cluster_ms,
            )
            for at in range(settings.clients)
        ]
        for client in self.clients:
            client.pause_s = settings.client_pause_s
        self.faults = Faults(
            settings.plan,
            timeline=self.timeline,
            network=self.network,
            rng=self._rng("faults"),
            nodes=self.nodes,
            workers=self.workers,
            clients=[client.number for client in self.clients],
        )
        self._look_rng = self._rng("looks")
        self._looks = self._led_looks = 0

    def _rng(self, name: str) -> random.Random:
        """A source of chance of its own for each part: more of one does not change the others."""
        return random.Random(f"{self.seed} {name}")

    def _reached_by(self, worker: int) -> list[SimNode]:
        count = self.settings.worker_reach
        return self._rng(f"reach {worker}").sample(self.nodes, count) if count else self.nodes

    # --- the course of things ---------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        # Collected between events, at the same places in every run, and less often than by itself.
        gc.disable()
        for part in (*self.nodes, *self.workers, *self.clients):
            part.start()
        self._until(10 * SECOND_US, lambda: self.leader() is not None, "a first leader")
        self.faults.start()
        end_us = int(self.settings.fault_s * SECOND_US)
        while self.timeline.now_us < end_us:
            self.timeline.run_until(min(end_us, self.timeline.now_us + LOOK_EVERY_US))
            self._look()
            self._looks += 1
            self._led_looks += self.leader() is not None
        report = self._finish()
        self.close()
        return Outcome(
            seed=self.seed,
            digest=self.timeline.digest,
            simulated_s=self.timeline.now_s,
            events=self.timeline.events,
            summary=f"{report.summary()}; {self.counts()}",
        )

    def close(self) -> None:
        """Ends all lives, so that their files can be removed."""
        self.faults._is_over = True
        for node in self.nodes:
            node.on_stopped = lambda: None
            if node.is_up:
                node.stop()
        self.loop.kill()
        gc.enable()
        gc.collect()

    def counts(self) -> str:
        """What happened, for people."""
        counts = self.witness.counts
        return (
            f"led at {self._led_looks} of {self._looks} looks, "
            f"{len(self.ledger.jobs)} jobs, {counts.entries} entries, {counts.elections} elections, "
            f"{counts.snapshots} snapshots, removed {self.witness.archive.summary()}, "
            f"calls {self.ledger.calls}, faults {self.faults.begun}"
        )

    def leader(self) -> SimNode | None:
        """The leader of the highest term."""
        leading = [node for node in self.nodes if node.is_answering and node.leads]
        return max(leading, key=lambda node: node.replica.term, default=None)

    def _until(self, within_us: int, done: "object", what: str) -> None:
        assert callable(done)
        end_us = self.timeline.now_us + within_us
        while self.timeline.now_us < end_us:
            if done():
                return
            self.timeline.run_until(min(end_us, self.timeline.now_us + SECOND_US // 4))
            self._check_loops()
        if not done():
            raise Violation(f"no liveness: not within {within_us / SECOND_US:.0f} s: {what}; {self._positions()}")

    def _positions(self) -> str:
        return "; ".join(
            f"node {node.number} "
            + (
                f"term {node.replica.term} leader {node.replica.leader_id} log {node.replica.last_log_index} "
                f"commit {node.replica.commit_index} applied {node.live.engine.machine.applied_index}"
                if node.is_up
                else "down"
            )
            for node in self.nodes
        )

    def _check_loops(self) -> None:
        if self.loop.errors:
            raise Violation(f"a client: {self.loop.errors[0]}")

    def _look(self) -> None:
        """What is too much work for every step."""
        gc.collect(1)
        self._check_loops()
        up = [node for node in self.nodes if node.is_up and not node.damaged]
        self.witness.check_logs(node.replica for node in up)
        if up:
            engine = self._look_rng.choice(up).live.engine
            StateView(engine.machine, engine.store, self.witness.history).check_indexes()

    # --- the end ----------------------------------------------------------------------------------------------------

    def _finish(self) -> Report:
        """Ends the faults, waits until all calls have ended and everything has drained, and judges."""
        timeline = self.timeline
        timeline.note("faults are over", 0)
        for client in self.clients:
            client.is_open = False
        self.faults.stop()
        self._until(RECOVER_US, self._is_whole, "all nodes up under one leader")
        self._until(RECOVER_US, lambda: all(client.has_ended for client in self.clients), "all calls are answered")
        timeline.run_until(timeline.now_us + LATE_US)
        until_ms = self.witness.cluster_ms
        self._until(DRAIN_US, lambda: self._is_drained(until_ms), "all that was due is done")
        self._until(RECOVER_US, self._is_even, "all nodes have applied the same")
        self._look()
        machines = [node.live.engine.machine for node in self.nodes]
        if len({machine.digest for machine in machines}) != 1:
            raise Violation("the nodes' states differ at the same index")
        for node in self.nodes:
            StateView(node.live.engine.machine, node.live.engine.store, self.witness.history).check_indexes()
        engine = self.nodes[0].live.engine
        timeline.note("ends", 0, engine.machine.digest.hex())
        return settle(self.ledger, engine.machine, engine.store, until_ms=until_ms)

    def _is_whole(self) -> bool:
        leader = self.leader()
        return (
            leader is not None
            and len(leader.replica.membership.voters) == len(self.nodes)
            and all(
                node.is_up and node.replica.leader_id == leader.number and node.has_joined_for_good
                for node in self.nodes
            )
        )

    def _is_drained(self, until_ms: int) -> bool:
        leader = self.leader()
        if leader is None:
            return False
        engine = leader.live.engine
        return is_drained(engine.machine, engine.store, until_ms=until_ms, slack_ms=OVERDUE_MS)

    def _is_even(self) -> bool:
        if not all(node.is_up for node in self.nodes):
            return False
        return len({node.live.engine.machine.applied_index for node in self.nodes}) == 1


# --- running seeds --------------------------------------------------------------------------------------------------


def simulate(seed: int, *, fault_s: float = 240.0, settings: Settings | None = None) -> Outcome:
    """Runs one seed in a folder of its own. Raises Violation, which tells how to run it again."""
    folder = Path(tempfile.mkdtemp(prefix="raftsched-sim-", dir=MEMORY if MEMORY.is_dir() else None))
    simulation = Simulation(seed, folder, settings or Settings.drawn(seed, fault_s=fault_s))
    try:
        with quiet_logs():
            return simulation.run()
    except Violation as error:
        at = simulation.timeline.now_s
        again = f"python -m tests.sim --seed {seed} --minutes {simulation.settings.fault_s / 60:g}"
        raise Violation(
            f"seed {seed}, commit {commit()}, {at:.3f} s: {error}\n{simulation.timeline.shown()}\n"
            f"settings: {simulation.settings}\nagain: {again}"
        ) from error
    finally:
        try:
            with quiet_logs():
                simulation.close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def commit() -> str:
    """The commit of this working copy, short."""
    found = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Nodes log what goes wrong, and here that is the point."""
    logger = logging.getLogger("raftsched")
    before = logger.disabled, logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.disabled, level = before[0], before[1]
        logger.setLevel(level)
