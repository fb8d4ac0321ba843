"""Fixtures of the tests with real processes: a cluster for one test, and one that the gentle tests of a run share."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.harness import Cluster

ClusterFactory = Callable[..., Cluster]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Shows the logs of the processes that a failed test used."""
    report = yield
    if report.failed:
        for fixture in getattr(item, "funcargs", {}).values():
            if isinstance(fixture, Cluster):
                report.sections.append(("processes", "\n".join(fixture.logs())))
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes of this test alone. When it passed, they must be alike."""
    cluster = Cluster(tmp_path / "cluster")
    try:
        yield cluster.start()
        cluster.wait_equal_digests()
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def _shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("shared") / "cluster")
    try:
        yield cluster.start()
    finally:
        cluster.close()


@pytest.fixture
def calm_cluster(_shared_cluster: Cluster) -> Iterator[Cluster]:
    """Three nodes without workers, for tests that do them no harm. After each of these the nodes live and are alike."""
    yield _shared_cluster
    for node in _shared_cluster.nodes.values():
        node.require_alive()
    _shared_cluster.wait_equal_digests()
