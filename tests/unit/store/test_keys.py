from hypothesis import given
from hypothesis import strategies as st

from raftsched.store import keys

IDS = st.integers(0, keys.MAX_ID)
TIMES = st.integers(0, keys.MAX_MS - 1)


@given(IDS, IDS)
def test_keys_are_in_the_order_of_their_numbers(first: int, second: int) -> None:
    assert (keys.pack_id(first) < keys.pack_id(second)) == (first < second)


@given(st.lists(IDS, max_size=20))
def test_a_column_is_its_keys_joined(ids: list[int]) -> None:
    column = keys.pack_ids(ids)
    assert keys.unpack_ids(column) == tuple(ids)
    assert keys.split_ids(column) == [keys.pack_id(number) for number in ids]


def test_a_range_of_ids_is_packed_in_order() -> None:
    assert keys.pack_id_range(7, 3) == [keys.pack_id(number) for number in (7, 8, 9)]
    assert keys.pack_id_range(7, 0) == []


@given(IDS, TIMES, IDS)
def test_a_due_key_gives_back_what_is_in_it(job: int, due_ms: int, execution: int) -> None:
    key = keys.due(job, due_ms, execution)
    assert key.startswith(keys.due_shard(keys.shard_of(job)))
    assert keys.due_ms_of(key) == due_ms
    assert keys.unpack_id(key[keys.DUE_JOB]) == job
    assert keys.unpack_id(key[keys.DUE_EXECUTION]) == execution


@given(IDS, TIMES, TIMES)
def test_the_bounds_of_a_time_enclose_its_due_rows(job: int, due_ms: int, other_ms: int) -> None:
    key, shard = keys.due(job, due_ms, keys.MAX_ID), keys.shard_of(job)
    assert (key < keys.due_until(shard, other_ms)) == (due_ms <= other_ms)
    assert (key >= keys.due_from(shard, other_ms)) == (due_ms >= other_ms)


def test_shards_take_64_neighbours_each_in_turn() -> None:
    shards = [keys.shard_of(job) for job in range(64 * keys.SHARDS * 2)]
    assert set(shards) == set(range(keys.SHARDS))
    assert shards[:64] == [0] * 64
    assert shards[64] == 1
    assert shards[64 * keys.SHARDS] == 0


def test_lanes_sort_by_queue_then_from_the_highest_priority_down() -> None:
    lanes = [keys.lane(queue, priority, tenant) for queue in (1, 2) for priority in (9, 5, 0) for tenant in (1, 2)]
    assert lanes == sorted(lanes)
    assert [keys.lane_queue(lane) for lane in lanes] == [1] * 6 + [2] * 6
    assert [keys.lane_tenant(lane) for lane in lanes] == [1, 2] * 6
    lane = keys.lane(1, 9, 2, 3, 4, 5)
    assert (len(lane), keys.lane_limited(lane + keys.pack_id(7))) == (keys.LANE_BYTES, (3, 4, 5))
    assert (lane + keys.pack_id(7))[keys.RUN_FIRST] == keys.pack_id(7)


@given(st.binary(max_size=4), st.binary(max_size=6))
def test_after_a_prefix_comes_what_does_not_begin_with_it(prefix: bytes, key: bytes) -> None:
    following = keys.after_prefix(prefix)
    if following is None:
        assert prefix.strip(b"\xff") == b""
    else:
        assert prefix + b"\xff" * 9 < following
        assert not (prefix + key) >= following
        if key >= following:
            assert not key.startswith(prefix)


def test_texts_that_only_join_alike_have_different_keys() -> None:
    assert keys.job_name("ab", "c") != keys.job_name("a", "bc")
    assert keys.idempotency("", "abc") != keys.idempotency("abc", "")


def test_the_longest_texts_make_keys_that_the_store_takes() -> None:
    assert len(keys.job_name("n" * 63, "ü" * 200)) <= keys.MAX_KEY_BYTES
    assert len(keys.idempotency("n" * 63, "ü" * 200)) <= keys.MAX_KEY_BYTES


def test_unpacking_gives_back_what_was_packed() -> None:
    assert keys.unpack_pair(keys.lease(5, 6)) == (5, 6)
    assert keys.unpack_pair(keys.skipped(5, 6)) == (5, 6)
    assert keys.unpack_deadline(keys.deadline(keys.RUN_TIMEOUT, 7, 8, 9)) == (keys.RUN_TIMEOUT, 7, 8, 9)
    assert keys.unpack_tick(keys.tick(3, 4)) == (3, 4)
    assert keys.unpack_starved(keys.starved(3, 4)) == (3, 4)
    assert keys.unpack_dead_letter(keys.dead_letter(1, 2, 3)) == (1, 2, 3)
    assert keys.unpack_small_id(keys.pack_small_id(77)) == 77
