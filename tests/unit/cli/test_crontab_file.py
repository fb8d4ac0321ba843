"""What the crontab reader takes, how it reads it, and what it refuses with which reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.cli.crontab_file import Crontab, parse_crontab, split_percent


def read(text: str, *, system: bool = False) -> Crontab:
    return parse_crontab(text.encode(), system=system)


def the_refusal(text: str, *, system: bool = False) -> str:
    crontab = read(text, system=system)
    assert crontab.entries == []
    assert len(crontab.refused) == 1
    return crontab.refused[0].reason


def test_a_user_crontab_line_is_schedule_and_command() -> None:
    (entry,) = read("5 4 * * sun  echo  'two  blanks'  \n").entries
    assert (entry.line, entry.expression, entry.user, entry.command) == (1, "5 4 * * sun", None, "echo  'two  blanks'")
    assert (entry.stdin, entry.time_zone, entry.environment) == ("", "", {})


def test_a_system_crontab_line_has_a_user_before_the_command() -> None:
    (entry,) = read("17 *\t* * *\troot\tcd / && run-parts x", system=True).entries
    assert (entry.expression, entry.user, entry.command) == ("17 * * * *", "root", "cd / && run-parts x")


def test_comments_and_blank_lines_count_as_lines_and_hold_nothing() -> None:
    crontab = read("# one\n\n   # three\n\t\n0 0 * * * true # part of the command\n")
    (entry,) = crontab.entries
    assert (entry.line, entry.command) == (5, "true # part of the command")
    assert crontab.refused == []


def test_a_setting_holds_for_the_lines_after_it_only() -> None:
    first, second = read("0 0 * * * a\nX=1\nCRON_TZ=Europe/Berlin\n0 0 * * * b\n").entries
    assert (first.environment, first.time_zone) == ({}, "")
    assert (second.environment, second.time_zone) == ({"X": "1", "CRON_TZ": "Europe/Berlin"}, "Europe/Berlin")


def test_tz_is_only_environment() -> None:
    (entry,) = read("TZ=Asia/Tokyo\n0 0 * * * a").entries
    assert (entry.time_zone, entry.environment) == ("", {"TZ": "Asia/Tokyo"})


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("A=b", "A", "b"),
        ("A = b c  ", "A", "b c"),
        ('A="  b "', "A", "  b "),
        ("A = '  b \" ' ", "A", '  b " '),
        ("A=", "A", ""),
        ('MAILTO=""', "MAILTO", ""),
        ('"A" = b', "A", "b"),
        ("'A'=b", "A", "b"),
        ("A=b=c", "A", "b=c"),
        ("A=it's", "A", "it's"),
        ("A=$HOME/bin", "A", "$HOME/bin"),
    ],
)
def test_settings_are_read_with_their_quotes_and_blanks(line: str, name: str, value: str) -> None:
    (entry,) = read(f"{line}\n* * * * * x").entries
    assert entry.environment == {name: value}


def test_a_command_that_assigns_is_a_command() -> None:
    (entry,) = read("*/5 * * * * A=b cmd").entries
    assert entry.command == "A=b cmd"


@pytest.mark.parametrize(
    ("nickname", "expression"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_nicknames_stand_for_their_expressions(nickname: str, expression: str) -> None:
    (entry,) = read(f"{nickname} root cmd", system=True).entries
    assert (entry.expression, entry.user, entry.command) == (expression, "root", "cmd")


@pytest.mark.parametrize(
    ("written", "command", "stdin"),
    [
        ("date", "date", ""),
        ("date +\\%s", "date +%s", ""),
        ("mail joe%Joe,%%Where are your kids?%", "mail joe", "Joe,\n\nWhere are your kids?\n"),
        ("cat%one\\%two", "cat", "one%two\n"),
        ("cat%", "cat", ""),
        ("cat%%", "cat", "\n"),
        (r"printf 'a\nb'%x\y", r"printf 'a\nb'", "x\\y\n"),
        (r"echo \\%in", r"echo \\", "in\n"),
        ("echo \\", "echo \\", ""),
    ],
)
def test_percent_signs_split_off_the_input(written: str, command: str, stdin: str) -> None:
    assert split_percent(written) == (command, stdin)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("@reboot cmd", "does not boot"),
        ("@every_minute cmd", "unknown schedule @every_minute"),
        ("@daily", "there is no command"),
        ("* * * *", "five fields, this line has 4"),
        ("* * * * *", "there is no command after the schedule"),
        ("* * * * * %in", "the command is empty"),
        ("hello world", "may not begin with 'hello'"),
        ("A='b", "the quote that begins the value of A is not closed"),
        ("A='b' # why", "text after the quoted value of A"),
        ("a\0b", "NUL"),
    ],
)
def test_what_it_cannot_take_is_refused_with_the_reason(line: str, reason: str) -> None:
    assert reason in the_refusal(line)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("* * * * * root", "no command after the user name"),
        ("* * * * * [ -x /a ] && b", "expected a user name after the schedule, found '['"),
    ],
)
def test_a_system_line_without_user_or_command_is_refused(line: str, reason: str) -> None:
    assert reason in the_refusal(line, system=True)


def test_a_refused_line_is_numbered_and_the_rest_goes_in() -> None:
    crontab = read("0 0 * * * a\n@reboot b\n0 1 * * * c\n")
    assert [entry.line for entry in crontab.entries] == [1, 3]
    assert [(remark.line, remark.text) for remark in crontab.refused] == [(2, "@reboot b")]


def test_bytes_that_are_not_utf8_spoil_their_line_only() -> None:
    crontab = parse_crontab(b"0 0 * * * echo \xff\n0 0 * * * b\n", system=False)
    assert [entry.line for entry in crontab.entries] == [2]
    assert "UTF-8" in crontab.refused[0].reason


def test_dos_line_ends_are_not_part_of_the_command() -> None:
    (entry,) = read("0 0 * * * a\r\n").entries
    assert entry.command == "a"


def test_mailto_is_noted_unless_it_is_empty() -> None:
    assert "not mailed" in read("MAILTO=root\n").notes[0].reason
    assert read('MAILTO=""\n').notes == []


@given(st.binary(max_size=200), st.booleans())
def test_no_input_breaks_the_reader(content: bytes, system: bool) -> None:
    crontab = parse_crontab(content, system=system)
    for entry in crontab.entries:
        assert len(entry.expression.split()) == 5
        assert entry.command.strip()
        assert bool(entry.user) == system
