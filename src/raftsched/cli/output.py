"""How values are shown: one JSON document for programs, tables for people.

JSON keys are those of the API. Times are ISO 8601 in UTC; durations are whole milliseconds under `<field>_ms`.
"""

import base64
import dataclasses
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from raftsched.cli.values import format_duration

# Wide enough that nothing is cut when the output goes to a file or a pipe.
_PIPE_WIDTH = 240

_STATE_STYLES = {
    "SUCCEEDED": "green",
    "SERVING": "green",
    "RUNNING": "cyan",
    "LEASED": "cyan",
    "ACTIVE": "cyan",
    "FAILED": "yellow",
    "SNOOZED": "yellow",
    "DRAINING": "yellow",
    "NO_QUORUM": "red",
    "DIVERGED": "red",
    "DEAD_LETTER": "red",
    "UPSTREAM_FAILED": "red",
    "CANCELLED": "dim",
}


def document(value: Any) -> Any:
    """A client value as JSON knows it; see the module for times and durations. Bytes get a text and a base64 form."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        result: dict[str, Any] = {}
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            if isinstance(item, bytes):
                result[field.name] = _text_or_none(item)
                result[f"{field.name}_base64"] = base64.b64encode(item).decode()
            elif isinstance(item, timedelta) or (item is None and "timedelta" in str(field.type)):
                result[f"{field.name}_ms"] = None if item is None else duration_ms(item)
            else:
                result[field.name] = document(item)
        return result
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): document(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [document(item) for item in value]
    return value


def print_json(value: Any) -> None:
    """One document on standard output."""
    click.echo(json.dumps(document(value), indent=2, ensure_ascii=False))


def console() -> Console:
    """Standard output; never narrower than its content when that is not a terminal."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str, title: str = "") -> None:
    """A table for people, or `empty` when there are no rows. Cells are shown as `cell` shows them."""
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    if table.row_count:
        console().print(table)
    else:
        click.echo(empty)


def print_facts(facts: Iterable[tuple[str, Any]]) -> None:
    """Name and value, one a line; those without a value are left out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        if value not in (None, "", (), {}):
            table.add_row(name, cell(value))
    console().print(table)


def cell(value: Any) -> Text:
    """One value for people: local times, durations with units, states in colour. Never read as markup."""
    if isinstance(value, Text):
        return value
    if value is None:
        return Text("-", style="dim")
    if isinstance(value, Enum):
        return Text(str(value.value), style=_STATE_STYLES.get(str(value.value), ""))
    if isinstance(value, datetime):
        return Text(local_time(value))
    if isinstance(value, timedelta):
        return Text(format_duration(duration_ms(value)))
    if isinstance(value, dict):
        return Text(", ".join(f"{key}={item}" for key, item in sorted(value.items())))
    if isinstance(value, list | tuple):
        return Text(", ".join(str(item) for item in value))
    if isinstance(value, bytes):
        text = _text_or_none(value)
        return Text(f"{len(value)} bytes that are not text" if text is None else text)
    return Text(str(value))


def local_time(moment: datetime) -> str:
    """In this machine's zone, with milliseconds where there are any."""
    local = moment.astimezone()
    fraction = f".{local.microsecond // 1000:03d}" if local.microsecond else ""
    return local.strftime(f"%Y-%m-%d %H:%M:%S{fraction} %Z")


def duration_ms(value: timedelta) -> int:
    """Whole milliseconds."""
    return value // timedelta(milliseconds=1)


def shortened(text: str, limit: int = 80) -> str:
    """What of a long text fits a table cell: its beginning, on one line."""
    line = " ".join(text[: 10 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _text_or_none(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
