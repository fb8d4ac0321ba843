"""`raftsched schedule next`."""

import json
from pathlib import Path

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


def test_policies_exclusions_and_bounds_are_taken() -> None:
    berlin = ("--tz", "Europe/Berlin")
    assert ticks("30 2 * * *", *berlin, "--after", "2026-03-28T12:00", "-n", "1", "--gap", "skip") == [
        ("2026-03-30T02:30:00+02:00", "")
    ]
    assert ticks("30 2 * * *", *berlin, "--after", "2026-10-24T12:00", "-n", "2", "--fold", "both") == [
        ("2026-10-25T02:30:00+02:00", "fold, first"),
        ("2026-10-25T02:30:00+01:00", "fold, second"),
    ]
    found = ticks(
        *("0 9 * * *", "0 17 * * *", "--after", "2026-01-01T12:00", "--exclude", "* * * * sat,sun"),
        *("--start", "2026-01-02T10:00Z", "--end", "2026-01-05T17:00Z"),
    )
    assert found == [("2026-01-02T17:00:00+00:00", ""), ("2026-01-05T09:00:00+00:00", "")]


def test_a_calendar_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "days"
    file.write_text("2026-12-25\n2026-12-26\n")
    after = ("0 9 * * 5", "--after", "2026-12-20T00:00", "-n", "1")
    assert ticks(*after, "--calendar", f"{file}:next-open-day") == [("2026-12-27T09:00:00+00:00", "")]
    assert ticks(*after, "--calendar", str(file)) == [("2027-01-01T09:00:00+00:00", "")]


def test_an_h_follows_from_the_name_and_every_counts_from_the_time_asked() -> None:
    after = ("--after", "2026-01-01T00:00", "-n", "1")
    assert ticks("H H * * *", "--name", "nightly", *after) == [("2026-01-01T18:29:00+00:00", "")]
    assert ticks("@every 90s", *after) == [("2026-01-01T00:01:30+00:00", "")]


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
        (("@every 5m", "--exclude", "* * * * 0"), "@every stands alone"),
        (("* * * * *", "--exclude", "61 * * * *"), "exclude[0]"),
        (("* * * * *", "--end", "tomorrow"), "--end"),
        (("* * * * *", "--after", "yesterday"), "--after"),
        (("* * * * *", "--tz", "Europe/Berlin", "--after", "2026-03-29T02:30"), "does not exist"),
        (("* * * * *", "--tz", "Europe/Berlim"), "Europe/Berlin"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(arguments: tuple[str, ...], said: str) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert said in err
