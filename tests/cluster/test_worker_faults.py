"""Workers are killed and frozen while they run jobs: the work goes to others once the session is over."""

from raftsched.v1 import execution_pb2, job_pb2
from tests.cluster.harness import SESSION_TTL_MS, Cluster
from tests.cluster.ledger import Ledger, timestamp
from tests.cluster.load import ALLOWANCE_MS, finish, start_load, wait_progress
from tests.cluster.processes import now_ms, until

COUNT = 20


def start_long_runs(cluster: Cluster, sleep_ms: int) -> Ledger:
    """COUNT executions that all have begun on the only worker."""
    ledger = Ledger(cluster)
    due_ms = now_ms() + 300
    ledger.batch({f"long-{index}": due_ms for index in range(COUNT)}, sleep_ms=sleep_ms)
    until(lambda: len(cluster.runs()) == COUNT, "all have begun")
    return ledger


def test_what_a_killed_worker_was_running_runs_again_elsewhere(cluster: Cluster) -> None:
    doomed = cluster.start_worker("doomed")
    ledger = start_long_runs(cluster, sleep_ms=2_500)
    doomed.kill()
    cluster.start_worker("heir")
    until(ledger.one_offs_done, "all have run on the other worker", 40.0)
    cluster.wait_drained()

    report = ledger.check(ALLOWANCE_MS)
    assert report.extra_runs == COUNT
    for entry in ledger.entries.values():
        (execution,) = cluster.api.executions(entry.job_id)
        assert execution.state == execution_pb2.EXECUTION_STATE_SUCCEEDED
        # The crash of a worker is not a failure of the job.
        assert (execution.attempt, execution.lost_leases, execution.worker) == (1, 1, "heir")


def test_a_worker_frozen_beyond_its_session_loses_its_leases_and_its_late_acks_do_not_count(cluster: Cluster) -> None:
    frozen = cluster.start_worker("frozen")
    ledger = start_long_runs(cluster, sleep_ms=1_500)
    frozen.freeze()
    frozen_at_ms = now_ms()
    cluster.start_worker("heir")
    until(ledger.one_offs_done, "all have run on the other worker", 40.0)
    assert now_ms() - frozen_at_ms >= SESSION_TTL_MS - 1_000, "leases ended before the session did"
    frozen.thaw()
    # It opens a new session and is of use again.
    ledger.batch({f"later-{index}": now_ms() + 300 for index in range(COUNT)})
    finish(ledger)

    for key, entry in ledger.entries.items():
        (execution,) = cluster.api.executions(entry.job_id)
        if key.startswith("long-"):
            assert execution.worker == "heir"
    until(lambda: cluster.worker_names() >= {"frozen", "heir"}, "the frozen worker has a session again")


def test_every_job_runs_though_workers_are_killed_one_after_the_other(cluster: Cluster) -> None:
    for name in ("worker-1", "worker-2", "worker-3"):
        cluster.start_worker(name)
    ledger = start_load(cluster, seconds=8)
    for name in ("worker-1", "worker-2"):
        wait_progress(ledger, 40)
        cluster.workers[name].kill()
        cluster.workers[name].start()
    finish(ledger)


def test_a_worker_that_is_told_to_stop_finishes_what_it_runs(cluster: Cluster) -> None:
    leaving = cluster.start_worker("leaving")
    ledger = start_long_runs(cluster, sleep_ms=1_500)
    assert leaving.terminate() == 0
    cluster.wait_drained()
    report = ledger.check(ALLOWANCE_MS)
    assert report.extra_runs == 0
    assert ledger.completed() == COUNT


def test_a_handler_that_no_worker_has_fails_by_its_name_and_the_worker_goes_on(cluster: Cluster) -> None:
    cluster.start_worker("worker-1")
    job = job_pb2.Job(handler="nobody.has-this", run_at=timestamp(now_ms()))
    job.retry.max_attempts = 1
    job_id = cluster.api.create(job).job.id

    def dead() -> list[execution_pb2.Execution]:
        executions = cluster.api.executions(job_id)
        return [one for one in executions if one.state == execution_pb2.EXECUTION_STATE_DEAD_LETTER]

    (execution,) = until(dead, "it is among the dead letters")
    assert "nobody.has-this" in execution.error
    ledger = Ledger(cluster)
    ledger.batch({f"after-{index}": now_ms() + 200 for index in range(10)})
    finish(ledger)
