"""The work that is under way while a test does harm: one-offs of all kinds and jobs that recur every second or two."""

from raftsched.v1 import job_pb2
from tests.checker import Report
from tests.cluster.harness import Cluster
from tests.cluster.ledger import Ledger
from tests.cluster.processes import now_ms, until

# From due to started, while nodes and workers fail: an election, a session that must end, a backoff, two busy cores.
ALLOWANCE_MS = 20_000


def start_load(cluster: Cluster, *, seconds: int) -> Ledger:
    """One-offs come due over the next `seconds`, the recurring ones go on until they are cancelled."""
    ledger = Ledger(cluster)
    # Every tick must run, whatever happens meanwhile.
    ledger.recurring("every-tick", 2, catch_up=job_pb2.CATCH_UP_POLICY_ALL, overlap=job_pb2.OVERLAP_POLICY_ALLOW)
    # Ticks may be skipped, but only for these reasons and on record.
    ledger.recurring("latest-tick", 1, expected_skips=("CATCH_UP", "OVERLAP"))
    ledger.recurring("slow", 2, sleep_ms=2_500, expected_skips=("CATCH_UP", "OVERLAP"))
    first_ms = now_ms() + 1_000
    spread = [first_ms + index * seconds * 1_000 // 200 for index in range(200)]
    ledger.batch({f"quick-{index}": time_ms for index, time_ms in enumerate(spread)})
    ledger.batch({f"long-{index}": time_ms for index, time_ms in enumerate(spread[::20])}, sleep_ms=1_200)
    ledger.batch({f"failing-{index}": time_ms for index, time_ms in enumerate(spread[::20])}, failures=2)
    ledger.batch({f"burst-{index}": spread[60] for index in range(1_000)})
    return ledger


def wait_progress(ledger: Ledger, more: int, deadline_s: float = 40.0) -> None:
    """Waits until this many more occurrences have run to their end than now."""
    goal = ledger.completed() + more
    until(lambda: ledger.completed() >= goal, f"{more} more occurrences have run", deadline_s, every_s=0.2)


def finish(ledger: Ledger, allowance_ms: int = ALLOWANCE_MS) -> Report:
    """Waits until all that must run has run, ends what recurs, and checks everything."""
    until(ledger.one_offs_done, "every one-off has run to its end", 60.0, every_s=0.3)
    ledger.cancel_recurring()
    ledger.cluster.wait_drained()
    report = ledger.check(allowance_ms)
    print(report.summary())
    assert report.matched_by_run > 0
    ledger.cluster.wait_equal_digests()
    return report
