"""Shell commands run as cron would run them, and end with everything they started."""

import asyncio
import os
import pwd
import time
from pathlib import Path

import pytest

from raftsched.cli.shell_command import (
    OUTPUT_TAIL_BYTES,
    Account,
    UserRefused,
    account_for,
    own_account,
    run_command,
)

DEADLINE_S = 20.0


@pytest.fixture
def account(tmp_path: Path) -> Account:
    """The user of this process, at home in an empty folder."""
    own = own_account()
    return Account(own.name, own.uid, own.gid, str(tmp_path))


async def eventually(condition: object) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end_s, "it did not come about in time"
        await asyncio.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether the process exists and is not only waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_command_runs_in_its_home_with_the_small_environment_of_cron(account: Account) -> None:
    end = await run_command("pwd; env | cut -d= -f1 | sort | tr '\\n' ' '", account=account)
    place, names = end.output_tail.decode().splitlines()
    assert end.status == 0
    assert place == account.home
    assert set(names.split()) - {"_", "OLDPWD", "SHLVL"} == {"HOME", "LOGNAME", "PATH", "PWD", "SHELL", "USER"}


async def test_crontab_settings_change_the_environment_but_not_the_name(account: Account) -> None:
    environment = {"A": "b c", "LOGNAME": "somebody", "USER": "somebody", "PATH": "/nowhere:/usr/bin:/bin"}
    end = await run_command('echo "$A/$LOGNAME/$USER/$PATH"', account=account, environment=environment)
    assert end.output_tail.decode() == f"b c/{account.name}/{account.name}/{environment['PATH']}\n"


async def test_the_shell_of_the_crontab_runs_the_command(account: Account, tmp_path: Path) -> None:
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\necho "$0 got: $1 $2"\n')
    shell.chmod(0o755)
    end = await run_command("anything", account=account, environment={"SHELL": str(shell)})
    assert end.output_tail.decode() == f"{shell} got: -c anything\n"


async def test_the_input_reaches_the_command_and_may_be_ignored(account: Account) -> None:
    assert (await run_command("cat", account=account, stdin="a\nb\n")).output_tail == b"a\nb\n"
    assert (await run_command("true", account=account, stdin="x" * 1_000_000)).status == 0
    assert (await run_command("cat", account=account)).output_tail == b""


async def test_a_failure_is_told_with_the_end_of_all_output(account: Account) -> None:
    end = await run_command("echo out; echo why >&2; exit 3", account=account)
    assert end.describe() == "exit status 3, output:\nout\nwhy"


async def test_of_long_output_the_end_is_kept(account: Account) -> None:
    end = await run_command("yes line | head -c 300000; echo the end; exit 1", account=account)
    assert end.output_bytes == 300_000 + len("the end\n")
    assert len(end.output_tail) == OUTPUT_TAIL_BYTES
    assert end.describe().startswith("exit status 1, the end of its output:\n")
    assert end.describe().endswith("the end")


async def test_death_by_a_signal_is_told(account: Account) -> None:
    assert (await run_command("kill -9 $$", account=account)).describe() == "killed by SIGKILL, no output"


async def test_a_daemon_left_behind_neither_holds_the_run_nor_is_killed(account: Account, tmp_path: Path) -> None:
    end = await asyncio.wait_for(run_command("sleep 60 & echo $! > pid", account=account), DEADLINE_S)
    pid = int((tmp_path / "pid").read_text())
    assert end.status == 0
    assert alive(pid)
    os.kill(pid, 9)


async def test_cancelling_ends_the_command_and_everything_it_started(account: Account, tmp_path: Path) -> None:
    running = asyncio.create_task(run_command("sleep 60 & echo $! > pid.new; mv pid.new pid; wait", account=account))
    pid_file = tmp_path / "pid"
    await eventually(pid_file.exists)
    pid = int(pid_file.read_text())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await eventually(lambda: not alive(pid))


async def test_a_command_that_ignores_sigterm_is_killed(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftsched.cli.shell_command.STOP_GRACE_S", 0.2)
    command = "trap '' TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 0.1; done"
    running = asyncio.create_task(run_command(command, account=account))
    await eventually((tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await eventually(lambda: not alive(pid))


async def test_without_a_home_it_does_not_run(account: Account) -> None:
    lost = Account(account.name, account.uid, account.gid, f"{account.home}/gone")
    with pytest.raises(NotADirectoryError, match="is not a directory on this machine"):
        await run_command("true", account=lost)


def test_no_user_and_the_own_user_are_the_own_account() -> None:
    own = own_account()
    assert account_for(None) == own
    assert account_for(own.name) == own


def test_another_user_is_refused_unless_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.cli.shell_command.own_account", lambda: Account("worker", 12_345, 12_345, "/"))
    with pytest.raises(UserRefused, match="is for user root, but this shell worker runs as worker"):
        account_for("root")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_root_becomes_the_user_with_its_groups_only() -> None:
    entry = pwd.getpwnam("nobody")
    nobody = account_for("nobody")
    assert (nobody.uid, nobody.gid) == (entry.pw_uid, entry.pw_gid)
    end = await run_command("id -u; id -G; echo $LOGNAME", account=nobody, environment={"HOME": "/"})
    assert end.output_tail.decode().split() == [str(entry.pw_uid), str(entry.pw_gid), "nobody"]


@pytest.mark.skipif(os.geteuid() != 0, reason="others are refused before the name is looked up")
def test_a_user_this_machine_does_not_know_is_refused() -> None:
    with pytest.raises(UserRefused, match="no user no-such-user on this machine"):
        account_for("no-such-user")
