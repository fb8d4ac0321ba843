"""How the tests share the machine when they run side by side (`tests/run -n 2`)."""

from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start clusters of processes run one after the other, the others meanwhile beside them.

    First, since xdist looks at the groups before most others have their turn.
    """
    clusters = Path(__file__).parent / "cluster"
    for item in items:
        if item.path.is_relative_to(clusters) or item.get_closest_marker("cluster") is not None:
            item.add_marker(pytest.mark.xdist_group("processes"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Reports travel from process to process as UTF-8, and some tests log what no UTF-8 can hold."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report
