"""The examples of schedules in the README answer as it says."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftsched.cli.main import main

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```console\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
# Each command with the lines that follow it.
EXAMPLES = [
    (command, [line.rstrip() for line in answer.splitlines()])
    for block in BLOCKS
    for command, answer in re.findall(r"^\$ raftsched (schedule next .*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize(("command", "answer"), EXAMPLES)
def test_an_example_answers_as_the_readme_says(command: str, answer: list[str]) -> None:
    result = CliRunner().invoke(main, shlex.split(command))
    assert result.exit_code == 0, result.output
    assert [line.rstrip() for line in result.stdout.splitlines()] == answer
