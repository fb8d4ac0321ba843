"""`raftsched schedule next`."""

import json

import pytest
from click.testing import CliRunner

from raftsched.cli.main import main


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["schedule", "next", *arguments])
    return result.exit_code, result.stdout, result.stderr


def ticks(*arguments: str) -> list[tuple[str, str]]:
    code, out, err = run(*arguments, "--json")
    assert code == 0, err
    return [(tick["tick"], tick["clock_change"]) for tick in json.loads(out)["ticks"]]


def test_a_tick_in_a_gap_is_moved_and_marked() -> None:
    assert ticks("30 2 * * *", "--tz", "Europe/Berlin", "--after", "2026-03-28T12:00", "-n", "2") == [
        ("2026-03-29T03:00:00+02:00", "gap"),
        ("2026-03-30T02:30:00+02:00", ""),
    ]


def test_both_instants_of_a_fold_are_marked() -> None:
    assert ticks("*/30 * * * *", "--tz", "Europe/Berlin", "--after", "2026-10-25T01:31", "-n", "5") == [
        ("2026-10-25T02:00:00+02:00", "fold, first"),
        ("2026-10-25T02:30:00+02:00", "fold, first"),
        ("2026-10-25T02:00:00+01:00", "fold, second"),
        ("2026-10-25T02:30:00+01:00", "fold, second"),
        ("2026-10-25T03:00:00+01:00", ""),
    ]


def test_a_tick_that_falls_on_the_first_instant_after_a_gap_by_itself_is_not_marked() -> None:
    first, *_ = ticks("0 3 * * *", "--tz", "Europe/Berlin", "--after", "2026-03-28T12:00", "-n", "1")
    assert first == ("2026-03-29T03:00:00+02:00", "")


def test_people_get_a_table() -> None:
    code, out, _ = run("0 0 29 2 *", "--after", "2096-03-01T00:00", "-n", "2")
    assert code == 0
    assert "2104-02-29T00:00:00+00:00" in out
    assert "2108-02-29T00:00:00+00:00" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("0 0 31 2 *",), "never"),
        (("61 * * * *",), "expression"),
        (("* * * * *", "--after", "yesterday"), "--after"),
        (("* * * * *", "--tz", "Europe/Berlin", "--after", "2026-03-29T02:30"), "does not exist"),
        (("* * * * *", "--tz", "Europe/Berlim"), "Europe/Berlin"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(arguments: tuple[str, ...], said: str) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert said in err
