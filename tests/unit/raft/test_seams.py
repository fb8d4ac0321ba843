"""The contract with pysyncobj's private names: a version that moves them must fail here, loudly, not in production."""

import hashlib
import inspect
from pathlib import Path

import pysyncobj
import pytest
from pysyncobj import SyncObj
from pysyncobj.journal import Journal
from pysyncobj.syncobj import _COMMAND_TYPE, _RAFT_STATE
from pysyncobj.transport import Transport
from pysyncobj.version import VERSION

from raftsched.model.errors import ImpossibleState
from raftsched.raft import seams
from raftsched.raft.log import RaftLog
from raftsched.raft.ports import PeerTransport
from raftsched.raft.replica import Replica
from raftsched.raft.replica_core import NO_OP, REGULAR
from tests.unit.raft.solo import Solo
from tests.unit.raft.stock import Stock

# Of the source of every stock method that stays in use. When one differs, read it anew before changing this.
INHERITED_DIGEST = "92853d40a4c1c2ed"


def stock_methods() -> set[str]:
    return {name for name in vars(SyncObj) if not name.startswith("__") or name == "__init__"}


def overridden_methods() -> set[str]:
    own = [part for part in Replica.__mro__ if part.__module__.startswith("raftsched.")]
    return {name for part in own for name in vars(part)}


def test_the_version_is_the_one_whose_source_was_read() -> None:
    assert VERSION == "0.3.17"


def test_every_private_field_in_use_is_a_field_of_the_stock_class() -> None:
    missing = set(seams.FIELDS) - set(vars(Stock()))
    assert not missing


def test_every_stock_method_is_either_replaced_or_known_to_be_harmless() -> None:
    unknown = stock_methods() - overridden_methods() - seams.INHERITED
    assert not unknown, "new in this version of pysyncobj, and never looked at"


def test_no_method_is_overridden_that_the_stock_class_no_longer_calls() -> None:
    private = {name for name in overridden_methods() if name.startswith("_SyncObj__")}
    gone = private - stock_methods() - set(seams.FIELDS)
    assert not gone
    assert seams.INHERITED - {"__init__"} <= stock_methods()


def test_the_stock_methods_that_stay_in_use_read_as_they_did() -> None:
    digest = hashlib.sha256()
    for name in sorted(seams.INHERITED):
        member = inspect.getattr_static(SyncObj, name)
        digest.update(inspect.getsource(member.fget if isinstance(member, property) else member).encode())
    assert digest.hexdigest()[:16] == INHERITED_DIGEST


def test_the_log_and_the_transport_have_every_method_that_pysyncobj_calls() -> None:
    assert {name for name in vars(Journal) if not name.startswith("__")} <= {
        name for part in RaftLog.__mro__ for name in vars(part)
    }
    for name in ("add", "clear", "deleteEntriesFrom", "deleteEntriesTo", "__getitem__", "__len__"):
        assert getattr(RaftLog, name) is not getattr(Journal, name)
    assert PeerTransport.send is not Transport.send


def test_roles_and_kinds_of_entries_have_the_stock_numbers() -> None:
    assert (_RAFT_STATE.FOLLOWER, _RAFT_STATE.CANDIDATE, _RAFT_STATE.LEADER) == (0, 1, 2)
    assert (REGULAR[0], NO_OP[0]) == (_COMMAND_TYPE.REGULAR, _COMMAND_TYPE.NO_OP)


def test_a_stock_path_that_was_replaced_refuses_to_run(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    refused = {name for name, member in vars(seams.Seams).items() if member is seams.Seams._refused}
    for name in sorted(refused - {"_refused"}):
        with pytest.raises(ImpossibleState, match="replaced"):
            getattr(solo.replica, name)()
    solo.close()


def test_stock_callbacks_reach_the_replacements(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    assert solo.replica.connected_ids == {2, 3}
    solo.replica.doTick()
    assert solo.replica.getStatus()["leader"] is None
    assert solo.replica._SyncObj__raftLog is solo.log
    solo.transport.disconnect(3)
    assert solo.replica.connected_ids == {2}
    assert pysyncobj.SyncObj in Replica.__mro__
    solo.close()
