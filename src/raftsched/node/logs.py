"""Logging of a process: one line an event on standard error, as text for people or JSON for programs."""

import logging
import sys
from typing import Literal

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, Processor, WrappedLogger

LogFormat = Literal["text", "json"]


def configure_logging(log_format: LogFormat, level: str, **common: object) -> None:
    """Sends everything logged through `logging` to standard error.

    `level` is a name known to logging, such as "INFO"; `common` (node=2, say) goes into every event, so that the logs
    of several nodes can be put together. `extra` fields become keys of the event. Raises ValueError for a level that
    does not exist.
    """

    def add_common(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {**event, **common}

    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.stdlib.ExtraAdder(),
        add_common,
    ]
    # Tracebacks without local variables: those hold payloads, which are not the operator's to read.
    if log_format == "json":
        traceback = structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
        render: list[Processor] = [traceback, structlog.processors.JSONRenderer(default=str)]
    else:
        colors = sys.stderr.isatty()
        console = structlog.dev.ConsoleRenderer(
            colors=colors, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
        )
        render = [console]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
