"""What a handler raises reaches the cluster as what it means."""

from datetime import timedelta

import pytest

from raftsched.client import Context, RetryAfter, Snooze, Worker
from raftsched.client.failures import class_names, report_of

from . import handlers_for_processes as handlers
from .scripted_cluster import ScriptedCluster, serving


class Declined(ValueError):
    pass


async def test_a_failure_names_its_class_and_those_it_derives_from() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses)

        @worker.handler("charge")
        async def charge(_context: Context, _payload: bytes) -> None:
            raise Declined("no funds")

        async with serving(worker):
            (entry,) = cluster.add("charge")
            await cluster.until(lambda: bool(entry.errors))
        ((failure,),) = [message.failures for message in cluster.all_messages("fail")]
        assert failure.error_class == f"{__name__}.Declined"
        assert list(failure.error_bases) == ["ValueError", "Exception", "BaseException"]
        assert (failure.retry_after_ms, failure.snooze, failure.permanent) == (0, False, False)


async def test_a_handler_says_when_to_try_again_and_when_it_is_not_yet_time() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses)

        @worker.handler("limited")
        async def limited(_context: Context, _payload: bytes) -> None:
            try:
                raise Declined("429")
            except Declined as error:
                raise RetryAfter(timedelta(minutes=2)) from error

        @worker.handler("early", inline=True)
        def early(_context: Context, _payload: bytes) -> None:
            raise Snooze(0.25, "not before noon")

        worker.handler("process", process=True)(handlers.snooze)
        async with serving(worker):
            for name in ("limited", "early", "process"):
                cluster.add(name)
                await cluster.until(lambda: len(cluster.all_messages("fail")) == len(cluster.entries))
            await cluster.until(lambda: worker.stats.snoozed == 2)
            assert worker.stats.failed == 1
        limited_, early_, process_ = (message.failures[0] for message in cluster.all_messages("fail"))
        assert (limited_.retry_after_ms, limited_.snooze) == (120_000, False)
        # What made it wait is what happened.
        assert limited_.error_class == f"{__name__}.Declined"
        assert "429" in limited_.error
        assert (early_.retry_after_ms, early_.snooze, early_.error) == (250, True, "not before noon")
        assert (process_.retry_after_ms, process_.snooze) == (60_000, True)


@pytest.mark.parametrize("delay", [0, -1.0, timedelta(days=31), 0.0001])
def test_a_delay_that_the_cluster_does_not_take_is_refused_where_it_is_made(delay: float | timedelta) -> None:
    with pytest.raises(ValueError, match="is not from"):
        RetryAfter(delay)
    with pytest.raises(ValueError, match="is not from"):
        Snooze(delay)


def test_a_class_of_a_deep_hierarchy_is_told_within_bounds() -> None:
    kind: type[Exception] = Exception
    for number in range(30):
        kind = type("E" * 300 + str(number), (kind,), {})
    names = class_names(kind())
    assert len(names) == 16
    assert max(map(len, names)) == 200
    assert report_of(kind("x")).classes == names
