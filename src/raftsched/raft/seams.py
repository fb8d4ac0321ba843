"""The one place that knows pysyncobj's private names: SyncObj's own state under readable names, its paths shut off."""

from typing import Any, NoReturn

from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.syncobj import _RAFT_STATE

from raftsched.model.errors import ImpossibleState
from raftsched.raft.config import RaftConfig
from raftsched.raft.log import RaftLog
from raftsched.raft.ports import PeerNode, PeerTransport

FOLLOWER: int = _RAFT_STATE.FOLLOWER
CANDIDATE: int = _RAFT_STATE.CANDIDATE
LEADER: int = _RAFT_STATE.LEADER

# Fields of SyncObj that this project reads or sets. A contract test checks that each exists in the pinned version.
FIELDS = (
    "_SyncObj__selfNode",
    "_SyncObj__otherNodes",
    "_SyncObj__connectedNodes",
    "_SyncObj__raftState",
    "_SyncObj__raftCurrentTerm",
    "_SyncObj__votedForNodeId",
    "_SyncObj__raftLeader",
    "_SyncObj__raftElectionDeadline",
    "_SyncObj__raftLog",
    "_SyncObj__raftCommitIndex",
    "_SyncObj__raftLastApplied",
    "_SyncObj__transport",
)

# Methods of SyncObj that stay in use as they are: they touch neither log, clock, randomness, network nor pickle.
INHERITED = frozenset(
    {
        "__init__",
        "_destroy",
        "_SyncObj__setState",
        "_getConf",
        "_getEncryptor",
        "_getLeader",
        "_getTerm",
        "_isLeader",
        "addOnTickCallback",
        "conf",
        "destroy",
        "doTick",
        "encryptor",
        "getCodeVersion",
        "isNodeConnected",
        "otherNodes",
        "printStatus",
        "_printStatus",
        "raftCommitIndex",
        "raftCurrentTerm",
        "raftLastApplied",
        "readonlyNodes",
        "removeOnTickCallback",
        "selfNode",
        "tick_thread_alive",
        "waitBinded",
        "waitReady",
    }
)


class _Nodes(dict[int, PeerNode]):
    """By number; made when first asked for, since members come and go."""

    def __missing__(self, number: int) -> PeerNode:
        node = self[number] = PeerNode(number)
        return node


class Seams(SyncObj):  # type: ignore[misc]
    """SyncObj with this project's log and transport, and without any of its own ways to act.

    What pysyncobj does by itself and this project does otherwise is either overridden further down the line of
    subclasses or refused here, so that no stock path that could break a promise is left to be reached.
    """

    _SyncObj__selfNode: PeerNode
    _SyncObj__otherNodes: set[PeerNode]
    _SyncObj__connectedNodes: set[PeerNode]
    _SyncObj__raftState: int
    _SyncObj__raftCurrentTerm: int
    _SyncObj__votedForNodeId: int | None
    _SyncObj__raftLeader: PeerNode | None
    _SyncObj__raftElectionDeadline: float
    _SyncObj__raftLog: RaftLog
    _SyncObj__raftCommitIndex: int
    _SyncObj__raftLastApplied: int
    _SyncObj__transport: PeerTransport

    def __init__(self, config: RaftConfig, log: RaftLog, transport: PeerTransport) -> None:
        self._log = log
        self._nodes = _Nodes()
        conf = SyncObjConf(
            autoTick=False,
            raftMinTimeout=config.election_timeout_min_ms / 1000,
            raftMaxTimeout=config.election_timeout_max_ms / 1000,
            appendEntriesPeriod=config.heartbeat_ms / 1000,
            leaderFallbackTimeout=config.leader_fallback_ms / 1000,
            # No journal file of pysyncobj's: it makes an empty one in memory, which is replaced below.
            journalFile=None,
            fullDumpFile=None,
            # Its own way of changing it is replaced: see membership_changes.py.
            dynamicMembershipChange=False,
            useFork=False,
        )
        # The others are set once the membership is known.
        super().__init__(self._nodes[config.node_id], [], conf, transport=transport)
        self._SyncObj__raftLog = log
        self._SyncObj__raftCurrentTerm = log.term
        self._SyncObj__votedForNodeId = log.vote or None
        self._SyncObj__raftCommitIndex = log.commit_index

    # --- SyncObj's state, by this project's names ----------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self._SyncObj__selfNode.number

    @property
    def term(self) -> int:
        return self._SyncObj__raftCurrentTerm

    @property
    def commit_index(self) -> int:
        return self._SyncObj__raftCommitIndex

    @property
    def is_leader(self) -> bool:
        """Whether this node believes to lead. Another may lead by now: see `Replica.read_barrier`."""
        return self._SyncObj__raftState == LEADER

    @property
    def leader_id(self) -> int | None:
        """The leader of `term`, as far as this node has heard."""
        leader = self._SyncObj__raftLeader
        return None if leader is None else leader.number

    @property
    def connected_ids(self) -> frozenset[int]:
        """The peers that messages can be sent to."""
        return frozenset(node.number for node in self._SyncObj__connectedNodes)

    # --- what pysyncobj would do by itself ------------------------------------------------------------------------

    def _refused(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise ImpossibleState("this part of pysyncobj is replaced and must not run")

    # Code versions, pickled commands, membership changes and status by pickled utility messages.
    _applyCommand = _refused
    _checkCommandsToApply = _refused
    _getFuncName = _refused
    setCodeVersion = _refused
    _setCodeVersion = _refused
    addNodeToCluster = _refused
    _addNodeToCluster = _refused
    removeNodeFromCluster = _refused
    _removeNodeFromCluster = _refused
    transferLeadership = _refused
    _transferLeadership = _refused
    _getStatus = _refused
    _SyncObj__callErrCallback = _refused
    _SyncObj__changeCluster = _refused
    _SyncObj__doApplyCommand = _refused
    _SyncObj__doChangeCluster = _refused
    _SyncObj__parseChangeClusterRequest = _refused
    _SyncObj__setCodeVersion = _refused
    _SyncObj__updateClusterConfiguration = _refused
    # A thread of its own, and its poller.
    _autoTickThread = _refused
    destroy_synchronous = _refused
    # The log by positions, replies without a term, snapshots by fork and pickle.
    _SyncObj__connectedToAnyone = _refused
    _SyncObj__deleteEntriesFrom = _refused
    _SyncObj__deleteEntriesTo = _refused
    _SyncObj__getEntries = _refused
    _SyncObj__getPrevLogIndexTerm = _refused
    _SyncObj__loadDumpFile = _refused
    _SyncObj__onLeaderChanged = _refused
    _SyncObj__onReadonlyNodeConnected = _refused
    _SyncObj__onReadonlyNodeDisconnected = _refused
    _SyncObj__sendNextNodeIdx = _refused
    forceLogCompaction = _refused
    _forceLogCompaction = _refused

    def _SyncObj__onSetCodeVersion(self, _version: int) -> None:
        """Called while SyncObj is made; there are no replicated methods to number."""

    def _SyncObj__getCurrentLogIndex(self) -> int:
        return self._log.last_index

    def _SyncObj__getCurrentLogTerm(self) -> int:
        return self._log.last_term

    def _getRaftLogSize(self) -> int:
        return len(self._log)
