"""Which nodes make up the cluster and which of them vote; and which membership counts, by the log's entries."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from google.protobuf.message import DecodeError

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import StoreCorrupt


@dataclass(frozen=True, slots=True)
class Member:
    """`address`: "host:port". Who does not vote is a learner: it gets every entry, but does not count."""

    node_id: int
    address: str
    is_voter: bool


@dataclass(frozen=True)
class Membership:
    """The members by their ids, ascending. Never changed: a change makes a new one."""

    members: Mapping[int, Member]

    @classmethod
    def of_voters(cls, peers: Collection[int]) -> "Membership":
        """What a new cluster begins with; `peers` may map the ids to addresses."""
        addresses = peers if isinstance(peers, Mapping) else dict.fromkeys(peers, "")
        return cls({number: Member(number, addresses[number], is_voter=True) for number in sorted(addresses)})

    @classmethod
    def unpack(cls, content: bytes) -> "Membership":
        """Raises StoreCorrupt."""
        try:
            message = command_pb2.Membership.FromString(content)
        except DecodeError as error:
            raise StoreCorrupt("a membership in the log or the state cannot be read") from error
        members = {one.node: Member(one.node, one.address, one.voter) for one in message.members}
        if not any(member.is_voter for member in members.values()):
            raise StoreCorrupt("a membership in the log or the state has no voters")
        return cls(members)

    def pack(self) -> bytes:
        return command_pb2.Membership(
            members=[
                command_pb2.Member(node=member.node_id, address=member.address, voter=member.is_voter)
                for member in self.members.values()
            ]
        ).SerializeToString()

    @cached_property
    def voters(self) -> frozenset[int]:
        return frozenset(number for number, member in self.members.items() if member.is_voter)

    @cached_property
    def learners(self) -> frozenset[int]:
        return frozenset(self.members) - self.voters

    @cached_property
    def quorum(self) -> int:
        """How many voters decide."""
        return len(self.voters) // 2 + 1

    def with_learner(self, node_id: int, address: str) -> "Membership":
        members = {**self.members, node_id: Member(node_id, address, is_voter=False)}
        return Membership(dict(sorted(members.items())))

    def with_voter(self, node_id: int) -> "Membership":
        """That learner votes from now on."""
        return Membership({**self.members, node_id: replace(self.members[node_id], is_voter=True)})

    def without(self, node_id: int) -> "Membership":
        return Membership({number: member for number, member in self.members.items() if number != node_id})


class MembershipHistory:
    """The membership that counts is the newest in the log, committed or not: Raft's rule for changing it safely.

    Kept is that one, all since the last one applied, and that: the log's end may be taken back, what is applied not.
    """

    def __init__(self, index: int, membership: Membership) -> None:
        """The one applied last, and its entry. Index 0: it is from this node's settings, no entry holds it yet."""
        self._kept = [(index, membership)]

    def __iter__(self) -> Iterator[Membership]:
        return (membership for _, membership in self._kept)

    @property
    def current(self) -> Membership:
        return self._kept[-1][1]

    @property
    def index(self) -> int:
        """Of the entry that `current` is from."""
        return self._kept[-1][0]

    @property
    def applied_index(self) -> int:
        """Of the entry of the last one applied: nothing takes it back."""
        return self._kept[0][0]

    def appended(self, index: int, membership: Membership) -> None:
        self._kept.append((index, membership))

    def truncated(self, index: int) -> bool:
        """The log forgets `index` and what follows. Whether another membership counts now."""
        kept = [one for one in self._kept[1:] if one[0] < index]
        is_changed = len(kept) < len(self._kept) - 1
        self._kept[1:] = kept
        return is_changed

    def applied(self, index: int) -> None:
        """The entry there, which holds a membership, is applied."""
        while len(self._kept) > 1 and self._kept[1][0] <= index:
            del self._kept[0]
