"""A cluster of real node processes and real workers on this machine, and what tests do to it and ask of it."""

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from raftsched.v1 import cluster_pb2
from tests.checker import Run
from tests.cluster.api import Api, Node
from tests.cluster.links import Links
from tests.cluster.namespaces import Namespaces
from tests.cluster.processes import Process, free_ports, now_ms, until
from tests.cluster.run_log import FOLDER_VARIABLE, read_runs

WORKER_APP = "tests.cluster.handlers:app"

# Shorter than the default, so that tests need not wait for ten seconds; still longer than an election.
SESSION_TTL_MS = 3_000


@dataclass(frozen=True, slots=True)
class Machine:
    """What is special about the machine that a node runs on."""

    data_dir: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


ORDINARY = Machine()


class Cluster:
    """Nodes numbered from 1. Everything it writes is below `folder`; `close` ends every process it started."""

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 3,
        session_ttl_ms: int = SESSION_TTL_MS,
        log_keep_entries: int | None = None,
        worker_app: str = WORKER_APP,
        breakable_links: bool = False,
        namespaces: bool = False,
        machines: Mapping[int, Machine] | None = None,
    ) -> None:
        self.folder = folder
        self._machines = dict(machines or {})
        self.runs_folder = folder / "runs"
        self.runs_folder.mkdir(parents=True)
        numbers = range(1, nodes + 1)
        self._namespaces = Namespaces(numbers) if namespaces else None
        if self._namespaces is None:
            self.addresses = {
                number: f"127.0.0.1:{port}" for number, port in zip(numbers, free_ports(nodes), strict=True)
            }
        else:
            self.addresses = self._namespaces.addresses
        self._links = Links(self.addresses) if breakable_links else None
        self.api = Api(list(self.addresses.values()))
        self._worker_app = worker_app
        self.workers: dict[str, Process] = {}
        self._settings: dict[str, object] = {"session_ttl": f"{session_ttl_ms}ms"}
        if log_keep_entries is not None:
            self._settings["log_keep_entries"] = log_keep_entries
        self.nodes = {number: self._node(number) for number in self.addresses}
        # Nodes that were members once, and may still run.
        self.former_nodes: dict[int, Process] = {}
        # Every digest any node ever reported, by the index it was for.
        self._digests: dict[int, str] = {}

    def _node(self, number: int) -> Process:
        own = {"node_id": number, "data_dir": str(self.data_dir(number)), "listen": self.addresses[number]}
        lines = [f"{key} = {json.dumps(value)}" for key, value in {**own, **self._settings}.items()]
        lines += ["[peers]", *(f'{peer} = "{address}"' for peer, address in self.addresses.items())]
        if self._links is not None:
            others = [peer for peer in self.addresses if peer != number]
            lines += ["[routes]", *(f'{peer} = "{self._links.address(number, peer)}"' for peer in others)]
        config = self.folder / f"node-{number}.toml"
        config.write_text("\n".join(lines) + "\n")
        command = [sys.executable, "-m", "raftsched.cli.main", "node", f"--config={config}"]
        if self._namespaces is not None:
            command = [*self._namespaces.enter(number), *command]
        environment = self._machine(number).environment
        return Process(f"node-{number}", command, self.folder / "logs" / f"node-{number}.log", environment)

    def _machine(self, number: int) -> Machine:
        return self._machines.get(number, ORDINARY)

    @property
    def links(self) -> Links:
        """The network between the nodes, when it was asked for."""
        assert self._links is not None
        return self._links

    @property
    def namespaces(self) -> Namespaces:
        """The nodes' network, when namespaces were asked for."""
        assert self._namespaces is not None
        return self._namespaces

    def data_dir(self, number: int) -> Path:
        return self._machine(number).data_dir or self.folder / f"node-{number}"

    def empty_data_dir(self, number: int) -> None:
        """As if the disk of a dead node had been replaced."""
        assert not self.nodes[number].alive
        shutil.rmtree(self.data_dir(number))

    def start_joining(self) -> int:
        """Starts one more node, which knows those that are there, and waits to be added."""
        number = max(self.addresses) + 1
        if self._namespaces is None:
            self.addresses[number] = f"127.0.0.1:{free_ports(1)[0]}"
        else:
            self.addresses[number] = self._namespaces.add(number)
        self.api.add(self.addresses[number])
        self.nodes[number] = self._node(number)
        self.nodes[number].start()
        return number

    def retire(self, number: int) -> None:
        """A node that was removed is left alone from now on; it still runs."""
        del self.addresses[number]
        self.former_nodes[number] = self.nodes.pop(number)
        self.node(number).retire()

    @property
    def processes(self) -> list[Process]:
        return [*self.nodes.values(), *self.former_nodes.values(), *self.workers.values()]

    def start(self) -> "Cluster":
        for node in self.nodes.values():
            node.start()
        self.wait_serving()
        return self

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        self.api.close()
        if self._links is not None:
            self._links.close()
        if self._namespaces is not None:
            self._namespaces.close()

    def start_worker(
        self,
        name: str,
        *options: str,
        environment: Mapping[str, str] | None = None,
        addresses: Sequence[str] | None = None,
    ) -> Process:
        """Returns once it has a session. It connects to `addresses`, all nodes' own by default."""
        command = [sys.executable, "-m", "raftsched.cli.main", "worker", self._worker_app, f"--name={name}", *options]
        command += [f"--node={address}" for address in addresses or self.addresses.values()]
        environment = {**(environment or {}), FOLDER_VARIABLE: str(self.runs_folder)}
        worker = Process(name, command, self.folder / "logs" / f"{name}.log", environment)
        self.workers[name] = worker
        worker.start()
        until(
            lambda: worker.require_alive() or name in self.worker_names(),  # type: ignore[func-returns-value]
            f"{name} has a session",
        )
        return worker

    # What the cluster says of itself.

    def node(self, number: int) -> Node:
        return self.api.nodes[number - 1]

    def status(self, number: int) -> cluster_pb2.GetStatusResponse | None:
        return self.node(number).status() if self.nodes[number].answers else None

    def statuses(self) -> dict[int, cluster_pb2.GetStatusResponse]:
        """Of the nodes that answer. Raises AssertionError when two ever had different states at one index."""
        answers = {number: status for number in self.nodes if (status := self.status(number)) is not None}
        for number, status in answers.items():
            known = self._digests.setdefault(status.applied_index, status.state_digest)
            assert known == status.state_digest, f"node {number} differs at index {status.applied_index}"
            assert status.health != cluster_pb2.NODE_HEALTH_DIVERGED, f"node {number} says it has diverged"
        return answers

    def leader(self) -> int:
        """The node that calls itself leader, in the newest term, once a quorum follows it."""

        def find() -> int | None:
            claims = [
                (status.term, number)
                for number, status in self.statuses().items()
                if status.leader == number and status.has_quorum
            ]
            return max(claims)[1] if claims else None

        return until(find, "a leader")

    def wait_serving(self, numbers: Sequence[int] | None = None, deadline_s: float = 40.0) -> None:
        """Waits until these nodes (all by default) serve and follow one leader."""
        wanted = list(numbers or self.nodes)

        def serving() -> bool:
            for number in wanted:
                self.nodes[number].require_alive()
            answers = self.statuses()
            mine = [answers[number] for number in wanted if number in answers]
            return (
                len(mine) == len(wanted)
                and all(status.health == cluster_pb2.NODE_HEALTH_SERVING for status in mine)
                and len({status.leader for status in mine} - {0}) == 1
            )

        until(serving, f"nodes {wanted} serve", deadline_s)

    def worker_names(self) -> set[str]:
        return {worker.name for status in self.statuses().values() for worker in status.workers}

    def wait_equal_digests(self) -> None:
        """Waits until every node has applied the same entries, and requires the same state of them."""

        def equal() -> bool:
            for process in self.nodes.values():
                process.require_alive()
            answers = self.statuses().values()
            return len(answers) == len(self.nodes) and len({status.applied_index for status in answers}) == 1

        until(equal, "all nodes have applied the same index")

    def wait_caught_up(self) -> None:
        """Waits until nothing that is due waits to be fired."""

        def caught_up() -> bool:
            status = self.statuses().get(self.leader())
            return status is not None and not _is_behind(status)

        until(caught_up, "what is due has fired")

    def wait_drained(self, deadline_s: float = 60.0) -> None:
        """Waits until nothing is due, ready or leased."""

        def drained() -> bool:
            status = self.statuses().get(self.leader())
            return (
                status is not None
                and not _is_behind(status)
                and not any(queue.ready for queue in status.queues)
                and not any(worker.leased for worker in status.workers)
            )

        until(drained, "nothing is ready or leased", deadline_s)

    def runs(self) -> list[Run]:
        return list(read_runs(self.runs_folder))

    def logs(self) -> Iterator[str]:
        """The end of every process's log, for the report of a failed test."""
        for process in self.processes:
            yield f"--- {process.name} (pid {process.pid}, {'alive' if process.alive else 'dead'})\n{process.tail()}"


def _is_behind(status: cluster_pb2.GetStatusResponse) -> bool:
    return status.HasField("oldest_due_time") and status.oldest_due_time.ToMilliseconds() <= now_ms()
