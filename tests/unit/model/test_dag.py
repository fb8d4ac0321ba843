import itertools
import random

import pytest

from raftsched.model.dag import Rule, Verdict, indexed, judge, ordered
from raftsched.model.errors import DependencyCycle, UnknownNode
from raftsched.v1 import job_pb2


def _final(rule: Rule, outcomes: tuple[str, ...]) -> bool:
    """Whether the rule is met once all have ended."""
    return {
        Rule.ALL_SUCCESS: all(outcome == "s" for outcome in outcomes),
        Rule.ALL_DONE: True,
        Rule.ANY_SUCCESS: "s" in outcomes,
        Rule.NONE_FAILED: "f" not in outcomes,
    }[rule]


def _judge(rule: Rule, total: int, outcomes: tuple[str, ...]) -> Verdict:
    return judge(rule, total, succeeded=outcomes.count("s"), failed=outcomes.count("f"), skipped=outcomes.count("k"))


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("total", [1, 2, 3])
def test_a_verdict_is_what_every_way_to_go_on_leads_to(rule: Rule, total: int) -> None:
    """MET and NEVER are final; NOT_YET is said only while both ends are possible, or the rest has to end first."""
    for known in range(total + 1):
        for outcomes in itertools.product("sfk", repeat=known):
            ends = {_final(rule, (*outcomes, *rest)) for rest in itertools.product("sfk", repeat=total - known)}
            verdict = _judge(rule, total, outcomes)
            if verdict is Verdict.NEVER:
                assert ends == {False}
            elif verdict is Verdict.MET:
                assert ends == {True}
            else:
                assert known < total
                # That nothing can be met is told at once.
                assert True in ends


def test_any_success_does_not_wait_for_the_others() -> None:
    assert _judge(Rule.ANY_SUCCESS, 3, ("s",)) is Verdict.MET
    assert _judge(Rule.ALL_DONE, 3, ("s", "f")) is Verdict.NOT_YET


def test_rules_have_the_numbers_of_the_api() -> None:
    assert {f"DEPENDENCY_RULE_{rule.name}": int(rule) for rule in Rule} == {
        name: number for name, number in job_pb2.DependencyRule.items() if number
    }


def test_an_order_puts_each_node_after_its_upstreams() -> None:
    rng = random.Random(5)
    for _ in range(50):
        count = rng.randrange(1, 60)
        shuffled = list(range(count))
        rng.shuffle(shuffled)
        upstreams: list[list[int]] = [[] for _ in range(count)]
        for place, number in enumerate(shuffled):
            upstreams[number] = rng.sample(shuffled[:place], min(place, rng.randrange(4)))
        order = ordered(upstreams, [str(number) for number in range(count)], "nodes")
        assert sorted(order) == list(range(count))
        places = {number: place for place, number in enumerate(order)}
        assert all(places[upstream] < places[number] for number in range(count) for upstream in upstreams[number])


@pytest.mark.parametrize(
    ("upstreams", "path", "field"),
    [
        ([[0]], "a -> a", "nodes[0].depends_on"),
        ([[1], [2], [0], [0]], "a -> b -> c -> a", "nodes[0].depends_on"),
        # d waits for the cycle without being in it.
        ([[], [2], [1], [1]], "b -> c -> b", "nodes[1].depends_on"),
    ],
)
def test_a_cycle_is_named(upstreams: list[list[int]], path: str, field: str) -> None:
    with pytest.raises(DependencyCycle) as raised:
        ordered(upstreams, "abcd"[: len(upstreams)], "nodes")
    assert (raised.value.metadata["path"], raised.value.field) == (path, field)
    assert path in raised.value.message


def test_a_long_cycle_is_shown_in_part() -> None:
    count = 10_000
    with pytest.raises(DependencyCycle) as raised:
        ordered([[(number + 1) % count] for number in range(count)], [f"n{n}" for n in range(count)], "nodes")
    assert raised.value.metadata["path"] == (
        "n0 -> n1 -> n2 -> n3 -> n4 -> (9991 more) -> n9996 -> n9997 -> n9998 -> n9999 -> n0"
    )


def test_an_unknown_name_is_told_with_who_asks_for_it_and_what_is_like_it() -> None:
    with pytest.raises(UnknownNode) as raised:
        indexed(["extract", "load"], [[], ["extract", "extrct"]], "nodes")
    assert raised.value.field == "nodes[1].depends_on[1]"
    assert raised.value.message == "load -> extrct: there is no node 'extrct'; did you mean 'extract'?"
    assert raised.value.metadata == {"path": "load -> extrct"}


def test_names_become_positions() -> None:
    assert indexed(["a", "b", "c"], [["c"], [], ["b"]], "nodes") == [[2], [], [1]]
