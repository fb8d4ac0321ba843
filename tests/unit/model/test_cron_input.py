"""What stands for H, and what @every asks for."""

import pytest

from raftsched.model.cron import parse_cron
from raftsched.model.cron_input import every_ms, is_hashed, resolved
from raftsched.model.errors import InvalidField
from raftsched.model.limits import DAY_MS, HOUR_MS, MINUTE_MS


def numbers(expression: str, field: int) -> set[int]:
    return {int(resolved(expression, f"job-{seed}").split(" ")[field]) for seed in range(2_000)}


@pytest.mark.parametrize(
    ("field", "allowed"),
    [(0, range(60)), (1, range(60)), (2, range(24)), (3, range(1, 29)), (4, range(1, 13)), (5, range(7))],
)
def test_each_number_of_a_field_is_somebodys(field: int, allowed: range) -> None:
    assert numbers("H H H H H H", field) == set(allowed)


def test_the_same_name_always_gets_the_same_number() -> None:
    # A number that changed with a version of this code would move every job's time.
    assert resolved("H H * * *", "nightly") == "29 18 * * *"
    assert resolved(" h  H * *  H", "nightly") == "29 18 * * 5"


def test_a_range_and_a_step_narrow_it() -> None:
    assert numbers("H(10-14) * * * *", 0) == {10, 11, 12, 13, 14}
    assert {resolved("H/15 * * * *", f"job-{seed}") for seed in range(500)} == {
        f"{first}-59/15 * * * *" for first in range(15)
    }
    assert {resolved("H(0-29)/10 * * * *", f"job-{seed}") for seed in range(500)} == {
        f"{first}-29/10 * * * *" for first in range(10)
    }
    assert {resolved("0 0 * * H(mon-fri)", f"job-{seed}") for seed in range(500)} == {
        f"0 0 * * {day}" for day in range(1, 6)
    }


def test_other_terms_of_a_list_stay() -> None:
    minute = resolved("H * * * *", "a").split(" ")[0]
    assert resolved("5,H,*/20 0 * mar thu", "a") == f"5,{minute},*/20 0 * mar thu"
    assert not is_hashed("0 0 * mar thu")
    assert not is_hashed("@hourly")


def test_what_is_resolved_is_a_cron_expression() -> None:
    for seed in range(200):
        parse_cron(resolved("H/7 H(3-9)/2 H H/5 H", f"job-{seed}"))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("H(5-2) * * * *", "minute `H(5-2)`: the range ends before it begins"),
        ("H(0-99) * * * *", "minute `H(0-99)`: 99 is not 0–59"),
        ("H/0 * * * *", "minute `H/0`: a step is 1–60 here"),
        ("0 H(0-3)/5 * * *", "hour `H(0-3)/5`: a step is 1–4 here"),
    ],
)
def test_a_wrong_h_is_told_what_would_be_right(expression: str, message: str) -> None:
    with pytest.raises(InvalidField) as caught:
        resolved(expression, "nightly")
    assert (caught.value.field, caught.value.message) == ("expression", message)


@pytest.mark.parametrize("expression", ["H() * * * *", "H-5 * * * *", "HH * * * *", "0 0 HW * *", "0 0 * * H#2"])
def test_an_h_that_is_not_understood_is_refused_when_it_is_parsed(expression: str) -> None:
    with pytest.raises(InvalidField):
        parse_cron(resolved(expression, "nightly"))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("@every 90s", 90_000),
        (" @EVERY  5m ", 5 * MINUTE_MS),
        ("@every 1h30m", HOUR_MS + 30 * MINUTE_MS),
        ("@every 2d1s", 2 * DAY_MS + 1_000),
        ("0 2 * * *", None),
        ("@everyday", None),
    ],
)
def test_every_is_a_span_of_time(expression: str, expected: int | None) -> None:
    assert every_ms(expression) == expected


@pytest.mark.parametrize(
    "expression", ["@every", "@every 5", "@every 30m1h", "@every 0s", "@every -5m", "@every 4000d"]
)
def test_a_wrong_span_is_refused(expression: str) -> None:
    with pytest.raises(InvalidField) as caught:
        every_ms(expression)
    assert caught.value.field == "expression"
