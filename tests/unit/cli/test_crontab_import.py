"""Importing crontabs into a real cluster: once, again, changed; and the commands of Debian's files, really run."""

import getpass
import json
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cronsim import CronSim

from raftsched.cli.crontab_file import parse_crontab
from raftsched.cli.crontab_jobs import ImportOptions, plan
from raftsched.cli.main import main
from raftsched.client import OverlapPolicy
from raftsched.model.zones import zone
from tests.unit.cli.conftest import SHELL_QUEUE, CommandLine
from tests.unit.cli.test_crontab_debian import FOLDER, LINES, REFUSED

CRONTAB = """\
# nightly
CRON_TZ=Europe/Berlin
A="b c"
30 2 * * * echo %in
@hourly echo one
@hourly echo one
@reboot echo boot
*/5 * * * echo too few fields
61 * * * * echo impossible
CRON_TZ=Mars/Olympus
0 0 * * * echo where
"""


def written(folder: Path, text: str = CRONTAB) -> str:
    file = folder / "tab"
    file.write_text(text)
    return str(file)


def outcomes(document: dict[str, Any]) -> dict[int, str]:
    return {line["line"]: line["outcome"] for line in document["lines"]}


def imported(cli: CommandLine, *arguments: str, code: int = 0) -> Any:
    result = cli.run("--json", "crontab", "import", *arguments)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


@pytest.mark.cluster
def test_good_lines_go_in_and_bad_ones_are_named_with_number_and_reason(cli: CommandLine, tmp_path: Path) -> None:
    document = imported(cli, written(tmp_path), "--tz", "UTC", code=1)
    lines = {line["line"]: line for line in document["lines"]}
    assert outcomes(document) == {
        4: "registered",
        5: "registered",
        6: "registered",
        7: "refused",
        8: "refused",
        9: "refused",
        11: "refused",
    }
    assert "@reboot" in lines[7]["reason"]
    assert "five fields" in lines[8]["reason"] or "day of week" in lines[8]["reason"]
    assert "61" in lines[9]["reason"]
    assert "CRON_TZ Mars/Olympus" in lines[11]["reason"]
    job = cli.document("job", "get", str(lines[4]["job_id"]))
    assert (job["handler"], job["cron"], job["time_zone"]) == ("shell.run", "30 2 * * *", "Europe/Berlin")
    assert json.loads(job["payload"]) == {
        "command": "echo ",
        "stdin": "in\n",
        "env": {"A": "b c", "CRON_TZ": "Europe/Berlin"},
        "user": None,
    }
    assert (job["name"], job["overlap"], job["retry"]["max_attempts"]) == (lines[4]["name"], "SKIP", 1)
    assert lines[4]["next_run_times"][0] == job["next_run_time"]
    assert lines[5]["name"] != lines[6]["name"]


@pytest.mark.cluster
def test_importing_again_registers_nothing(cli: CommandLine, tmp_path: Path) -> None:
    file = written(tmp_path, "0 1 * * * a\n0 2 * * * b\n")
    first = imported(cli, file)
    (tmp_path / "tab").write_text("# a comment moves the lines\n\n0 2 * * * b\n0 1 * * * a\n")
    second = imported(cli, file)
    assert outcomes(second) == {3: "unchanged", 4: "unchanged"}
    assert {line["job_id"] for line in first["lines"]} == {line["job_id"] for line in second["lines"]}


@pytest.mark.cluster
def test_a_changed_file_leaves_the_old_jobs_until_sync_cancels_them(cli: CommandLine, tmp_path: Path) -> None:
    file = written(tmp_path, "0 1 * * * a\n0 2 * * * b\n")
    kept, changed = imported(cli, file)["lines"]
    written(tmp_path, "0 1 * * * a\n0 3 * * * b\n")
    told = imported(cli, file)
    assert outcomes(told) == {1: "unchanged", 2: "registered", 0: "left"}
    synced = imported(cli, file, "--sync")
    assert outcomes(synced) == {1: "unchanged", 2: "unchanged", 0: "cancelled"}
    assert cli.document("job", "get", str(changed["job_id"]))["state"] == "CANCELLED"
    assert cli.document("job", "get", str(kept["job_id"]))["state"] == "SCHEDULED"
    assert outcomes(imported(cli, file, "--sync")) == {1: "unchanged", 2: "unchanged"}


