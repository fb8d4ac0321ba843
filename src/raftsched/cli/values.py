"""How people write values on the command line, as click parameter types: durations, moments, addresses, pairs.

Durations and moments come out in integer milliseconds.
"""

import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar, cast
from zoneinfo import ZoneInfo

import click

from raftsched.model import zones
from raftsched.model.errors import InvalidField

T = TypeVar("T")

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhdw])")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)\Z")


def parse_duration_ms(text: str) -> int:
    """Reads "90s", "1h30m", "250ms", "1.5h", "2d", "1w". Raises ValueError with what is wrong."""
    compact = text.strip().replace(" ", "")
    parts = _DURATION_PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        hint = f"; did you mean {compact}s?" if compact.isdigit() else ""
        raise ValueError(f"{text!r} is not a duration: write numbers with units, such as 90s, 1h30m, 250ms or 2d{hint}")
    units = [unit for _, unit in parts]
    if len(set(units)) != len(units):
        raise ValueError(f"{text!r} names a unit twice")
    total_ms = sum(Decimal(number) * _UNIT_MS[unit] for number, unit in parts)
    if total_ms != int(total_ms):
        raise ValueError(f"{text!r} is finer than a millisecond")
    return int(total_ms)


def format_duration(duration_ms: int) -> str:
    """The shortest exact form that parse_duration_ms reads back: 5_400_000 -> "1h30m"."""
    if duration_ms <= 0:
        return f"{duration_ms}ms" if duration_ms else "0s"
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, duration_ms = divmod(duration_ms, _UNIT_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def parse_zone(name: str) -> ZoneInfo:
    """An IANA time zone. Raises ValueError when there is none of that name."""
    try:
        return zones.zone(name)
    except InvalidField as error:
        raise ValueError(error.message) from None


def parse_moment_ms(text: str, zone: ZoneInfo | None, now_ms: int) -> int:
    """Reads "now", "in 5m" and ISO 8601; a time without offset is read in `zone`. Raises ValueError.

    A local time that the zone skips or has twice is refused, since only its author knows which instant is meant.
    """
    compact = text.strip()
    if compact == "now":
        return now_ms
    if compact.startswith("in "):
        return now_ms + parse_duration_ms(compact[3:])
    try:
        moment = datetime.fromisoformat(compact)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time: write ISO 8601 such as 2030-01-31T09:00:00Z, or 'in 5m', or 'now'"
        ) from None
    if moment.tzinfo is None:
        if zone is None:
            raise ValueError(f"{text!r} has no UTC offset: add one (Z or +01:00), or give a time zone with --tz")
        first, second = (moment.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if first > second:
            raise ValueError(f"{text!r} does not exist in {zone.key}: clocks go forward over it")
        if first < second:
            raise ValueError(f"{text!r} comes twice in {zone.key}: add the UTC offset that is meant")
        moment = first
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))


def parse_address(text: str) -> str:
    """HOST:PORT, an IPv6 host in brackets. Raises ValueError."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not _HOST.match(host):
        raise ValueError(f"{text!r} is not HOST:PORT (an IPv6 address goes in brackets)")
    if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65_535:
        raise ValueError(f"{text!r} has no port from 1 to 65535")
    return f"{host}:{int(port)}"


def parse_peer(text: str) -> tuple[int, str]:
    """ID=HOST:PORT. Raises ValueError."""
    number, equals, address = text.partition("=")
    if not equals or not number.isascii() or not number.isdigit() or int(number) < 1:
        raise ValueError(f"{text!r} is not ID=HOST:PORT, such as 2=10.0.0.2:7100")
    return int(number), parse_address(address)


def parse_pair(text: str) -> tuple[str, str]:
    """KEY=VALUE. Raises ValueError."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"{text!r} is not KEY=VALUE")
    return key, value


def parse_given(text: str) -> str:
    """Any text but none: an empty one is a variable that was not set, more often than meant. Raises ValueError."""
    if not text:
        raise ValueError("it must not be empty; leave the option out instead")
    return text


class WholeNumber(click.IntRange):
    """An integer within bounds; what is none is told in plain words."""

    name = "number"


def _click_type(parse: Callable[[str], T], name: str) -> Callable[[Any], T]:
    """A click parameter type that shows what the parser has to say."""

    def convert(value: Any) -> T:
        if not isinstance(value, str):
            return cast(T, value)
        try:
            return parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    convert.__name__ = name
    return convert


GIVEN = _click_type(parse_given, "text")
DURATION = _click_type(parse_duration_ms, "duration")
ADDRESS = _click_type(parse_address, "host:port")
PEER = _click_type(parse_peer, "id=host:port")
PAIR = _click_type(parse_pair, "key=value")
ZONE = _click_type(parse_zone, "zone")


def wall_clock_ms() -> int:
    """This machine's clock."""
    return time.time_ns() // 1_000_000


def local_zone_name() -> str:
    """This machine's time zone, as cron would use it: $TZ, else what /etc/localtime links to, else UTC."""
    for name in (os.environ.get("TZ", "").lstrip(":"), os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]):
        if name in zones.zone_names():
            return name
    return "UTC"
