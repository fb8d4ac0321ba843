"""What a process logs."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from raftsched.node.logs import LogFormat, configure_logging


@pytest.fixture(autouse=True)
def _restore_root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(monkeypatch: pytest.MonkeyPatch, log_format: LogFormat) -> io.StringIO:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    configure_logging(log_format, "INFO", node=2)
    return stream


def test_json_lines_carry_the_node_and_every_extra_field(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = lines(monkeypatch, "json")
    logging.getLogger("raftsched.execution").info("attempt %d failed", 3, extra={"execution": 7, "token": 9})
    (event,) = map(json.loads, stream.getvalue().splitlines())
    assert event["event"] == "attempt 3 failed"
    assert (event["node"], event["execution"], event["token"], event["level"]) == (2, 7, 9, "info")
    assert event["timestamp"].endswith("Z")


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_tracebacks_do_not_show_what_variables_held(monkeypatch: pytest.MonkeyPatch, log_format: LogFormat) -> None:
    stream = lines(monkeypatch, log_format)

    def handle(payload: str) -> None:
        raise RuntimeError(f"could not handle {len(payload)} bytes")

    try:
        handle("card number " + "4711")
    except RuntimeError:
        logging.getLogger("x").exception("it failed")
    assert "could not handle 16 bytes" in stream.getvalue()
    assert "card number 4711" not in stream.getvalue()


def test_levels_are_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = lines(monkeypatch, "text")
    logging.getLogger("x").debug("quiet")
    assert stream.getvalue() == ""
