"""A granted block of executions as the message a worker gets."""

from collections.abc import Callable

from raftsched.internal.v1 import command_pb2
from raftsched.state.results import Leased
from raftsched.v1 import worker_pb2


def lease_batch(leased: Leased, profile: Callable[[int], command_pb2.Profile]) -> worker_pb2.LeaseBatch:
    """`profile` gives an interned profile by its id. Columns that say nothing are left empty (see worker.proto)."""
    batch = worker_pb2.LeaseBatch(
        token=leased.token,
        execution_ids=leased.executions,
        job_ids=leased.jobs,
        scheduled_for_ms=leased.scheduled_for_ms,
        payloads=leased.payloads,
    )
    distinct = dict.fromkeys(leased.profiles)
    batch.kinds.extend(job_kind(profile(profile_id)) for profile_id in distinct)
    if len(distinct) > 1:
        index_of = {profile_id: index for index, profile_id in enumerate(distinct)}
        batch.kind_indexes.extend(map(index_of.__getitem__, leased.profiles))
    if max(leased.attempts) > 1:
        batch.attempts.extend(leased.attempts)
    for execution, upstreams in leased.upstreams:
        listed = batch.upstreams.add(execution_id=execution)
        for upstream in upstreams:
            listed.executions.add(node=upstream.node, job_id=upstream.job, execution_id=upstream.execution)
    return batch


def job_kind(profile: command_pb2.Profile) -> worker_pb2.JobKind:
    """What a worker needs to know of a profile."""
    return worker_pb2.JobKind(
        namespace=profile.namespace,
        handler=profile.handler,
        queue=profile.queue,
        content_type=profile.content_type,
        tenant=profile.tenant,
        run_timeout_ms=profile.run_timeout_ms,
        max_attempts=profile.max_attempts,
    )
