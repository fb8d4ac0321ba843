"""`raftsched node`: one node of a cluster, in the foreground."""

from pathlib import Path
from typing import Any

import click

from raftsched.cli.data_folder import claimed
from raftsched.cli.failures import USAGE, Failure, reported
from raftsched.cli.node_settings import (
    LOG_FORMATS,
    LOG_LEVELS,
    SettingsError,
    combine,
    node_config,
    read_settings_file,
)
from raftsched.cli.values import ADDRESS, DURATION, PEER
from raftsched.model.errors import ImpossibleState, RaftschedError, StoreCorrupt
from raftsched.node.config import NodeConfig
from raftsched.node.logs import configure_logging

_PATH = click.Path(path_type=Path)


@click.command("node", context_settings={"auto_envvar_prefix": "RAFTSCHED"})
@click.option(
    "--id", "node_id", type=int, envvar="RAFTSCHED_NODE_ID", help="This node's number in the cluster, from 1."
)
@click.option("--data", "data_dir", type=_PATH, envvar="RAFTSCHED_DATA", help="Folder for its log and state.")
@click.option("--listen", type=ADDRESS, metavar="HOST:PORT", help="Where it takes calls, from clients and nodes.")
@click.option(
    "--peer",
    "peers",
    type=PEER,
    multiple=True,
    envvar="RAFTSCHED_PEERS",
    metavar="ID=HOST:PORT",
    help="A node of the cluster and where others reach it; repeat for each. This node may be left out when --listen "
    "is an address that others can connect to.",
)
@click.option("--config", "config_file", type=_PATH, help="TOML file with these settings; see below.")
@click.option("--cluster-id", help="Nodes of different clusters refuse each other.  [default: raftsched]")
@click.option(
    "--session-ttl",
    "session_ttl_ms",
    type=DURATION,
    metavar="DURATION",
    help="A worker that is silent for so long has lost its leases.  [default: 10s]",
)
@click.option("--tls-certificate", type=_PATH, help="PEM file: this node's certificate.")
@click.option("--tls-key", type=_PATH, help="PEM file: its private key.")
@click.option("--tls-authority", type=_PATH, help="PEM file: the authority that signs every node and client.")
@click.option("--log-format", type=click.Choice(LOG_FORMATS), help="[default: text]")
@click.option("--log-level", type=click.Choice(LOG_LEVELS), help="[default: info]")
def node(config_file: Path | None, peers: tuple[tuple[int, str], ...], **options: Any) -> None:
    """Run one node of a cluster, in the foreground, until SIGTERM or Ctrl-C.

    On SIGTERM it drains: it takes no new calls, hands its work to the other nodes, and ends with exit code 0.
    SIGKILL loses nothing either: what was confirmed is on a majority's disks.

    \b
    Three nodes on one machine, each in a terminal of its own:
      raftsched node --id 1 --data d1 --listen 127.0.0.1:7101 --peer 2=127.0.0.1:7102 --peer 3=127.0.0.1:7103
      raftsched node --id 2 --data d2 --listen 127.0.0.1:7102 --peer 1=127.0.0.1:7101 --peer 3=127.0.0.1:7103
      raftsched node --id 3 --data d3 --listen 127.0.0.1:7103 --peer 1=127.0.0.1:7101 --peer 2=127.0.0.1:7102

    \b
    The same as a file, for --config (paths are relative to the file):
      node_id = 1
      data_dir = "/var/lib/raftsched"
      listen = "0.0.0.0:7100"
      cluster_id = "production"
      log_format = "json"
      [peers]
      1 = "10.0.0.1:7100"
      2 = "10.0.0.2:7100"
      3 = "10.0.0.3:7100"
      [tls]
      certificate = "node.pem"
      key = "node.key"
      authority = "authority.pem"

    The file also takes log_level, session_ttl, started_after, drain_grace, log_keep_entries, and in a table
    [retention] max_age, max_executions, request_ids and dead_letter_quota. An option or
    its environment variable (RAFTSCHED_NODE_ID, RAFTSCHED_DATA, RAFTSCHED_LISTEN, RAFTSCHED_PEERS with blanks
    between them, and RAFTSCHED_ with the option's name for the others) comes before the file.

    \b
    Exit codes: 0 drained, 1 could not start or had to stop (the last lines of the log say why), 2 wrong settings.
    """
    with reported(as_json=False):
        try:
            if len({number for number, _ in peers}) != len(peers):
                raise SettingsError("--peer names the same node twice")
            from_file = read_settings_file(config_file) if config_file else {}
            settings = combine({**options, "peers": dict(peers)}, from_file)
            config = node_config(settings)
        except SettingsError as error:
            raise Failure(str(error), exit_code=USAGE) from error
        level = settings.get("log_level", "info").upper()
        configure_logging(settings.get("log_format", "text"), level, node=config.node_id)
        try:
            with claimed(config.data_dir, config.node_id, config.cluster_id):
                _run(config)
        except (StoreCorrupt, ImpossibleState) as error:
            advice = f"have the other nodes rebuild this one: raftsched repair --data {config.data_dir}, then start it "
            advice += "again (cluster/README.md, Repair)"
            if isinstance(error, ImpossibleState):
                # All nodes that meet it are alike: then their disks are not to blame, and nobody could rebuild them.
                advice += "; but if the other nodes stop like this too, it is no damage: keep their folders as they are"
            raise Failure(error.message, reason=error.reason, advice=advice) from error
        except RaftschedError as error:
            raise Failure(error.message, reason=error.reason, field=error.field) from error
        except OSError as error:
            raise Failure(str(error)) from error


def _run(config: NodeConfig) -> None:
    # Imported here so that the commands which only ask a cluster start without Raft and the store.
    from raftsched.api.run import run_node

    run_node(config)
