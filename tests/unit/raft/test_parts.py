"""The small parts of a replica, each by itself: command queue, reads, state commits, background work."""

import threading
from pathlib import Path

import pytest

from raftsched.model.errors import TooManyRequests
from raftsched.raft.background import InlineBackground, ThreadBackground
from raftsched.raft.command_queue import CommandQueue
from raftsched.raft.config import RaftConfig
from raftsched.raft.progress import Mode, Progress
from raftsched.raft.reads import ReadBarriers
from raftsched.raft.state_commits import StateCommits
from tests.unit.raft.support import ChainMachine, SimClock


def test_the_queue_is_bounded_by_operations_and_by_bytes() -> None:
    queue = CommandQueue(max_ops=10, max_bytes=100)
    queue.put(b"x" * 60, 5, 0.0)
    with pytest.raises(TooManyRequests):
        queue.put(b"x", 6, 0.0)
    with pytest.raises(TooManyRequests):
        queue.put(b"x" * 41, 1, 0.0)
    queue.put(b"y" * 40, 5, 1.0)
    assert queue.take(5, 1_000) == [(b"x" * 60, 5)]
    queue.put(b"z", 5, 2.0)
    assert queue.drop_older(2.0) == 1
    assert queue.take(100, 100) == [(b"z", 5)]
    assert (len(queue), queue.ops) == (0, 0)


def test_reads_that_come_during_a_round_wait_for_the_next() -> None:
    reads = ReadBarriers(max_waiting=10, timeout_s=3.0, ask_again_s=0.6)
    answers: list[tuple[str, int | None]] = []
    reads.add(lambda index: answers.append(("first", index)), 0.0)
    reads.begin_round(1, 7)
    reads.add(lambda index: answers.append(("second", index)), 0.0)
    assert not reads.wants_round
    reads.confirmed(1)
    reads.applied(6)
    assert answers == []
    reads.applied(7)
    assert answers == [("first", 7)]
    assert reads.wants_round
    reads.begin_round(2, 9)
    reads.confirmed(1)
    reads.applied(20)
    assert len(answers) == 1
    reads.confirmed(2)
    reads.applied(20)
    assert answers[1:] == [("second", 20)]


def test_a_question_that_got_no_answer_is_asked_again() -> None:
    reads = ReadBarriers(max_waiting=10, timeout_s=3.0, ask_again_s=0.6)
    answers: list[int | None] = []
    reads.add(answers.append, 0.0)
    first = reads.ask(0.0)
    reads.answered(first, 0)
    reads.expire(0.5)
    assert not reads.wants_leader
    reads.expire(0.6)
    second = reads.ask(0.6)
    reads.answered(first, 5)
    reads.applied(5)
    assert answers == [], "the answer to a question that was given up"
    reads.answered(second, 5)
    reads.applied(5)
    assert answers == [5]


def test_reads_are_bounded() -> None:
    reads = ReadBarriers(max_waiting=2, timeout_s=3.0, ask_again_s=0.6)
    for _ in range(2):
        reads.add(lambda _: None, 0.0)
    with pytest.raises(TooManyRequests):
        reads.add(lambda _: None, 0.0)
    reads.expire(3.0)
    assert len(reads) == 0


class SlowMachine(ChainMachine):
    """Committing takes a while, by the clock given."""

    def __init__(self, path: Path, clock: SimClock) -> None:
        self.clock = clock
        self.commits = 0
        super().__init__(path)

    def commit(self) -> None:
        self.clock.now_s += 0.02
        self.commits += 1
        super().commit()


