"""ClusterService: what this node knows of the cluster, read in one piece."""

from collections import Counter
from typing import cast

from raftsched.api.core_gate import CoreGate
from raftsched.api.grpc_types import Context
from raftsched.api.messages import optional_timestamp, timestamp
from raftsched.api.unknown_fields import refuse_unknown_fields
from raftsched.dispatch.cluster_view import ClusterView
from raftsched.model.zones import database_version
from raftsched.state.queries_cluster import WorkerRecord, counts, list_workers, oldest_due_ms, queue_names
from raftsched.v1 import cluster_pb2, cluster_pb2_grpc


class ClusterService(cluster_pb2_grpc.ClusterServiceServicer):
    """One per server. Answers also while the node serves nothing else, so that operators can see why."""

    def __init__(self, gate: CoreGate) -> None:
        self._gate = gate
        self._core = gate.core

    async def GetStatus(self, request: cluster_pb2.GetStatusRequest, context: Context) -> cluster_pb2.GetStatusResponse:
        refuse_unknown_fields(request)
        if request.HasField("read"):
            await self._gate.wait_readable(request.read, context)
        known = self._core.status()
        machine = self._core.machine
        with self._core.store.read() as view:
            now = counts(view)
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
        )


def _nodes(known: ClusterView) -> list[cluster_pb2.Node]:
    return [
        cluster_pb2.Node(id=peer.node_id, address=peer.address, connected=peer.connected, match_index=peer.match_index)
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
