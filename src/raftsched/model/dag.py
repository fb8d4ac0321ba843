"""Jobs that depend on each other: whether their graph has an order, and when a job's rule lets it run."""

from collections import deque
from collections.abc import Sequence
from difflib import get_close_matches
from enum import Enum, IntEnum, auto

from raftsched.model.errors import DependencyCycle, UnknownNode

# A path in an error is for people: of a longer one the middle is left out.
_PATH_ENDS = 5


class Rule(IntEnum):
    """When a job that depends on others runs, by the numbers of raftsched.v1.DependencyRule."""

    ALL_SUCCESS = 1
    ALL_DONE = 2
    ANY_SUCCESS = 3
    NONE_FAILED = 4


class Verdict(Enum):
    """What the upstreams that have ended say about the job that waits for them."""

    MET = auto()
    NOT_YET = auto()
    # Not by any of the upstreams that have not ended; only a failed one that succeeds after all may change it.
    NEVER = auto()


def judge(rule: Rule, total: int, *, succeeded: int, failed: int, skipped: int) -> Verdict:
    """Of `total` (≥ 1) upstreams so many have ended in each way; a skipped one neither succeeded nor failed.

    ALL_SUCCESS: each succeeded. ALL_DONE: each ended. ANY_SUCCESS: one succeeded, whatever the others do.
    NONE_FAILED: each ended, none failed.
    """
    ended = succeeded + failed + skipped
    met, lost = {
        Rule.ALL_SUCCESS: (succeeded == total, failed + skipped > 0),
        Rule.ALL_DONE: (ended == total, False),
        Rule.ANY_SUCCESS: (succeeded > 0, ended == total),
        Rule.NONE_FAILED: (ended == total and failed == 0, failed > 0),
    }[rule]
    if met:
        return Verdict.MET
    return Verdict.NEVER if lost else Verdict.NOT_YET


def indexed(names: Sequence[str], depends_on: Sequence[Sequence[str]], field: str) -> list[list[int]]:
    """The upstreams of each node by position. Raises UnknownNode, its field beginning with `field`."""
    positions = {name: number for number, name in enumerate(names)}
    upstreams = []
    for number, wanted in enumerate(depends_on):
        found = []
        for place, name in enumerate(wanted):
            if name not in positions:
                close = get_close_matches(name, names, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise UnknownNode(
                    f"{names[number]} -> {name}: there is no node {name!r}{hint}",
                    field=f"{field}[{number}].depends_on[{place}]",
                    path=f"{names[number]} -> {name}",
                )
            found.append(positions[name])
        upstreams.append(found)
    return upstreams


def ordered(upstreams: Sequence[Sequence[int]], names: Sequence[str], field: str) -> list[int]:
    """The nodes' positions, each after those of its upstreams. Raises DependencyCycle, its field as above."""
    downstreams: list[list[int]] = [[] for _ in upstreams]
    missing = [len(of_node) for of_node in upstreams]
    for number, of_node in enumerate(upstreams):
        for upstream in of_node:
            downstreams[upstream].append(number)
    ready = deque(number for number, count in enumerate(missing) if not count)
    order = []
    while ready:
        number = ready.popleft()
        order.append(number)
        for downstream in downstreams[number]:
            missing[downstream] -= 1
            if not missing[downstream]:
                ready.append(downstream)
    if len(order) < len(upstreams):
        cycle = _cycle(upstreams, missing)
        path = _path_text([names[number] for number in cycle])
        raise DependencyCycle(f"{path} is a cycle", field=f"{field}[{cycle[0]}].depends_on", path=path)
    return order


def _cycle(upstreams: Sequence[Sequence[int]], missing: Sequence[int]) -> list[int]:
    """One among the nodes that cannot be put in order, as each depends on the next; it ends where it begins."""
    at = next(number for number, count in enumerate(missing) if count)
    places: dict[int, int] = {}
    walk: list[int] = []
    while at not in places:
        places[at] = len(walk)
        walk.append(at)
        at = next(upstream for upstream in upstreams[at] if missing[upstream])
    cycle = walk[places[at] :]
    # From the first in the request, so that the text does not depend on where the walk began.
    first = cycle.index(min(cycle))
    cycle = cycle[first:] + cycle[:first]
    return [*cycle, cycle[0]]


def _path_text(names: Sequence[str]) -> str:
    if len(names) > 2 * _PATH_ENDS:
        left_out = f"({len(names) - 2 * _PATH_ENDS} more)"
        names = [*names[:_PATH_ENDS], left_out, *names[-_PATH_ENDS:]]
    return " -> ".join(names)