def test_state_is_committed_when_idle_but_for_a_fifth_of_the_time_at_most(tmp_path: Path) -> None:
    clock = SimClock()
    machine = SlowMachine(tmp_path / "state.json", clock)
    commits = StateCommits(RaftConfig(node_id=1, peers=[1], snapshot_dir=tmp_path), machine, clock)

    def apply() -> None:
        machine.apply_entry(machine.applied_index + 1, 1, b"")
        commits.applied(clock.now_s)

    commits.step(clock.now_s, is_idle=True)
    assert machine.commits == 0, "nothing to commit"
    apply()
    commits.step(clock.now_s, is_idle=True)
    assert machine.commits == 1
    apply()
    commits.step(clock.now_s, is_idle=True)
    assert machine.commits == 1, "it rests for four times what the commit took"
    assert commits.due_s(is_idle=True) == pytest.approx(clock.now_s + 0.08)
    commits.request()
    commits.step(clock.now_s, is_idle=False)
    assert machine.commits == 1
    commits.step(clock.now_s, is_idle=True)
    assert machine.commits == 2, "a reader waits for it"
    assert commits.safe_index == 1
    apply()
    clock.now_s += 0.1
    commits.step(clock.now_s, is_idle=False)
    assert machine.commits == 3, "busy or not, the interval is over"
    apply()
    machine.dirty_ops = 200_000
    commits.step(clock.now_s, is_idle=False)
    assert machine.commits == 4


def test_progress_never_goes_back_on_success_and_starts_over_on_refusal() -> None:
    progress = Progress(next=10, heard_s=0.0)
    assert progress.may_send(100)
    progress.sent(12, 50)
    assert not progress.may_send(100), "a probe waits for its answer"
    progress.accepted(9)
    assert (progress.mode, progress.next) == (Mode.REPLICATE, 10)
    progress.sent(12, 60)
    progress.sent(15, 60)
    assert not progress.may_send(100)
    progress.accepted(12)
    assert (progress.match, progress.next, progress.in_flight_bytes) == (12, 16, 60)
    progress.accepted(11)
    assert (progress.match, progress.next) == (12, 16)
    progress.refused(prev=15, hint=3, last=15)
    assert (progress.mode, progress.match, progress.next) == (Mode.PROBE, 12, 13)
    progress.refused(prev=12, hint=3, last=3)
    assert (progress.match, progress.next) == (0, 4), "it has lost its disk"


def test_inline_work_ends_before_submit_returns() -> None:
    ended: list[tuple[int | None, Exception | None]] = []
    background = InlineBackground()
    background.submit(lambda: 7, lambda result, error: ended.append((result, error)))
    background.submit(lambda: 1 // 0, lambda result, error: ended.append((result, error)))
    background.poll()
    background.close()
    assert ended[0] == (7, None)
    assert isinstance(ended[1][1], ZeroDivisionError)


def test_a_thread_works_in_order_and_its_results_are_taken_by_poll() -> None:
    woken = threading.Semaphore(0)
    background = ThreadBackground(woken.release, name="test")
    ended: list[object] = []
    main = threading.current_thread()

    def done(result: object, error: Exception | None) -> None:
        assert threading.current_thread() is main
        ended.append(error or result)

    for number in range(3):
        background.submit(lambda number=number: (number, threading.current_thread().name), done)
    background.submit(lambda: 1 // 0, done)
    for _ in range(4):
        assert woken.acquire(timeout=10)
    assert ended == []
    background.poll()
    assert ended[:3] == [(0, "test"), (1, "test"), (2, "test")]
    assert isinstance(ended[3], ZeroDivisionError)
    background.close()


def test_a_closed_thread_drops_what_has_not_begun() -> None:
    begun, go_on = threading.Event(), threading.Event()
    background = ThreadBackground(lambda: None, name="test")
    worked: list[int] = []

    def first() -> None:
        begun.set()
        go_on.wait(10)
        worked.append(1)

    background.submit(first, lambda *_: None)
    background.submit(lambda: worked.append(2), lambda *_: None)
    assert begun.wait(10)
    closing = threading.Thread(target=background.close)
    closing.start()
    while not background._closing:
        pass
    go_on.set()
    closing.join(10)
    background.poll()
    assert worked == [1]
