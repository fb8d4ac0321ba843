"""Options of every command that talks to a cluster: which nodes, how long to wait, tables or JSON.

They may stand before the command (`raftsched --json job list`) or after it.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click
import grpc

from raftsched.cli.failures import USAGE, Failure, reported
from raftsched.cli.values import ADDRESS, DURATION
from raftsched.client import SyncClient
from raftsched.node.config import TlsFiles

DEFAULT_NODES = ("127.0.0.1:7101", "127.0.0.1:7102", "127.0.0.1:7103")
DEFAULT_TIMEOUT_MS = 10_000

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Connection:
    """How to reach the cluster, and how to answer. `nodes` is empty when none were named."""

    nodes: tuple[str, ...] = ()
    timeout_ms: int | None = None
    as_json: bool = False
    tls: TlsFiles | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        """The nodes that were named, else those of `raftsched dev`."""
        return self.nodes or DEFAULT_NODES

    def credentials(self) -> grpc.ChannelCredentials | None:
        """What nodes that speak TLS ask for. Raises Failure for a file that cannot be read."""
        if self.tls is None:
            return None
        try:
            authority, key, certificate = (
                path.read_bytes() for path in (self.tls.authority, self.tls.key, self.tls.certificate)
            )
        except OSError as error:
            raise Failure(f"{error.filename}: {error.strerror}", exit_code=USAGE) from error
        return grpc.ssl_channel_credentials(authority, key, certificate)

    @contextmanager
    def client(self, namespace: str = "") -> Iterator[SyncClient]:
        """A client for the time of a command; its errors end the command with a message and an exit code."""
        with (
            reported(as_json=self.as_json, nodes=self.addresses),
            SyncClient(
                self.addresses,
                namespace or "default",
                timeout_s=(DEFAULT_TIMEOUT_MS if self.timeout_ms is None else self.timeout_ms) / 1000,
                credentials=self.credentials(),
            ) as client,
        ):
            yield client


def connection_options(function: F, *, envvar: str | None = None) -> F:
    """The options themselves, for the main group and for each command.

    Only the main group reads the environment: what a command line says anywhere comes before it.
    """
    function = click.option("--json", "as_json", is_flag=True, help="Answer with one JSON document.")(function)
    function = click.option(
        "--timeout",
        "timeout_ms",
        type=DURATION,
        metavar="DURATION",
        help="How long to try before giving up.  [default: 10s]",
    )(function)
    return node_option(function, envvar=envvar)


def node_option(function: F, *, envvar: str | None = None) -> F:
    """--node alone."""
    return click.option(
        "--node",
        "nodes",
        type=ADDRESS,
        multiple=True,
        envvar=envvar,
        metavar="HOST:PORT",
        help="A node of the cluster; repeat for several, any that answers will do. Else RAFTSCHED_NODES, with blanks "
        "between them, else those of raftsched dev.",
    )(function)


def chosen_connection(nodes: tuple[str, ...] = (), timeout_ms: int | None = None, as_json: bool = False) -> Connection:
    """What a command's own options say, over what was said before the command."""
    general: Connection = click.get_current_context().find_root().obj or Connection()
    return Connection(
        nodes=nodes or general.nodes,
        timeout_ms=general.timeout_ms if timeout_ms is None else timeout_ms,
        as_json=as_json or general.as_json,
        tls=general.tls,
    )


def connects(function: Callable[..., None]) -> Callable[..., None]:
    """For a command: adds the options and hands them over as its first argument, a Connection."""

    @functools.wraps(function)
    def with_connection(*, nodes: tuple[str, ...], timeout_ms: int | None, as_json: bool, **options: Any) -> None:
        function(chosen_connection(nodes, timeout_ms, as_json), **options)

    return connection_options(with_connection)
