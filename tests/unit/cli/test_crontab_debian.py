"""Crontab files as Debian packages ship them: each is read whole, and its jobs run when cron would run them."""

import json
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cronsim import CronSim

from raftsched.cli.crontab_file import parse_crontab
from raftsched.cli.main import main
from raftsched.model.recurrence import CronSchedule
from raftsched.model.schedule import ticks_after
from raftsched.model.zones import zone

FOLDER = Path(__file__).parent / "data" / "debian"

# File -> (line, schedule, user, beginning of the command) of each line that is not a comment.
LINES = {
    "amavisd-new": [
        (5, "18 */3 * * *", "amavis", "test -e /usr/sbin/amavisd-new-cronjob"),
        (6, "24 1 * * *", "amavis", "test -e /usr/sbin/amavisd-new-cronjob"),
    ],
    "anacron": [(6, "30 7-23 * * *", "root", "[ -x /etc/init.d/anacron ] && if")],
    "awstats": [
        (3, "*/10 * * * *", "www-data", "[ -x /usr/share/awstats/tools/update.sh ]"),
        (6, "10 03 * * *", "www-data", "[ -x /usr/share/awstats/tools/buildstatic.sh ]"),
    ],
    "certbot": [(17, "0 */12 * * *", "root", "test -x /usr/bin/certbot -a \\! -d /run/systemd/system")],
    "crontab": [
        (18, "17 * * * *", "root", "cd / && run-parts --report /etc/cron.hourly"),
        (19, "25 6 * * *", "root", "test -x /usr/sbin/anacron || {"),
        (20, "47 6 * * 7", "root", "test -x /usr/sbin/anacron || {"),
        (21, "52 6 1 * *", "root", "test -x /usr/sbin/anacron || {"),
    ],
    "e2scrub_all": [
        (1, "30 3 * * 0", "root", "test -e /run/systemd/system || SERVICE_MODE=1"),
        (2, "10 3 * * *", "root", "test -e /run/systemd/system || SERVICE_MODE=1"),
    ],
    "logcheck": [(7, "2 * * * *", "logcheck", "if [ -x /usr/sbin/logcheck ]")],
    "mdadm": [(12, "57 0 * * 0", "root", "if [ -x /usr/share/mdadm/checkarray ] && [ $(date +%d) -le 7 ]")],
    "munin": [
        (7, "*/5 * * * *", "munin", "if [ -x /usr/bin/munin-cron ]"),
        (8, "14 10 * * *", "munin", "if [ -x /usr/share/munin/munin-limits ]"),
        (11, "27 03 * * *", "munin", "htmldir=$({ cat /etc/munin/munin.conf"),
        (12, "32 03 * * *", "www-data", "cgitmpdir=$({ cat /etc/munin/munin.conf"),
    ],
    "php": [(14, "09,39 * * * *", "root", "[ -x /usr/lib/php/sessionclean ]")],
    "rsnapshot": [],
    "sysstat": [
        (6, "5-55/10 * * * *", "root", "command -v debian-sa1 > /dev/null && debian-sa1 1 1"),
        (9, "59 23 * * *", "root", "command -v debian-sa1 > /dev/null && debian-sa1 60 2"),
    ],
    "tiger": [(9, "0 * * * *", "root", "test -x /usr/sbin/tigercron && {")],
}
# File -> (line, reason) of what cannot be taken.
REFUSED = {"logcheck": [(6, "@reboot")]}
ENVIRONMENT = {
    "anacron": {"SHELL", "PATH"},
    "awstats": {"MAILTO"},
    "certbot": {"SHELL", "PATH"},
    "crontab": {"SHELL", "PATH"},
    "logcheck": {"PATH", "MAILTO"},
    "munin": {"MAILTO"},
    "sysstat": {"PATH"},
    "tiger": {"DEFAULT", "NICETIGER"},
}


def test_every_file_is_expected() -> None:
    assert sorted(path.name for path in FOLDER.iterdir() if path.name != "README.md") == sorted(LINES)


@pytest.mark.parametrize("name", sorted(LINES))
def test_each_line_is_taken_with_its_user_environment_and_command(name: str) -> None:
    crontab = parse_crontab((FOLDER / name).read_bytes(), system=True)
    assert [(one.line, one.expression, one.user) for one in crontab.entries] == [line[:3] for line in LINES[name]]
    for entry, line in zip(crontab.entries, LINES[name], strict=True):
        assert entry.command.startswith(line[3])
        assert set(entry.environment) == ENVIRONMENT.get(name, set())
        assert entry.stdin == ""
    assert [one.line for one in crontab.refused] == [line for line, _ in REFUSED.get(name, [])]


@pytest.mark.parametrize("time_zone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("name", sorted(name for name, lines in LINES.items() if lines))
def test_each_line_ticks_when_debians_cron_would(name: str, time_zone: str) -> None:
    # From a moment before each change of the clocks, and one in between.
    for start in ("2026-03-07T20:00", "2026-03-28T20:00", "2026-06-30T23:58", "2026-10-24T20:00", "2026-10-31T20:00"):
        after = datetime.fromisoformat(start).replace(tzinfo=zone(time_zone))
        for line in LINES[name]:
            wanted = [tick.timestamp() * 1000 for tick in islice(CronSim(line[1], after), 20)]
            assert ticks_after(CronSchedule((line[1],), time_zone), round(after.timestamp() * 1000), count=20) == wanted


def dry_run(name: str) -> tuple[dict[str, Any], int]:
    arguments = ["crontab", "import", "--dry-run", "--json", "--system", "--tz", "Europe/Berlin", str(FOLDER / name)]
    result = CliRunner().invoke(main, arguments)
    return json.loads(result.stdout), result.exit_code


@pytest.mark.parametrize("name", sorted(LINES))
def test_a_dry_run_lists_names_and_next_times_and_names_refused_lines(name: str) -> None:
    now = datetime.now(UTC)
    document, exit_code = dry_run(name)
    taken = [line for line in document["lines"] if line["outcome"] == "would register"]
    refused = [line for line in document["lines"] if line["outcome"] == "refused"]
    assert [(line["line"], line["user"]) for line in taken] == [(line[0], line[2]) for line in LINES[name]]
    assert len({line["name"] for line in taken}) == len(taken)
    for line, (_, expression, _, _) in zip(taken, LINES[name], strict=True):
        runs = [datetime.fromisoformat(text) for text in line["next_run_times"]]
        # Between the two clocks a tick may have passed.
        starts = (now, datetime.now(UTC))
        assert runs in [
            [tick.astimezone(UTC) for tick in islice(CronSim(expression, at.astimezone(zone("Europe/Berlin"))), 3)]
            for at in starts
        ]
        assert runs[0] - now < timedelta(days=32)
    assert [line["line"] for line in refused] == [line for line, _ in REFUSED.get(name, [])]
    for line, (_, reason) in zip(refused, REFUSED.get(name, []), strict=True):
        assert reason in line["reason"]
    assert exit_code == (1 if refused else 0)
