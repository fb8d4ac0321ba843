"""Files that describe workflows: JSON, each job with the fields of the SDK's JobSpec."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from raftsched.cli.values import parse_duration_ms, parse_moment_ms, wall_clock_ms
from raftsched.client import (
    Backoff,
    CatchUpPolicy,
    DependencyRule,
    JobSpec,
    Node,
    OverlapPolicy,
    RetryPolicy,
)

# Fields of JobSpec and RetryPolicy that are written as text.
_ENUMS: dict[str, type[StrEnum]] = {"overlap": OverlapPolicy, "catch_up": CatchUpPolicy, "backoff": Backoff}
_NODE_FIELDS = ("name", "job", "depends_on", "rule")
# Nodes depend on each other, not on jobs elsewhere.
_NOT_IN_A_NODE = ("depends_on", "rule")

S = TypeVar("S", JobSpec, RetryPolicy)


def parse_workflow(text: str | bytes) -> list[Node]:
    """The nodes of a file: {"nodes": [{"name": …, "depends_on": […], "rule": …, "job": {"handler": …, …}}]}.

    Durations are written as "5m", times in ISO 8601, as "now" or "in 5m". Raises ValueError, saying where.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    nodes = document.get("nodes") if isinstance(document, dict) else None
    if not isinstance(nodes, list) or len(document) != 1:
        raise ValueError('must be an object with "nodes", a list, and nothing else')
    return [_node(node, f"nodes[{number}]") for number, node in enumerate(nodes)]


def _node(node: Any, where: str) -> Node:
    _check_fields(node, _NODE_FIELDS, where)
    name, depends_on = node.get("name"), node.get("depends_on", [])
    if not isinstance(name, str):
        raise ValueError(f"{where}.name: must be a text")
    if not isinstance(depends_on, list) or not all(isinstance(upstream, str) for upstream in depends_on):
        raise ValueError(f"{where}.depends_on: must be a list of names")
    rule = _member(DependencyRule, node["rule"], f"{where}.rule") if "rule" in node else DependencyRule.UNSPECIFIED
    job = _fields(JobSpec, node.get("job"), f"{where}.job", without=_NOT_IN_A_NODE)
    return Node(name, job, depends_on=depends_on, rule=rule)


def _fields(kind: type[S], given: Any, where: str, *, without: tuple[str, ...] = ()) -> S:
    types = {field.name: str(field.type) for field in dataclasses.fields(kind) if field.name not in ("_", *without)}
    _check_fields(given, types, where)
    if kind is JobSpec and not isinstance(given.get("handler"), str):
        raise ValueError(f"{where}.handler: must be a text")
    return kind(**{name: _value(name, types[name], value, f"{where}.{name}") for name, value in given.items()})


def _value(name: str, type_name: str, value: Any, where: str) -> Any:
    try:
        if name in _ENUMS:
            return _member(_ENUMS[name], value, where)
        if name == "retry":
            return _fields(RetryPolicy, value, where)
        if "timedelta" in type_name:
            return timedelta(milliseconds=parse_duration_ms(str(value)))
        if "datetime" in type_name:
            return _moment(str(value))
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(where) else f"{where}: {text}") from None
    if name != "payload" and "str" in type_name and "Mapping" not in type_name and not isinstance(value, str):
        if not isinstance(value, list):
            raise ValueError(f"{where}: must be a text")
    elif type_name.endswith("'int'>") and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError(f"{where}: must be a whole number")
    return value


def _moment(text: str) -> datetime:
    # A time in the past means now, by the cluster's clock; and it is the same at each repetition of a command.
    moment_ms = 0 if text == "now" else parse_moment_ms(text, None, wall_clock_ms())
    return datetime.fromtimestamp(moment_ms / 1000, UTC)


def _member(kind: type[StrEnum], value: Any, where: str) -> Any:
    known = [member.lower() for member in kind if member != "UNSPECIFIED"]
    if not isinstance(value, str) or value.lower() not in known:
        raise ValueError(f"{where}: must be one of {', '.join(known)}")
    return kind(value.upper())


def _check_fields(given: Any, known: Any, where: str) -> None:
    if not isinstance(given, dict):
        raise ValueError(f"{where}: must be an object")
    for name in given:
        if name not in known:
            raise ValueError(f"{where}.{name}: is not known; there are: {', '.join(sorted(known))}")
