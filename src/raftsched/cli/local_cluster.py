"""A cluster of real node processes and workers on this machine, for `dev` and `demo`."""

import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, TypeVar

from raftsched.cli.processes import Child, end_children, is_free, node_arguments
from raftsched.client import ClusterStatus, NodeHealth, SyncClient
from raftsched.client.errors import RaftschedError

T = TypeVar("T")

_POLL_S = 0.1
# One question to one node; a node that is busy for longer is asked again.
_PROBE_TIMEOUT_S = 1.0
# What a node may take to hand its work over and stop, and the workers before it.
STOP_GRACE_S = 20.0


class TooSlow(Exception):
    """Something did not come about in time; the message says what."""


class PortTaken(Exception):
    """A port that a node should listen on is in use; the message says which."""


class LocalCluster:
    """Nodes 1 to n at `ports` of 127.0.0.1, with their data and logs below `folder`, which makes them one cluster.

    Leaving the `with` block kills what still runs: everything confirmed is on disk. `stop` ends it the proper way.
    """

    def __init__(self, folder: Path, ports: Sequence[int], name: str) -> None:
        self.folder = folder
        self._cluster_id = _cluster_id(folder, name)
        self.addresses = {number: f"127.0.0.1:{port}" for number, port in enumerate(ports, start=1)}
        self.nodes = {
            number: Child(
                f"node {number}",
                node_arguments(number, self.addresses, folder / f"node-{number}", self._cluster_id),
                folder / "logs" / f"node-{number}.log",
            )
            for number in self.addresses
        }
        self.workers: list[Child] = []
        self._probe = SyncClient(list(self.addresses.values()), timeout_s=_PROBE_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in (*self.workers, *self.nodes.values()):
            if child.alive:
                child.kill()
        self._probe.close()

    def start_nodes(self) -> None:
        """Starts all nodes; returns at once. Raises PortTaken."""
        for number, address in self.addresses.items():
            if not is_free(address):
                raise PortTaken(f"node {number} cannot listen on {address}: another process does")
        for node in self.nodes.values():
            node.start()

    def start_worker(self, name: str, arguments: Sequence[str], environment: dict[str, str] | None = None) -> Child:
        """Starts `raftsched worker` with these arguments and every node's address."""
        command = ["worker", *arguments]
        for address in self.addresses.values():
            command += ["--node", address]
        worker = Child(name, command, self.folder / "logs" / f"{name.replace(' ', '-')}.log", environment)
        worker.start()
        self.workers.append(worker)
        return worker

    def status(self, number: int) -> ClusterStatus | None:
        """What a node says, None if it says nothing."""
        if not self.nodes[number].alive:
            return None
        try:
            answer = self._probe.status(self.addresses[number])
        except RaftschedError:
            return None
        # It may have been another process that got the port.
        return answer if answer.cluster_id == self._cluster_id else None

    def statuses(self) -> dict[int, ClusterStatus]:
        """What each node that answers says."""
        answers = {number: self.status(number) for number in self.nodes}
        return {number: answer for number, answer in answers.items() if answer is not None}

    def leader(self) -> int | None:
        """The leader that a majority of all nodes agrees on."""
        named = [answer.leader for answer in self.statuses().values() if answer.has_quorum and answer.leader]
        for number in set(named):
            if named.count(number) * 2 > len(self.nodes):
                return number
        return None

    def serving(self) -> bool:
        """Whether every node serves and all name one leader."""
        answers = self.statuses().values()
        return (
            len(answers) == len(self.nodes)
            and all(answer.health == NodeHealth.SERVING for answer in answers)
            and len({answer.leader for answer in answers}) == 1
        )

    def wait_for(self, question: Callable[[], T | None], within_s: float, what: str) -> T:
        """Asks until the answer is true and returns it. Raises TooSlow; ProcessEnded when a process dies meanwhile."""
        deadline_s = time.monotonic() + within_s
        while True:
            self.check()
            answer = question()
            if answer:
                return answer
            if time.monotonic() > deadline_s:
                raise TooSlow(f"{what} took longer than {within_s:.0f} s; the logs are in {self.folder / 'logs'}")
            time.sleep(_POLL_S)

    def check(self) -> None:
        """Raises ProcessEnded if a process that was started, and not killed from here, has ended."""
        for child in (*self.nodes.values(), *self.workers):
            child.check()

    def stop(self) -> list[str]:
        """Drains the workers, then the nodes; says what did not end well."""
        complaints = end_children([worker for worker in self.workers if worker.alive], STOP_GRACE_S)
        return complaints + end_children([node for node in self.nodes.values() if node.alive], STOP_GRACE_S)


def _cluster_id(folder: Path, name: str) -> str:
    """The same for a folder each time, and no other's: nodes of two clusters on one machine refuse each other."""
    file = folder / "cluster-id"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{name}-{secrets.token_hex(4)}\n")
    return file.read_text().strip()
