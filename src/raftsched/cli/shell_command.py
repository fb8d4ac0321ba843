"""Runs one shell command the way cron does: as a given user, in that user's home, with cron's small environment.

The command gets a session of its own, so that it can be killed together with everything it started.
"""

import asyncio
import contextlib
import os
import pwd
import signal
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Self

# What of the output is kept: its end, where the reason of a failure usually stands. An error holds 4 KiB in all.
OUTPUT_TAIL_BYTES = 3_500
# Between SIGTERM and SIGKILL when a command must stop.
STOP_GRACE_S = 5.0
# How long output is read on after the shell has ended: a daemon it left behind may hold the pipe open for ever.
_OUTPUT_GRACE_S = 1.0

_CHUNK_BYTES = 65_536

_DEFAULT_SHELL = "/bin/sh"
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


class UserRefused(Exception):
    """This process may not or cannot run commands as that user."""


@dataclass(frozen=True)
class Account:
    """A user of this machine."""

    name: str
    uid: int
    gid: int
    home: str


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended: its exit status, or minus the number of the signal that killed it."""

    status: int
    output_tail: bytes
    output_bytes: int

    def describe(self) -> str:
        """In words, with the end of the output; up to about OUTPUT_TAIL_BYTES long."""
        text = f"killed by {_signal_name(-self.status)}" if self.status < 0 else f"exit status {self.status}"
        output = self.output_tail.decode(errors="replace").strip()
        if not output:
            return f"{text}, no output"
        cut = "the end of its output" if self.output_bytes > len(self.output_tail) else "output"
        return f"{text}, {cut}:\n{output}"


def own_account() -> Account:
    """The user this process runs as."""
    uid = os.geteuid()
    try:
        return _account(pwd.getpwuid(uid))
    except KeyError:
        return Account(str(uid), uid, os.getegid(), os.environ.get("HOME", "/"))


def account_for(user: str | None) -> Account:
    """The account a job asks for; None: the one this process runs as.

    Only root can run commands as somebody else. Raises UserRefused, for other users and for unknown ones.
    """
    own = own_account()
    if user is None or user == own.name:
        return own
    if own.uid != 0:
        raise UserRefused(
            f"the job is for user {user}, but this shell worker runs as {own.name}; "
            f"run a worker as {user} or as root, on a queue of its own"
        )
    try:
        return _account(pwd.getpwnam(user))
    except KeyError:
        raise UserRefused(f"there is no user {user} on this machine") from None


def is_known_user(name: str) -> bool:
    """Whether this machine has a user of that name."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


async def run_command(
    command: str, *, account: Account, stdin: str = "", environment: Mapping[str, str] | None = None
) -> CommandEnd:
    """Runs `command` with `$SHELL -c` and waits for its end.

    `environment` is laid over cron's own: SHELL, PATH, HOME may be changed, LOGNAME and USER may not. When the
    calling task is cancelled the command's whole process group gets SIGTERM, then after STOP_GRACE_S SIGKILL.
    Raises OSError when it cannot be started.
    """
    variables = {"SHELL": _DEFAULT_SHELL, "PATH": _DEFAULT_PATH, "HOME": account.home}
    variables.update(environment or {})
    variables.update(LOGNAME=account.name, USER=account.name)
    await asyncio.to_thread(_require_directory, variables["HOME"], account)
    switch = account.uid != os.geteuid()
    with _Output() as output, _input_file(stdin) as given:
        process = await asyncio.create_subprocess_exec(
            variables["SHELL"],
            "-c",
            command,
            stdin=given,
            stdout=output.write_end,
            stderr=output.write_end,
            env=variables,
            cwd=variables["HOME"],
            start_new_session=True,
            user=account.uid if switch else None,
            group=account.gid if switch else None,
            extra_groups=os.getgrouplist(account.name, account.gid) if switch else None,
        )
        output.begin()
        try:
            status = await process.wait()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(output.ended.wait(), _OUTPUT_GRACE_S)
        except asyncio.CancelledError:
            await _stop_group(process)
            raise
    return CommandEnd(status, bytes(output.tail), output.seen)


class _Output:
    """A pipe that processes write to, and the last OUTPUT_TAIL_BYTES of what came through it.

    Not asyncio's own pipe: with that, Process.wait returns only when the last writer, maybe a daemon, has closed it.
    """

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self.tail = bytearray()
        self.seen = 0
        self.ended = asyncio.Event()

    def __enter__(self) -> Self:
        os.set_blocking(self._read_end, False)
        asyncio.get_running_loop().add_reader(self._read_end, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._read_end)
        os.close(self._read_end)
        self.begin()

    def begin(self) -> None:
        """The processes have their copies of the writing end: closes this one."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def _take(self) -> None:
        try:
            chunk = os.read(self._read_end, _CHUNK_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._read_end)
            self.ended.set()
        self.seen += len(chunk)
        self.tail += chunk
        del self.tail[:-OUTPUT_TAIL_BYTES]


@contextlib.contextmanager
def _input_file(text: str) -> Iterator[IO[bytes]]:
    # A file and not a pipe: nobody needs to wait until the command has read it.
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file


def _require_directory(home: str, account: Account) -> None:
    # Elsewhere a relative path in the command would mean something else.
    if not os.path.isdir(home):
        raise NotADirectoryError(f"the home of user {account.name}, {home}, is not a directory on this machine")


async def _stop_group(process: asyncio.subprocess.Process) -> None:
    # The group is named after its leader, and a group outlives its leader as long as any member lives.
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, signal_number)
        except ProcessLookupError:
            break
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_GRACE_S)
    await process.wait()


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
