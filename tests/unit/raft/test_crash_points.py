"""Crashes at every step of append, truncate, compact, commit and snapshot install: the node always goes on."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from raftsched.internal.v1 import peer_pb2
from raftsched.raft.log import RaftLog
from tests.unit.raft.solo import Solo, entry
from tests.unit.raft.support import ChainMachine, ManualBackground
from tests.unit.raft.test_hazard_snapshots import chunks_from, leader_with_state


class Crash(BaseException):
    """Not an Exception: nothing may catch it."""


@dataclass
class Failpoints:
    crash_at: int
    count: int = 0
    names: list[str] = field(default_factory=list)

    def hit(self, name: str) -> None:
        self.count += 1
        self.names.append(name)
        if self.count == self.crash_at:
            raise Crash(name)

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            self.hit(f"before {name}")
            result = call(*arguments)
            self.hit(f"after {name}")
            return result

        return wrapped

    def watch(self, solo: Solo) -> None:
        """Every step that changes a disk becomes a place to crash before and after."""
        solo.machine.commit = self.around("state commit", solo.machine.commit)  # type: ignore[method-assign]
        solo.machine.install_snapshot = self.around(  # type: ignore[method-assign]
            "snapshot install", solo.machine.install_snapshot
        )
        self._watch_background("log write", solo.disk)
        self._watch_background("snapshot file", solo.files)

    def _watch_background(self, name: str, background: ManualBackground) -> None:
        submit = background.submit

        def submit_watched(work: Callable[[], Any], done: Callable[..., None]) -> None:
            submit(self.around(name, work), done)

        background.submit = submit_watched  # type: ignore[method-assign]


# What a node goes through: (name, what its leader sends). Each may be sent again, as a leader does.
Step = Callable[[Solo], None]


def story(folder: Path) -> tuple[list[Step], str]:
    """The steps of one follower's life, and the state it must end with."""
    leader = leader_with_state(folder / "leader", commands=30)
    for _ in range(3):
        leader.replica.step_down()
        leader.become_leader()
        leader.accept(2, leader.log.last_index)
        leader.settle()
        leader.tick(after_s=0.2)
    leader.transport.take()
    chunks = chunks_from(leader)
    snapshot = chunks[0].snapshot_chunk
    after = [entry(b"after %d" % number, now_ms=leader.machine.now_ms) for number in range(5)]
    term = leader.replica.term
    early = [(1, entry(b"early %d" % number)) for number in range(8)]

    def grow(solo: Solo) -> None:
        for count in range(8):
            solo.append(prev=count, prev_term=1 if count else 0, entries=early[count : count + 1], commit=min(count, 5))
            solo.settle()

    def overwrite(solo: Solo) -> None:
        others = [(2, entry(b"other %d" % number)) for number in range(4)]
        solo.append(source=3, term=2, prev=6, prev_term=1, entries=others, commit=10)
        solo.settle()

    def install(solo: Solo) -> None:
        for chunk in chunks:
            solo.receive(2, term=term, snapshot_chunk=chunk.snapshot_chunk)
            solo.settle()

    def go_on(solo: Solo) -> None:
        solo.append(
            source=2,
            term=term,
            prev=snapshot.index,
            prev_term=snapshot.index_term,
            entries=[(term, command) for command in after],
            commit=snapshot.index + len(after),
        )
        solo.settle()

    steps: list[Step] = [grow, overwrite, install, go_on]
    reference = Solo(folder / "reference", log_keep_entries=3)
    for step in steps:
        step(reference)
    chain = reference.machine.chain
    assert reference.machine.applied_index == snapshot.index + len(after)
    reference.close()
    leader.close()
    return steps, chain


def die(solo: Solo) -> None:
    """As a killed process: files stay as they are."""
    incoming = solo.replica._receiver._incoming
    if incoming is not None and incoming.file is not None:
        incoming.file.close()
    solo.log._env.close()


def test_a_node_killed_at_any_step_keeps_its_word_and_ends_where_the_others_are(tmp_path: Path) -> None:
    steps, chain = story(tmp_path)
    crash_at, seen = 0, set()
    while True:
        crash_at += 1
        folder = tmp_path / f"crash {crash_at}"
        points = Failpoints(crash_at)
        solo = Solo(folder, log_keep_entries=3)
        points.watch(solo)
        try:
            for step in steps:
                step(solo)
        except Crash as crash:
            seen.add(str(crash))
            answered = [message.append_reply for message in solo.transport.take(body="append_reply")]
            promised = max((reply.match_index for reply in answered if reply.success), default=0)
            term, vote, commit = solo.log.durable_term, solo.log.vote, solo.machine.committed_index
            die(solo)
        else:
            solo.close()
            break
        again = Solo(folder, log_keep_entries=3)
        place = f"crash {crash_at}, {points.names[-1]}"
        assert again.log.last_index >= promised, place
        assert again.log.term >= term, place
        assert again.machine.applied_index >= commit, place
        assert again.log.base_index <= again.machine.applied_index <= again.log.last_index, place
        assert again.log.term_at(again.machine.applied_index) == again.machine.applied_term, place
        assert vote in (0, again.log.vote), place
        for step in steps:
            step(again)
        assert again.machine.chain == chain, place
        assert not list((folder / "snapshots").iterdir()), place
        again.close()
    assert {name.removeprefix("before ").removeprefix("after ") for name in seen} == {
        "state commit",
        "snapshot install",
        "log write",
        "snapshot file",
    }
    assert crash_at > 50


