"""Credit: as much as handlers can begin soon, spread over the nodes."""

from hypothesis import given
from hypothesis import strategies as st

from raftsched.client.credit import CreditLine, CreditPolicy, spread


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_handlers_that_have_not_finished_anything_lately_prefetch_nothing() -> None:
    clock = Clock()
    policy = CreditPolicy(concurrency=10, limit=4096, clock=clock)
    assert policy.target(0) == 10
    clock.now_s += 1
    assert policy.target(3) == 13
    clock.now_s += 10
    assert policy.target(3) == 10


def test_fast_handlers_get_what_half_a_second_completes_up_to_the_limit() -> None:
    clock = Clock()
    policy = CreditPolicy(concurrency=10, limit=4096, clock=clock)
    completed = 0
    for _ in range(100):
        clock.now_s += 0.02
        completed += 100
        policy.target(completed)
    assert 2_400 <= policy.target(completed) <= 2_700
    for _ in range(100):
        clock.now_s += 0.02
        completed += 10_000
    assert policy.target(completed) == 4096


def test_the_limit_never_starves_the_handlers() -> None:
    assert CreditPolicy(concurrency=500, limit=10).target(0) == 500


@given(st.integers(0, 10_000), st.lists(st.integers(0, 5_000), min_size=1, max_size=7))
def test_all_that_is_free_is_granted_and_as_evenly_as_it_can_be(free: int, outstanding: list[int]) -> None:
    lines = [CreditLine(granted=amount + 7, received=7) for amount in outstanding]
    raised = spread(free, lines)
    grants = [line.outstanding - before for line, before in zip(lines, outstanding, strict=True)]
    assert sum(grants) == free
    assert all(grant >= 0 for grant in grants)
    assert {id(line) for line in raised} == {id(line) for line, grant in zip(lines, grants, strict=True) if grant}
    if free:
        level = max(line.outstanding for line, grant in zip(lines, grants, strict=True) if grant)
        assert all(line.outstanding >= level - len(lines) for line in lines)
