from collections.abc import Iterator

import pytest

from tests.unit.cli.conftest import CommandLine, until

pytestmark = pytest.mark.cluster
NOWHERE = "127.0.0.1:9"


@pytest.fixture
def with_learner(cli: CommandLine) -> Iterator[CommandLine]:
    """Node 2 is added, and never comes."""
    cli.text("cluster", "add", f"2={NOWHERE}")
    yield cli
    cli.text("cluster", "remove", "2")


def test_a_node_that_was_added_is_a_learner_until_it_comes(with_learner: CommandLine) -> None:
    again = with_learner.document("cluster", "add", f"2={NOWHERE}")
    assert [(node["id"], node["role"]) for node in again["nodes"]] == [(1, "VOTER"), (2, "LEARNER")]
    assert "it votes once it has caught up" in with_learner.text("cluster", "add", f"2={NOWHERE}")
    result = with_learner.run("cluster", "status")
    assert result.exit_code == 1
    assert "does not answer" in result.stdout


def test_what_is_refused_says_why_and_what_to_do(with_learner: CommandLine) -> None:
    code, error = with_learner.failure("cluster", "add", "3=127.0.0.1:8")
    assert (code, error["reason"]) == (4, "MEMBERSHIP_CHANGE_IN_PROGRESS")
    assert "cluster status" in error["advice"]
    assert with_learner.failure("cluster", "add", "2=127.0.0.1:8")[1]["reason"] == "MEMBER_EXISTS"
    assert with_learner.failure("cluster", "remove", "1")[1]["reason"] == "QUORUM_AT_RISK"
    assert with_learner.failure("cluster", "transfer", "2")[1]["reason"] == "CANNOT_LEAD"
    code, error = with_learner.failure("cluster", "transfer", "9")
    assert (code, error["reason"]) == (3, "NODE_NOT_FOUND")
    code, error = with_learner.failure("cluster", "add", "4=0.0.0.0:1")
    assert (code, error["field"]) == (2, "address")


def test_a_node_that_is_no_member_is_removed_already(cli: CommandLine) -> None:
    answer = cli.document("cluster", "remove", "7")
    assert [node["id"] for node in answer["nodes"]] == [1]
    assert "node 7 is not a member" in cli.text("cluster", "remove", "7")


def test_leadership_stays_where_it_is_asked_to_be(cli: CommandLine) -> None:
    until(lambda: cli.run("cluster", "status").exit_code == 0, "the cluster is itself again")
    assert cli.document("cluster", "transfer", "1") == {"leader": 1}
    assert cli.text("cluster", "transfer", "1") == "node 1 leads\n"
