"""How the tests share the machine when they run side by side (`tests/run -n 2`)."""

from collections.abc import Generator

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start clusters of processes run one after the other, the others meanwhile beside them.

    Called after that of tests/cluster, which marks them, and before that of xdist, which looks at the groups.
    """
    for item in items:
        if item.get_closest_marker("cluster") is not None:
            item.add_marker(pytest.mark.xdist_group("processes"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Reports travel from process to process as UTF-8, and some tests log what no UTF-8 can hold."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report