def test_a_log_that_was_reset_after_its_state_is_brought_in_line_at_the_start(tmp_path: Path) -> None:
    machine = ChainMachine(tmp_path / "state.json")
    for index in range(1, 8):
        machine.apply_entry(index, 4, entry(b"%d" % index)[1:])
    machine.commit()
    log = RaftLog(tmp_path / "log")
    log.set_term(5, 3)
    for index in range(1, 10):
        log.append(index, 2, entry(b"x"))
    log.set_commit_index(2)
    log.flush()
    log.close()
    solo = Solo(tmp_path)
    assert (solo.log.base_index, solo.log.base_term, solo.log.last_index) == (7, 4, 7)
    assert (solo.replica.term, solo.log.vote) == (5, 3), "what was promised to candidates stays"
    assert solo.replica.commit_index == 7
    solo.close()


def test_a_state_that_was_lost_comes_back_from_the_leader_and_the_log_stays(tmp_path: Path) -> None:
    """The store was damaged and removed, the log not: the node waits for a snapshot and never leads before."""
    leader = leader_with_state(tmp_path / "leader", commands=30)
    follower = Solo(tmp_path / "follower", log_keep_entries=3)
    for index in range(1, leader.log.last_index + 1):
        one = leader.log.entry(index)
        follower.append(prev=index - 1, prev_term=min(index - 1, 1), entries=[(1, one.command)], commit=index)
        follower.settle()
        follower.tick(after_s=0.2)
    assert follower.log.base_index > 10
    last = follower.log.last_index
    follower.close()
    (tmp_path / "follower" / "state.json").unlink()

    again = Solo(tmp_path / "follower", log_keep_entries=3)
    again.tick(after_s=10)
    assert not again.transport.take(body="vote_request")
    again.append(prev=last, prev_term=1, entries=[], commit=last)
    (answer,) = again.transport.take()
    assert answer.append_reply.needs_snapshot
    for chunk in chunks_from(leader):
        again.replica.receive(2, chunk)
        again.settle()
    again.settle()
    assert again.machine.chain == leader.machine.chain
    assert again.log.last_index == last, "acknowledged entries were not given up"
    leader.close()
    again.close()


def test_a_transfer_goes_on_where_it_was_after_a_lost_chunk(tmp_path: Path) -> None:
    leader = leader_with_state(tmp_path / "leader")
    follower = Solo(tmp_path / "follower")
    chunks = chunks_from(leader)
    for chunk in (chunks[0], *chunks[2:]):
        follower.replica.receive(2, chunk)
        follower.tick()
    answers = [message.snapshot_reply for message in follower.transport.take(body="snapshot_reply")]
    assert answers[0].received == 1_000
    assert all(answer.rewind and answer.received == 1_000 for answer in answers[1:])
    leader.receive(2, snapshot_reply=answers[-1])
    leader.tick()
    (again,) = leader.transport.take(to=2, body="snapshot_chunk")[:1]
    assert again.snapshot_chunk.offset == 1_000
    leader.close()
    follower.close()


def test_a_snapshot_of_an_earlier_term_is_refused(tmp_path: Path) -> None:
    leader = leader_with_state(tmp_path / "leader")
    follower = Solo(tmp_path / "follower")
    follower.append(source=3, term=7, prev=0, prev_term=0, entries=[(7, entry(b"x"))])
    follower.transport.take()
    (chunk, *_) = chunks_from(leader)
    follower.replica.receive(2, chunk)
    follower.tick()
    (answer,) = follower.transport.take(to=2)
    assert answer.term == 7
    assert not answer.snapshot_reply.received
    leader.replica.receive(2, answer)
    assert not leader.replica.is_leader
    leader.close()
    follower.close()


def test_files_of_a_transfer_that_a_crash_ended_are_removed_at_the_start(tmp_path: Path) -> None:
    for name in ("send-1.snapshot", "receive-1.snapshot"):
        (tmp_path / "snapshots").mkdir(exist_ok=True)
        (tmp_path / "snapshots" / name).write_bytes(b"half")
    solo = Solo(tmp_path)
    assert not list((tmp_path / "snapshots").iterdir())
    solo.close()


def test_a_snapshot_that_cannot_be_made_leaves_the_leader_leading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = leader_with_state(tmp_path)

    def fail(_: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(leader.machine, "snapshot_to", fail)
        assert chunks_from(leader) == []
    assert leader.replica.is_leader
    for _ in range(3):
        leader.receive(2, append_reply=peer_pb2.AppendReply(needs_snapshot=True))
        leader.tick(after_s=1)
    with suppress(IndexError):
        assert leader.transport.take(to=2, body="snapshot_chunk")[0].snapshot_chunk.offset == 0
        return
    raise AssertionError("it never tried again")