@pytest.mark.cluster
def test_a_line_that_comes_back_is_registered_again(cli: CommandLine, tmp_path: Path) -> None:
    file = written(tmp_path, "0 1 * * * a\n")
    (first,) = imported(cli, file)["lines"]
    cli.text("job", "cancel", str(first["job_id"]))
    (second,) = imported(cli, file)["lines"]
    assert second["outcome"] == "registered"
    assert second["job_id"] != first["job_id"]
    assert second["name"] == first["name"]


@pytest.mark.cluster
def test_other_options_differ_until_sync_replaces_the_job(cli: CommandLine, tmp_path: Path) -> None:
    file = written(tmp_path, "0 1 * * * a\n")
    (first,) = imported(cli, file)["lines"]
    (differing,) = imported(cli, file, "--queue", "other", "--run-timeout", "1h", code=1)["lines"]
    assert (differing["outcome"], differing["job_id"]) == ("differs", first["job_id"])
    assert "queue, run-timeout" in differing["reason"]
    (replaced,) = imported(cli, file, "--queue", "other", "--run-timeout", "1h", "--sync")["lines"]
    assert replaced["outcome"] == "replaced"
    job = cli.document("job", "get", str(replaced["job_id"]))
    assert (job["queue"], job["run_timeout_ms"]) == ("other", 3_600_000)


@pytest.mark.cluster
def test_standard_input_needs_a_source(cli: CommandLine) -> None:
    code, error = cli.failure("crontab", "import", "-", given=b"0 1 * * * a\n")
    assert (code, error["message"]) == (2, "standard input has no name: give --source")
    document = cli.document("crontab", "import", "-", "--source", "ada@host", "--user", "ada", given=b"0 1 * * * a\n")
    (line,) = document["lines"]
    assert line["name"].startswith("crontab:ada@host:")
    assert line["user"] == "ada"


def test_a_user_column_is_not_guessed_away(tmp_path: Path) -> None:
    file = written(tmp_path, f"0 1 * * * {getpass.getuser()} a\n")
    result = CliRunner().invoke(main, ["crontab", "import", "--dry-run", file])
    assert result.exit_code == 2
    assert "is that a user column" in result.stderr
    for flag in ("--system", "--user-format"):
        assert CliRunner().invoke(main, ["crontab", "import", "--dry-run", flag, file]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("/no/such/file",), "No such file"),
        (("--system", "--user", "x", "FILE"), "--user is for files without a user column"),
        (("--tz", "Mars/Olympus", "FILE"), "is not a time zone"),
    ],
)
def test_wrong_usage_ends_with_2(tmp_path: Path, arguments: tuple[str, ...], reason: str) -> None:
    file = written(tmp_path, "0 1 * * * a\n")
    given = [file if argument == "FILE" else argument for argument in arguments]
    result = CliRunner().invoke(main, ["crontab", "import", "--dry-run", *given])
    assert result.exit_code == 2
    assert reason in result.output


def test_people_see_a_table_notes_and_refused_lines(tmp_path: Path) -> None:
    file = written(tmp_path, "MAILTO=root\n0 1 * * * a\n@reboot b\n")
    result = CliRunner().invoke(main, ["crontab", "import", "--dry-run", "--tz", "UTC", file])
    assert result.exit_code == 1
    assert "would register" in result.stdout
    assert "line 1: note: MAILTO" in result.stdout
    assert result.stderr.startswith("line 3 refused: @reboot")


@pytest.mark.cluster
@pytest.mark.parametrize("name", sorted(LINES))
def test_debians_files_list_with_the_right_next_times(cli: CommandLine, name: str) -> None:
    arguments = ("--system", "--tz", "America/New_York", "--queue", "idle", str(FOLDER / name))
    before = datetime.now(zone("America/New_York"))
    document = imported(cli, *arguments, code=1 if name in REFUSED else 0)
    jobs = cli.document("job", "list", "--label", f"crontab.source={FOLDER / name}")["jobs"] if LINES[name] else []
    taken = [line for line in document["lines"] if line["outcome"] != "refused"]
    assert [job["name"] for job in jobs] == [line["name"] for line in taken]
    after = datetime.now(zone("America/New_York"))
    for job, (_, expression, user, command) in zip(jobs, LINES[name], strict=True):
        payload = json.loads(job["payload"])
        assert (payload["user"], job["cron"]) == (user, expression)
        assert payload["command"].startswith(command)
        wanted = {next(CronSim(expression, moment)).timestamp() for moment in (before, after)}
        assert datetime.fromisoformat(job["next_run_time"]).timestamp() in wanted


