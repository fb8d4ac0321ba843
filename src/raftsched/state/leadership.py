"""What leaders say of the cluster itself: their arrival, who is a member, and which node dispatches which shard."""

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.state.context import Context
from raftsched.state.results import Done
from raftsched.store import keys, rows


def apply_leader_started(context: Context, command: command_pb2.LeaderStarted) -> Done:
    """No session ends before now plus the grace. Raises InvalidField, having written nothing."""
    if not 0 <= command.session_grace_ms <= limits.HOUR_MS:
        raise InvalidField("is out of range", field="session_grace_ms")
    floor_ms = context.now_ms + command.session_grace_ms
    context.state.session_floor_ms = max(context.state.session_floor_ms, floor_ms)
    return Done()


def apply_membership(context: Context, content: bytes) -> None:
    """Raft acts on it; here it is kept, so that it outlives the log and travels with snapshots."""
    context.membership = context.index, content
    context.writer.put(context.tables.meta, keys.META_MEMBERSHIP, rows.pack_membership(context.index, content))


def apply_assign_shards(context: Context, command: command_pb2.AssignShards) -> Done:
    """Raises InvalidField, having written nothing."""
    if len(command.owners) != keys.SHARDS:
        raise InvalidField(f"does not name {keys.SHARDS} owners", field="owners")
    owners = tuple(command.owners)
    if owners != context.shard_owners:
        context.shard_owners = owners
        context.writer.put(context.tables.meta, keys.META_SHARD_OWNERS, rows.SHARD_OWNERS.pack(*owners))
        context.effects.shards_changed = True
    return Done()
