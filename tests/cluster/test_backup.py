"""A backup of a cluster under load becomes a new cluster, which goes on where the backup was made."""

import json
from pathlib import Path

from raftsched.v1 import execution_pb2, job_pb2
from tests.cluster.commands import command
from tests.cluster.harness import Cluster
from tests.cluster.ledger import Ledger
from tests.cluster.load import start_load, wait_progress
from tests.cluster.processes import until

NEW = "restored"


def restored(backup: Path, folder: Path) -> Cluster:
    """Three nodes of a new cluster, not started, each made from the backup by the command of the manual."""
    cluster = Cluster(folder)
    for number in cluster.nodes:
        config = folder / f"node-{number}.toml"
        config.write_text(f'cluster_id = "{NEW}"\n{config.read_text()}')
        command("restore", backup, "--data", cluster.data_dir(number), "--id", number, "--cluster-id", NEW)
    return cluster


def test_a_backup_under_load_becomes_a_new_cluster(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start_worker("worker-1")
    ledger = start_load(cluster, seconds=60)
    held = ledger.batch({"held": 0}, sleep_ms=600_000)[0]
    wait_progress(ledger, 100)
    executing = until(lambda: cluster.api.executions(held), "the long job was leased")[0]
    confirmed = {key: entry.job_id for key, entry in ledger.entries.items() if entry.job_id}

    file = tmp_path / "cluster.backup"
    made = command("cluster", "backup", "--json", file, nodes=cluster.addresses.values()).document
    assert made["jobs"] >= len(confirmed)
    ledger.batch({"after the backup": 0})

    new = restored(file, tmp_path / "new")
    try:
        new.start()
        told = command("cluster", "verify", "--json", nodes=new.addresses.values()).document
        assert {node["verdict"] for node in told["nodes"]} == {"SAME"}
        assert {status.cluster_id for status in new.statuses().values()} == {NEW}

        there = {job.id: job for job in new.api.list_jobs()}
        for key, job_id in confirmed.items():
            assert json.loads(there[job_id].payload)["key"] == key
        assert not any(b"after the backup" in job.payload for job in there.values())

        # What the old cluster's worker held is leased anew, once that worker's session has ended for want of renewal.
        new.start_worker("new-worker")
        assert new.api.executions(held)[0].id == executing.id
        until(lambda: is_held_by_another(new, held, executing), "what was leased is leased again")
        # Recurring jobs go on, dispatched by nodes of the new cluster: by which depends on the worker's credits.
        run_before = {key: count_ended(new, confirmed[key]) for key in ("every-tick", "latest-tick")}
        until(
            lambda: all(count_ended(new, confirmed[key]) > count for key, count in run_before.items()),
            "recurring jobs run again",
        )
        assert owners_of(new) <= set(new.nodes)
        new.wait_equal_digests()
    finally:
        new.close()
    ledger.cancel_recurring()


def is_held_by_another(cluster: Cluster, job_id: int, before: execution_pb2.Execution) -> bool:
    (now,) = cluster.api.executions(job_id)
    leased = (execution_pb2.EXECUTION_STATE_LEASED, execution_pb2.EXECUTION_STATE_RUNNING)
    return now.state in leased and now.token > before.token


def count_ended(cluster: Cluster, job_id: int) -> int:
    succeeded = execution_pb2.EXECUTION_STATE_SUCCEEDED
    return sum(execution.state == succeeded for execution in cluster.api.executions(job_id))


def owners_of(cluster: Cluster) -> set[int]:
    return set(next(iter(cluster.statuses().values())).shard_owners)


def test_nodes_of_the_old_cluster_and_of_the_new_refuse_each_other(cluster: Cluster, tmp_path: Path) -> None:
    Ledger(cluster).recurring("tick", 1, catch_up=job_pb2.CATCH_UP_POLICY_LATEST)
    file = tmp_path / "cluster.backup"
    command("cluster", "backup", file, nodes=cluster.addresses.values())
    stray = tmp_path / "stray"
    command("restore", file, "--data", stray, "--id", 2, "--cluster-id", NEW)
    victim = cluster.nodes[2]
    victim.terminate()
    # An operator who mixes up folders: the old settings do not open it, and with the new name the old nodes refuse it.
    config = cluster.folder / "node-2.toml"
    settings = config.read_text()
    config.write_text(settings.replace(str(cluster.data_dir(2)), str(stray)))
    victim.start()
    until(lambda: not victim.alive, "the folder of another cluster is refused")
    assert f"belongs to node 2 of cluster '{NEW}'" in victim.tail()

    config.write_text(f'cluster_id = "{NEW}"\n{config.read_text()}')
    victim.start()
    until(lambda: "refuse" in victim.tail(200) or "cluster" in cluster.nodes[1].tail(5), "the nodes refuse each other")
    status = until(lambda: cluster.node(2).status(), "the stray node answers")
    assert not status.has_quorum

    victim.kill()
    config.write_text(settings)
    victim.start()
    cluster.wait_serving()
