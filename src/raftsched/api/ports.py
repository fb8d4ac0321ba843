"""What the services need of the node they run in: the only door from a gRPC call to the core thread."""

from typing import Protocol

from raftsched.dispatch.cluster_view import ClusterView
from raftsched.internal.v1 import command_pb2
from raftsched.state.machine import Machine
from raftsched.state.results import Result
from raftsched.store.environment import Store


class Core(Protocol):
    """Called on the event loop only."""

    @property
    def store(self) -> Store:
        """For reads; every write goes through `submit`."""

    @property
    def machine(self) -> Machine:
        """For its plain-readable views and indexes only."""

    async def submit(self, command: command_pb2.Command, ops: int = 1, timeout_s: float = 10.0) -> Result:
        """Has the quorum carry `command` out and returns its result; on return this node has applied it.

        Raises NoQuorum when it was certainly not carried out, OutcomeUnknown when it may have been or may yet be,
        TooManyRequests when the node holds as much as it will.
        """

    async def read_barrier(self) -> int:
        """An index at which everything that was confirmed anywhere before this call is applied. Raises NoQuorum."""

    async def committed(self, index: int) -> None:
        """Returns once read transactions of `store` see everything up to `index`; waits as long as that takes."""

    def status(self) -> ClusterView: ...

    async def add_node(self, node_id: int, address: str, timeout_s: float) -> None:
        """Returns once the node is a member, also if it was one before.

        Raises MemberExists, MembershipChangeInProgress, LeaderNotReady, NoQuorum, OutcomeUnknown, TooManyRequests.
        """

    async def remove_node(self, node_id: int, timeout_s: float) -> None:
        """Returns once the node is no member, also if it was none before.

        Raises QuorumAtRisk, CannotLead, and what add_node raises.
        """

    async def transfer_leadership(self, target: int | None, timeout_s: float) -> None:
        """Returns once `target`, or any other node, leads.

        Raises NodeNotFound, CannotLead, NoQuorum, OutcomeUnknown, TooManyRequests.
        """

    async def ask_worker(self, session: int, execution: int, token: int, timeout_s: float) -> bool | None:
        """Asks the worker that holds this lease to drop the execution.

        True: dropped unbegun, and it never will begin under this token. False: begun. None: no answer in time.
        """
