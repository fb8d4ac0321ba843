"""How durations, moments, addresses and zones are read from the command line."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.cli import values

NOW_MS = 1_900_000_000_000


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("1h 30m", 5_400_000),
        ("1.5h", 5_400_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("250ms", 250),
        ("2.3s", 2_300),
        ("0.001s", 1),
        ("0s", 0),
    ],
)
def test_a_duration_is_numbers_with_units(text: str, duration_ms: int) -> None:
    assert values.parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "90", "s", "-5s", "1h1h", "5 parsecs", "1e3s", "NaN", "inf", "0.0001s", "٣s"])
def test_anything_else_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|twice|finer"):
        values.parse_duration_ms(text)


def test_a_bare_number_is_answered_with_a_guess() -> None:
    with pytest.raises(ValueError, match="did you mean 90s"):
        values.parse_duration_ms("90")


@given(st.integers(min_value=0, max_value=10**12))
def test_a_written_duration_reads_back(duration_ms: int) -> None:
    assert values.parse_duration_ms(values.format_duration(duration_ms)) == duration_ms


def iso_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "zone", "expected_ms"),
    [
        ("now", None, NOW_MS),
        ("in 5m", None, NOW_MS + 300_000),
        ("2030-01-31T09:00:00Z", None, iso_ms("2030-01-31T09:00:00+00:00")),
        ("2030-01-31T09:00:00.250+05:30", None, iso_ms("2030-01-31T03:30:00.250+00:00")),
        ("2030-01-31 09:00", "Europe/Berlin", iso_ms("2030-01-31T08:00:00+00:00")),
        ("2026-10-25T02:30+01:00", "Europe/Berlin", iso_ms("2026-10-25T01:30:00+00:00")),
    ],
)
def test_a_moment_is_now_or_relative_or_iso(text: str, zone: str | None, expected_ms: int) -> None:
    parsed_zone = values.parse_zone(zone) if zone else None
    assert values.parse_moment_ms(text, parsed_zone, NOW_MS) == expected_ms


@pytest.mark.parametrize(
    ("text", "zone", "reason"),
    [
        ("2030-01-31T09:00", None, "no UTC offset"),
        ("2026-03-29T02:30", "Europe/Berlin", "does not exist in Europe/Berlin"),
        ("2026-10-25T02:30", "Europe/Berlin", "comes twice in Europe/Berlin"),
        ("tomorrow", None, "is not a time"),
        ("in a while", None, "is not a duration"),
        ("2030-13-01T00:00Z", None, "is not a time"),
    ],
)
def test_a_moment_that_could_mean_several_or_none_is_refused(text: str, zone: str | None, reason: str) -> None:
    parsed_zone = values.parse_zone(zone) if zone else None
    with pytest.raises(ValueError, match=reason):
        values.parse_moment_ms(text, parsed_zone, NOW_MS)


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", "/etc/localtime"])
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a time zone"):
        values.parse_zone(name)


@pytest.mark.parametrize("text", ["127.0.0.1:7100", "node-1.example.org:1", "[::1]:65535"])
def test_an_address_is_host_and_port(text: str) -> None:
    assert values.parse_address(text) == text


@pytest.mark.parametrize("text", ["", "host", "host:", ":7100", "host:0", "host:65536", "host:x", "::1:7100", "a b:1"])
def test_anything_else_is_not_an_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|port"):
        values.parse_address(text)


@pytest.mark.parametrize("text", ["host:1", "0=host:1", "-1=host:1", "x=host:1", "1=host"])
def test_a_peer_is_number_and_address(text: str) -> None:
    assert values.parse_peer("2=host:1") == (2, "host:1")
    with pytest.raises(ValueError, match=r"ID=HOST:PORT|HOST:PORT"):
        values.parse_peer(text)
