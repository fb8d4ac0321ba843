"""ClusterService: what this node knows of the cluster, verification and backup of what it holds, who is a member."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import cast

from raftsched.api.backup import Backups
from raftsched.api.core_gate import CoreGate
from raftsched.api.grpc_types import Context
from raftsched.api.messages import optional_timestamp, timestamp
from raftsched.api.unknown_fields import refuse_unknown_fields
from raftsched.api.validate import check_node_address, check_node_id
from raftsched.dispatch.cluster_view import ClusterView
from raftsched.internal.v1 import command_pb2
from raftsched.model.zones import database_version
from raftsched.state.queries_cluster import WorkerRecord, counts, kept, list_workers, oldest_due_ms, queue_names
from raftsched.state.results import VerificationStarted
from raftsched.v1 import cluster_pb2, cluster_pb2_grpc, job_pb2


class ClusterService(cluster_pb2_grpc.ClusterServiceServicer):
    """One per server. Answers also while the node serves nothing else, so that operators can see why."""

    def __init__(self, gate: CoreGate) -> None:
        self._gate = gate
        self._core = gate.core
        self._backups = Backups(gate.core)

    async def GetStatus(self, request: cluster_pb2.GetStatusRequest, context: Context) -> cluster_pb2.GetStatusResponse:
        refuse_unknown_fields(request)
        if request.HasField("read"):
            await self._gate.wait_readable(request.read, context)
        known = self._core.status()
        machine = self._core.machine
        with self._core.store.read() as view:
            now = counts(view)
            beside = kept(view)
            oldest = oldest_due_ms(view)
            workers = list_workers(view)
            queues = _queues(queue_names(view), dict(machine.ready_by_queue), workers)
        return cluster_pb2.GetStatusResponse(
            node=known.node_id,
            leader=known.leader_id or 0,
            has_quorum=known.has_quorum,
            term=known.term,
            commit_index=known.commit_index,
            applied_index=known.applied_index,
            first_log_index=known.first_log_index,
            state_digest=known.digest,
            replicated_clock=timestamp(known.now_ms),
            version=known.version,
            nodes=_nodes(known),
            shard_owners=machine.shard_owners,
            queues=queues,
            workers=map(_worker, workers),
            jobs=now.jobs,
            executions=now.executions,
            dead_letters=now.dead_letters,
            oldest_due_time=optional_timestamp(oldest),
            health=cast("cluster_pb2.NodeHealth", known.health),
            cluster_id=known.cluster_id,
            time_zone_database=database_version(),
            alarms=_alarms(now.dead_letters, known.dead_letter_quota),
            kept=cluster_pb2.Kept(
                skipped_ranges=beside.skipped_ranges,
                attempts=beside.attempts,
                request_ids=beside.request_ids,
                dedup_keys=beside.dedup_keys,
                sessions=beside.sessions,
            ),
        )

    async def StartVerification(
        self, request: cluster_pb2.StartVerificationRequest, context: Context
    ) -> cluster_pb2.StartVerificationResponse:
        refuse_unknown_fields(request)
        known = self._core.status().verification
        if known is not None and known.state == cluster_pb2.VERIFICATION_STATE_RUNNING:
            return cluster_pb2.StartVerificationResponse(index=known.index)
        started = await self._gate.submit(command_pb2.Command(verify=command_pb2.Verify()), context)
        assert isinstance(started, VerificationStarted)
        return cluster_pb2.StartVerificationResponse(index=started.index)

    async def GetVerification(
        self,
        request: cluster_pb2.GetVerificationRequest,
        context: Context,  # noqa: ARG002
    ) -> cluster_pb2.GetVerificationResponse:
        refuse_unknown_fields(request)
        known = self._core.status()
        newest = known.verification
        if newest is None:
            return cluster_pb2.GetVerificationResponse(node=known.node_id)
        return cluster_pb2.GetVerificationResponse(
            node=known.node_id,
            index=newest.index,
            state=cast("cluster_pb2.VerificationState", newest.state),
            content_hash=newest.content_hash,
            state_rows=newest.state_rows,
            log_entries=newest.log_entries,
            duration_ms=newest.duration_ms,
            problem=newest.problem,
            same=newest.same,
            other=newest.other,
        )

    async def Backup(
        self, request: cluster_pb2.BackupRequest, context: Context
    ) -> AsyncIterator[cluster_pb2.BackupResponse]:
        refuse_unknown_fields(request)
        # All that any node has confirmed before this call.
        await self._gate.wait_readable(job_pb2.ReadOptions(linearizable=True), context)
        async with aclosing(self._backups.stream()) as pieces:
            async for piece in pieces:
                yield cluster_pb2.BackupResponse(data=piece)

    async def AddNode(self, request: cluster_pb2.AddNodeRequest, context: Context) -> cluster_pb2.AddNodeResponse:
        refuse_unknown_fields(request)
        check_node_id(request.id)
        check_node_address(request.address)
        await self._gate.change(partial(self._core.add_node, request.id, request.address), context)
        return cluster_pb2.AddNodeResponse(nodes=_nodes(self._core.status()))

    async def RemoveNode(
        self, request: cluster_pb2.RemoveNodeRequest, context: Context
    ) -> cluster_pb2.RemoveNodeResponse:
        refuse_unknown_fields(request)
        check_node_id(request.id)
        await self._gate.change(partial(self._core.remove_node, request.id), context)
        return cluster_pb2.RemoveNodeResponse(nodes=_nodes(self._core.status()))

    async def TransferLeadership(
        self, request: cluster_pb2.TransferLeadershipRequest, context: Context
    ) -> cluster_pb2.TransferLeadershipResponse:
        refuse_unknown_fields(request)
        if request.to:
            check_node_id(request.to, "to")
        await self._gate.change(partial(self._core.transfer_leadership, request.to or None), context)
        return cluster_pb2.TransferLeadershipResponse(leader=self._core.status().leader_id or 0)


def _alarms(dead_letters: int, quota: int) -> list[cluster_pb2.Alarm]:
    if not 0 < quota < dead_letters:
        return []
    message = f"{dead_letters:,} dead letters, more than {quota:,}: replay them, or delete their jobs"
    return [cluster_pb2.Alarm(kind=cluster_pb2.ALARM_KIND_DEAD_LETTERS, message=message)]


def _nodes(known: ClusterView) -> list[cluster_pb2.Node]:
    return [
        cluster_pb2.Node(
            id=peer.node_id,
            address=peer.address,
            connected=peer.connected,
            match_index=peer.match_index,
            role=cluster_pb2.NODE_ROLE_VOTER if peer.is_voter else cluster_pb2.NODE_ROLE_LEARNER,
        )
        for peer in known.peers
    ]


def _queues(used: list[str], ready: dict[str, int], workers: list[WorkerRecord]) -> list[cluster_pb2.Queue]:
    """Every queue that a job ever used or a worker serves, in order of name."""
    served = Counter(queue for worker in workers for queue in set(worker.row.queues))
    return [
        cluster_pb2.Queue(name=name, ready=ready.get(name, 0), workers=served[name])
        for name in sorted({*used, *ready, *served})
    ]


def _worker(worker: WorkerRecord) -> cluster_pb2.Worker:
    return cluster_pb2.Worker(
        session=worker.session,
        name=worker.row.worker,
        queues=worker.row.queues,
        leased=worker.leased,
        expire_time=timestamp(worker.row.expiry_ms),
    )
