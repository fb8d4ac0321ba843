"""Reads share a question to the quorum, but never one that was asked before they came."""

import asyncio

import pytest

from raftsched.api.shared_barrier import SharedBarrier
from raftsched.model.errors import NoQuorum


class Quorum:
    """Answers each question when the test says so, with the number of questions asked by then."""

    def __init__(self) -> None:
        self.questions: list[asyncio.Future[int]] = []
        self.barrier = SharedBarrier(self.ask)

    async def ask(self) -> int:
        question: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.questions.append(question)
        return await question

    async def asked(self, count: int) -> None:
        """Lets every task run until it waits; then so many questions have been asked in all."""
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(self.questions) == count

    def read(self) -> asyncio.Task[int]:
        return asyncio.create_task(self.barrier.index())


@pytest.fixture
def quorum() -> Quorum:
    return Quorum()


async def test_reads_that_come_together_ask_once(quorum: Quorum) -> None:
    reads = [quorum.read() for _ in range(100)]
    await quorum.asked(1)
    quorum.questions[0].set_result(7)
    assert [await read for read in reads] == [7] * 100


async def test_a_read_that_comes_later_does_not_use_the_earlier_question(quorum: Quorum) -> None:
    early = quorum.read()
    await quorum.asked(1)
    late = [quorum.read() for _ in range(10)]
    await quorum.asked(1)
    quorum.questions[0].set_result(7)
    assert await early == 7
    await quorum.asked(2)
    assert not any(read.done() for read in late)
    quorum.questions[1].set_result(8)
    assert [await read for read in late] == [8] * 10


async def test_a_read_that_gives_up_leaves_the_answer_to_the_others(quorum: Quorum) -> None:
    gone, patient = quorum.read(), quorum.read()
    await quorum.asked(1)
    gone.cancel()
    await quorum.asked(1)
    quorum.questions[0].set_result(7)
    assert await patient == 7
    assert gone.cancelled()


async def test_a_failure_reaches_all_who_share_it_and_the_next_read_asks_again(quorum: Quorum) -> None:
    reads = [quorum.read() for _ in range(3)]
    await quorum.asked(1)
    quorum.questions[0].set_exception(NoQuorum())
    results = await asyncio.gather(*reads, return_exceptions=True)
    assert all(isinstance(result, NoQuorum) for result in results)
    later = quorum.read()
    await quorum.asked(2)
    quorum.questions[1].set_result(9)
    assert await later == 9


async def test_a_failure_that_nobody_waits_for_any_more_is_no_noise(quorum: Quorum) -> None:
    read = quorum.read()
    await quorum.asked(1)
    read.cancel()
    await quorum.asked(1)
    quorum.questions[0].set_exception(NoQuorum())
    await quorum.asked(1)
