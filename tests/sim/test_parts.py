"""The simulator's own parts: order, loss, and what a power loss takes."""

import random
from pathlib import Path

import lmdb
import pytest

from tests.sim.disk import MAP_BYTES, undo_newest_commit
from tests.sim.loop import SimLoop
from tests.sim.network import Connection, Network
from tests.sim.timeline import SECOND_US, Timeline


@pytest.fixture
def timeline() -> Timeline:
    return Timeline()


@pytest.fixture
def network(timeline: Timeline) -> Network:
    return Network(timeline, random.Random(1))


class End:
    """One end of a connection, remembering."""

    def __init__(self, connection: Connection, party: int) -> None:
        self.got: list[int] = []
        self.losses = 0
        connection.listen(party, self.got.append, self._lost)

    def _lost(self) -> None:
        self.losses += 1


def connected(network: Network) -> tuple[Connection, End, End]:
    connection = network.open(1, 2)
    return connection, End(connection, 1), End(connection, 2)


def test_messages_arrive_in_the_order_they_were_sent(timeline: Timeline, network: Network) -> None:
    connection, _, b = connected(network)
    for number in range(100):
        connection.send(1, number)
    timeline.run_until(SECOND_US)
    assert b.got == list(range(100))


def test_a_short_cut_delays_and_a_long_one_breaks(timeline: Timeline, network: Network) -> None:
    connection, a, b = connected(network)
    network.cut([(1, 2)])
    connection.send(1, 7)
    connection.send(2, 8)
    timeline.run_until(SECOND_US)
    assert (a.got, b.got) == ([8], [])
    network.mend()
    timeline.run_until(20 * SECOND_US)
    assert (b.got, a.losses) == ([7], 0)
    network.cut([(2, 1)])
    timeline.run_until(60 * SECOND_US)
    assert connection.is_broken
    assert (a.losses, b.losses) == (1, 1)


def test_what_is_on_its_way_when_a_connection_breaks_is_lost(timeline: Timeline, network: Network) -> None:
    connection, _, b = connected(network)
    connection.send(1, 7)
    connection.break_off()
    timeline.run_until(SECOND_US)
    assert (b.got, b.losses) == ([], 1)


def test_an_end_that_went_away_unheard_is_noticed_when_it_can_be_reached_again(
    timeline: Timeline, network: Network
) -> None:
    connection, a, _ = connected(network)
    network.cut([(2, 1)])
    connection.shut(2)
    network.mend()
    connection.send(1, 7)
    timeline.run_until(SECOND_US)
    assert a.losses == 1


def test_a_stream_that_ends_in_order_delivers_first(timeline: Timeline, network: Network) -> None:
    connection, _, b = connected(network)
    connection.send(1, 7)
    connection.end(1)
    timeline.run_until(SECOND_US)
    assert (b.got, b.losses) == ([7], 1)


def test_events_of_one_moment_happen_in_the_order_they_were_planned(timeline: Timeline) -> None:
    happened: list[int] = []
    for number in range(10):
        timeline.after(5, lambda number=number: happened.append(number))
    timeline.run_until(10)
    assert happened == list(range(10))


def test_a_loop_that_is_paused_runs_what_waited_later(timeline: Timeline) -> None:
    loop, ran = SimLoop(timeline), []
    loop.pause()
    loop.call_later(1.0, lambda: ran.append(timeline.now_us))
    timeline.run_until(5 * SECOND_US)
    assert not ran
    loop.resume()
    timeline.run_until(6 * SECOND_US)
    assert len(ran) == 1
    assert ran[0] >= 5 * SECOND_US


def test_a_power_loss_undoes_the_newest_commit_alone(tmp_path: Path) -> None:
    environment = lmdb.open(str(tmp_path), map_size=MAP_BYTES, metasync=False, lib_version=0)
    for number in range(5):
        with environment.begin(write=True) as txn:
            txn.put(b"%d" % number, b"")
    environment.close()
    assert undo_newest_commit(tmp_path / "data.mdb")
    environment = lmdb.open(str(tmp_path), map_size=MAP_BYTES, lib_version=0)
    with environment.begin() as txn:
        assert [key for key, _ in txn.cursor()] == [b"0", b"1", b"2", b"3"]
    environment.close()