# File -> what its commands must have called, in the order of its lines. Programs are recorded by their names.
CALLS = {
    "amavisd-new": ["amavisd-new-cronjob sa-sync", "amavisd-new-cronjob sa-clean"],
    "anacron": ["invoke-rc.d anacron start"],
    "awstats": ["update.sh", "buildstatic.sh"],
    "certbot": ["perl -e sleep int(rand(43200))", "certbot -q renew --no-random-sleep-on-renew"],
    # anacron is installed in the sandbox, so the daily and slower lines leave the work to it.
    "crontab": ["run-parts --report {root}/etc/cron.hourly"],
    "e2scrub_all": ["e2scrub_all_cron", "e2scrub_all -A -r"],
    "logcheck": ["logcheck"],
    "mdadm": ["date +%d", "checkarray --cron --all --idle --quiet"],
    "munin": ["munin-cron", "munin-limits --force --contact nagios --contact old-nagios"],
    "php": ["sessionclean"],
    "sysstat": ["debian-sa1 1 1", "debian-sa1 60 2"],
    "tiger": ["tigercron -q"],
}
PROGRAMS = (
    "/etc/init.d/anacron",
    "/sbin/e2scrub_all",
    "/usr/bin/certbot",
    "/usr/bin/date",
    "/usr/bin/munin-cron",
    "/usr/bin/perl",
    "/usr/bin/run-parts",
    "/usr/lib/php/sessionclean",
    "/usr/lib/sysstat/debian-sa1",
    "/usr/lib/x86_64-linux-gnu/e2fsprogs/e2scrub_all_cron",
    "/usr/sbin/amavisd-new-cronjob",
    "/usr/sbin/anacron",
    "/usr/sbin/invoke-rc.d",
    "/usr/sbin/logcheck",
    "/usr/sbin/tigercron",
    "/usr/share/awstats/tools/buildstatic.sh",
    "/usr/share/awstats/tools/update.sh",
    "/usr/share/mdadm/checkarray",
    "/usr/share/munin/munin-limits",
)
SYSTEM_FOLDERS = re.compile(r"(?<![\w/])/(?=(?:usr|etc|sbin|bin|run|var)/)")


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    """A small root folder with programs that only write down how they were called; `date` says it is the 5th."""
    root = tmp_path / "root"
    for program in PROGRAMS:
        path = root / program.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f'#!/bin/sh\necho "${{0##*/}}${{1:+ }}$*" >> {root}/calls\n[ "${{0##*/}}" != date ] || echo 05\n'
        )
        path.chmod(0o755)
    (root / "etc/default").mkdir(parents=True)
    (root / "etc/default/tiger").write_text("NICETIGER=5\n")
    return root


@pytest.mark.cluster
@pytest.mark.parametrize("name", sorted(name for name, lines in LINES.items() if lines))
def test_the_commands_of_debians_files_run(cli: CommandLine, sandbox: Path, name: str) -> None:
    old_page = sandbox / "var/cache/munin/www/old.html"
    old_page.parent.mkdir(parents=True)
    old_page.touch()
    os.utime(old_page, (0, 0))
    options = ImportOptions(name, "", SHELL_QUEUE, "UTC", None, OverlapPolicy.SKIP, 1, None, None)
    planned, _ = plan(parse_crontab((FOLDER / name).read_bytes(), system=True), options)
    for job in planned:
        payload = inside(sandbox, job.spec.payload)
        created = cli.document("job", "create", "shell.run", "--queue", SHELL_QUEUE, "--payload", json.dumps(payload))
        cli.wait_for_state(created["id"], "SUCCEEDED")
    calls = (sandbox / "calls").read_text().splitlines()
    assert calls == [call.format(root=sandbox) for call in CALLS[name]]
    assert old_page.exists() == (name != "munin")


def inside(root: Path, payload: dict[str, Any]) -> dict[str, Any]:
    """The same job with the system's folders in the sandbox, run as the worker's user."""
    environment = {key: SYSTEM_FOLDERS.sub(f"{root}/", value) for key, value in payload["env"].items()}
    environment["SHELL"] = payload["env"].get("SHELL", "/bin/sh")
    # The programs of the sandbox come before real ones of the same name.
    own = environment.get("PATH", f"{root}/usr/bin").replace(":/sbin:/bin", "")
    environment["PATH"] = f"{own}:{root}/usr/bin:/usr/bin:/bin"
    command = SYSTEM_FOLDERS.sub(f"{root}/", payload["command"])
    return payload | {"command": command, "env": environment, "user": None}
