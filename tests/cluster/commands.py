"""The commands an operator types, run in this process against a cluster of the tests."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner

from raftsched.cli.main import main


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended, and all that it printed."""

    exit_code: int
    output: str

    @property
    def document(self) -> Any:
        return json.loads(self.output)


def command(*arguments: object, nodes: Iterable[str] = (), exit_code: int | None = 0) -> Outcome:
    """Runs `raftsched ARGUMENTS`; `nodes` are addresses for --node. Requires `exit_code` unless that is None."""
    given = [*map(str, arguments), *(f"--node={address}" for address in nodes)]
    result = CliRunner().invoke(main, given)
    if exit_code is not None:
        assert result.exit_code == exit_code, f"raftsched {' '.join(given)}: {result.output}\n{result.exception!r}"
    return Outcome(result.exit_code, result.output)
