"""Puts the settings of a node together: command line over environment over TOML file, and says which one is wrong."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from raftsched.cli.values import parse_address, parse_duration_ms
from raftsched.model.errors import InvalidField
from raftsched.model.retention import RetentionSettings
from raftsched.node.config import DEFAULT_CLUSTER_ID, NodeConfig, TlsFiles

LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")

_WILDCARDS = {"0.0.0.0", "[::]", "*"}


class SettingsError(Exception):
    """A setting is missing or wrong; the message says which and where it came from."""


def read_settings_file(path: Path) -> dict[str, Any]:
    """The settings of a TOML file, by their names in `combine`. Relative paths are relative to the file.

    Raises SettingsError naming the file and the key.
    """
    try:
        document = tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not TOML: {error}") from error
    settings: dict[str, Any] = {}
    for key, value in document.items():
        read = _KEYS.get(key)
        if read is None:
            raise SettingsError(f"{path}: unknown key {key!r}; known are {', '.join(_KEYS)}")
        try:
            settings.update(read(key, value, path.absolute().parent))
        except ValueError as error:
            raise SettingsError(f"{path}: {error}") from None
    return settings


def combine(given: Mapping[str, Any], from_file: Mapping[str, Any]) -> dict[str, Any]:
    """What was given on the command line or in the environment (not None, not empty), else the file's."""
    return {**from_file, **{name: value for name, value in given.items() if value is not None and value != {}}}


def node_config(settings: Mapping[str, Any]) -> NodeConfig:
    """Checks that all is there and fits together. Raises SettingsError."""
    for name, flag in (("node_id", "--id"), ("data_dir", "--data"), ("listen", "--listen")):
        if name not in settings:
            raise SettingsError(f"{name} is missing: give {flag}, or {name} in the --config file")
    node_id: int = settings["node_id"]
    listen: str = settings["listen"]
    peers: dict[int, str] = dict(settings.get("peers", {}))
    if node_id not in peers:
        if listen.rpartition(":")[0] in _WILDCARDS:
            raise SettingsError(
                f"listen is {listen}, which other nodes cannot connect to: "
                f"give this node's own address too, --peer {node_id}=HOST:PORT"
            )
        peers[node_id] = listen
    try:
        return NodeConfig(
            node_id=node_id,
            data_dir=settings["data_dir"],
            listen=listen,
            peers=dict(sorted(peers.items())),
            cluster_id=settings.get("cluster_id", DEFAULT_CLUSTER_ID),
            tls=_tls_files(settings),
            retention=RetentionSettings(**settings.get("retention", {})),
            **{name: settings[name] for name in _PASSED_ON if name in settings},
        )
    except InvalidField as error:
        raise SettingsError(f"{error.field} {error.message}") from error


def _tls_files(settings: Mapping[str, Any]) -> TlsFiles | None:
    names = ("tls_certificate", "tls_key", "tls_authority")
    missing = [name for name in names if name not in settings]
    if len(missing) == len(names):
        return None
    if missing:
        raise SettingsError(f"TLS needs certificate, key and authority; missing: {', '.join(missing)}")
    for name in names:
        if not settings[name].is_file():
            raise SettingsError(f"{name}: there is no file {settings[name]}")
    return TlsFiles(settings["tls_certificate"], settings["tls_key"], settings["tls_authority"])


# Settings that go to NodeConfig under their own name and have their default there.
_PASSED_ON = ("session_ttl_ms", "started_after_ms", "log_keep_entries", "drain_grace_s", "routes")

_Reader = Callable[[str, Any, Path], dict[str, Any]]


def _integer(key: str, value: Any, _folder: Path) -> dict[str, Any]:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{key} is a whole number, not {value!r}")
    return {key: value}


def _text(key: str, value: Any, _folder: Path) -> dict[str, Any]:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key} is a string, not {value!r}")
    return {key: value}


def _path(key: str, value: Any, folder: Path) -> dict[str, Any]:
    _text(key, value, folder)
    return {key: folder / value}


def _address(key: str, value: Any, folder: Path) -> dict[str, Any]:
    _text(key, value, folder)
    return {key: _with_key(key, parse_address, value)}


def _peers(key: str, value: Any, folder: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f'{key} is a table of node ids and addresses, such as 2 = "10.0.0.2:7100"')
    peers: dict[int, str] = {}
    for number, address in value.items():
        if not number.isascii() or not number.isdigit():
            raise ValueError(f"{key}: {number!r} is not a node id")
        peers |= {int(number): _address(f"{key}.{number}", address, folder)[f"{key}.{number}"]}
    return {key: peers}


def _duration(key: str, value: Any, folder: Path) -> dict[str, Any]:
    _text(key, value, folder)
    duration_ms = _with_key(key, parse_duration_ms, value)
    return {"drain_grace_s": duration_ms / 1000} if key == "drain_grace" else {f"{key}_ms": duration_ms}


def _choice(*choices: str) -> _Reader:
    def read(key: str, value: Any, _folder: Path) -> dict[str, Any]:
        if value not in choices:
            raise ValueError(f"{key} is one of {', '.join(choices)}, not {value!r}")
        return {key: value}

    return read


def _tls(key: str, value: Any, folder: Path) -> dict[str, Any]:
    if not isinstance(value, dict) or not set(value) <= {"certificate", "key", "authority"}:
        raise ValueError(f"{key} is a table with certificate, key and authority")
    settings: dict[str, Any] = {}
    for part, text in value.items():
        settings |= {f"tls_{part}": _path(f"{key}.{part}", text, folder)[f"{key}.{part}"]}
    return settings


def _retention(key: str, value: Any, folder: Path) -> dict[str, Any]:
    known = ("max_age", "max_executions", "request_ids", "dead_letter_quota")
    if not isinstance(value, dict) or not set(value) <= set(known):
        raise ValueError(f"{key} is a table with {', '.join(known)}")
    settings: dict[str, int] = {}
    for part, field in (("max_age", "age_ms"), ("request_ids", "request_id_age_ms")):
        if part in value:
            settings[field] = _duration(f"{key}.{part}", value[part], folder)[f"{key}.{part}_ms"]
    for part, field in (("max_executions", "executions"), ("dead_letter_quota", "dead_letter_quota")):
        if part in value:
            settings[field] = _integer(f"{key}.{part}", value[part], folder)[f"{key}.{part}"]
    return {key: settings}


def _with_key(key: str, parse: Callable[[str], Any], value: str) -> Any:
    try:
        return parse(value)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


_KEYS: dict[str, _Reader] = {
    "node_id": _integer,
    "data_dir": _path,
    "listen": _address,
    "cluster_id": _text,
    "session_ttl": _duration,
    "started_after": _duration,
    "drain_grace": _duration,
    "log_keep_entries": _integer,
    "log_format": _choice(*LOG_FORMATS),
    "log_level": _choice(*LOG_LEVELS),
    "peers": _peers,
    "routes": _peers,
    "tls": _tls,
    "retention": _retention,
}
