"""A data folder is held by one process and belongs to one node."""

import multiprocessing
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from raftsched.cli.data_folder import IDENTITY_FILE, claimed
from raftsched.cli.failures import Failure


def test_a_folder_is_made_for_its_owner_only(tmp_path: Path) -> None:
    with claimed(tmp_path / "new" / "data", 1, "c"):
        pass
    assert (tmp_path / "new" / "data").stat().st_mode & 0o777 == 0o700


def test_the_same_node_may_have_its_folder_again(tmp_path: Path) -> None:
    for _ in range(2):
        with claimed(tmp_path, 1, "c"):
            pass


def hold(folder: Path, held: Event, let_go: Event) -> None:
    with claimed(folder, 1, "c"):
        held.set()
        let_go.wait(60)


def test_a_folder_in_use_is_refused_until_the_other_process_ends(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    held, let_go = spawn.Event(), spawn.Event()
    holder = spawn.Process(target=hold, args=(tmp_path, held, let_go))
    holder.start()
    assert held.wait(60)
    with pytest.raises(Failure, match="another process uses the data folder"), claimed(tmp_path, 1, "c"):
        pass
    holder.kill()
    holder.join()
    with claimed(tmp_path, 1, "c"):
        pass


@pytest.mark.parametrize(("node_id", "cluster_id"), [(2, "c"), (1, "d")])
def test_another_nodes_folder_is_refused(tmp_path: Path, node_id: int, cluster_id: str) -> None:
    with claimed(tmp_path, 1, "c"):
        pass
    with pytest.raises(Failure, match="belongs to node 1 of cluster 'c'"), claimed(tmp_path, node_id, cluster_id):
        pass
    (tmp_path / IDENTITY_FILE).unlink()
    with claimed(tmp_path, node_id, cluster_id):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Failure, match="cannot be used"), claimed(tmp_path / "file" / "data", 1, "c"):
        pass


def test_a_damaged_identity_is_named(tmp_path: Path) -> None:
    (tmp_path / IDENTITY_FILE).write_text("{")
    with pytest.raises(Failure, match="is damaged"), claimed(tmp_path, 1, "c"):
        pass
