"""Reads crontab files: schedule lines, environment lines, `%` input, user columns, as crontab(5) describes them.

Pure text in, entries and refusals out. Whether an expression makes sense is for the rules of schedules to say.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# Names for expressions in crontab(5).
_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ASSIGNMENT = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^\s='"]+))\s*=\s*(.*)\Z""", re.DOTALL)
_USER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?\Z")

# Variables that other crons act upon; here they only reach the command's environment.
_ONLY_ENVIRONMENT = {
    "MAILTO": "output is not mailed; the shell worker logs it",
    "MAILFROM": "output is not mailed; the shell worker logs it",
    "RANDOM_DELAY": "starts are not delayed by it; see --jitter",
    "CRON_WITHIN": "occurrences are never dropped for being late",
}


@dataclass(frozen=True)
class Entry:
    """One schedule line.

    `expression` has five fields. `time_zone` is "" when no CRON_TZ applies. `user` is None in a user's own crontab.
    `stdin` is what the command is given to read.
    """

    line: int
    text: str
    expression: str
    time_zone: str
    user: str | None
    command: str
    stdin: str
    environment: dict[str, str]


@dataclass(frozen=True)
class Remark:
    """Something to tell the user about a line: why it was refused, or what it does not do here."""

    line: int
    text: str
    reason: str


@dataclass
class Crontab:
    """What a file holds. Lines in `refused` are not among `entries`."""

    entries: list[Entry] = field(default_factory=list)
    refused: list[Remark] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)


class _Unreadable(Exception):
    """The line cannot be taken; the message says why."""


def parse_crontab(content: bytes, *, system: bool) -> Crontab:
    """Reads a whole file. `system`: lines have a user column, as in /etc/crontab and /etc/cron.d."""
    crontab = Crontab()
    environment: dict[str, str] = {}
    for number, text in _numbered_lines(content, crontab):
        try:
            assignment = _parse_assignment(text)
            if assignment is None:
                crontab.entries.append(_parse_entry(number, text, environment, system=system))
                continue
            name, value = assignment
            environment[name] = value
            if name in _ONLY_ENVIRONMENT and value:
                crontab.notes.append(Remark(number, text, f"{name}: {_ONLY_ENVIRONMENT[name]}"))
        except _Unreadable as error:
            crontab.refused.append(Remark(number, text, str(error)))
    return crontab


def split_percent(command: str) -> tuple[str, str]:
    """Splits a command at its first bare `%` into (command, standard input); see crontab(5).

    `\\%` stands for a percent sign in both parts; further bare `%` in the input are line ends.
    """
    head: list[str] = []
    position = 0
    while position < len(command) and command[position] != "%":
        position = _take_character(command, position, head)
    body: list[str] = []
    position += 1
    while position < len(command):
        if command[position] == "%":
            body.append("\n")
            position += 1
        else:
            position = _take_character(command, position, body)
    text = "".join(body)
    if text and not text.endswith("\n"):
        text += "\n"
    return "".join(head), text


def _take_character(command: str, position: int, into: list[str]) -> int:
    """Takes one character, or a backslash with the character after it, of which only `\\%` loses the backslash."""
    if command[position] != "\\" or position + 1 == len(command):
        into.append(command[position])
        return position + 1
    into.append("%" if command[position + 1] == "%" else command[position : position + 2])
    return position + 2


def _numbered_lines(content: bytes, crontab: Crontab) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(content.split(b"\n"), start=1):
        try:
            text = raw.decode().strip(" \t\r")
        except UnicodeDecodeError:
            crontab.refused.append(Remark(number, raw.decode(errors="replace").strip(), "the line is not valid UTF-8"))
            continue
        if "\0" in text:
            crontab.refused.append(Remark(number, text.replace("\0", "\\0"), "the line contains a NUL byte"))
        elif text and not text.startswith("#"):
            yield number, text


def _parse_assignment(text: str) -> tuple[str, str] | None:
    """NAME = value, either part in matching quotes to keep blanks; None when the line is something else."""
    match = _ASSIGNMENT.match(text)
    if match is None:
        return None
    name = next(group for group in match.groups()[:3] if group is not None)
    if not _VARIABLE_NAME.match(name):
        return None
    value = match.group(4)
    if value[:1] not in ("'", '"'):
        return name, value.rstrip()
    end = value.find(value[0], 1)
    if end < 0:
        raise _Unreadable(f"the quote that begins the value of {name} is not closed")
    if value[end + 1 :].strip():
        raise _Unreadable(f"there is text after the quoted value of {name}; a comment may not follow a setting")
    return name, value[1:end]


def _parse_entry(number: int, text: str, environment: dict[str, str], *, system: bool) -> Entry:
    expression, rest = _split_schedule(text)
    user = None
    if system:
        user, rest = _first_word(rest)
        if not _USER_NAME.match(user):
            raise _Unreadable(f"expected a user name after the schedule, found {user!r}")
    if not rest:
        raise _Unreadable("there is no command" + (" after the user name" if system else " after the schedule"))
    command, stdin = split_percent(rest)
    if not command.strip():
        raise _Unreadable("the command is empty before its first %")
    return Entry(number, text, expression, environment.get("CRON_TZ", ""), user, command, stdin, dict(environment))


def _split_schedule(text: str) -> tuple[str, str]:
    """(five-field expression, rest of the line)."""
    if text.startswith("@"):
        nickname, rest = _first_word(text)
        if nickname.lower() == "@reboot":
            raise _Unreadable("@reboot: a cluster does not boot; run this from the machine's own init system")
        expression = _NICKNAMES.get(nickname.lower())
        if expression is None:
            raise _Unreadable(f"unknown schedule {nickname}; known are {', '.join(_NICKNAMES)}")
        return expression, rest
    fields: list[str] = []
    rest = text
    while len(fields) < 5 and rest:
        word, rest = _first_word(rest)
        fields.append(word)
    if not fields[0].startswith(tuple("0123456789*")):
        raise _Unreadable(f"not a schedule, a setting or a comment: a line may not begin with {fields[0]!r}")
    if len(fields) < 5:
        raise _Unreadable(f"a schedule has five fields, this line has {len(fields)}")
    return " ".join(fields), rest


def _first_word(text: str) -> tuple[str, str]:
    """(word, what follows its blanks); two empty strings for blank text."""
    words = text.split(None, 1)
    return (words[0] if words else "", words[1] if len(words) == 2 else "")
