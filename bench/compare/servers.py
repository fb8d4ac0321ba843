"""PostgreSQL and Redis for one run: on a free port, with a data folder of their own, durable, and gone afterwards."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.compare.packages import Programs, postgresql, redis
from tests.cluster.processes import free_ports, until

# What PostgreSQL's own manual advises for a server of its own ("Resource Consumption", "WAL Configuration"): a quarter
# of the memory, here bounded since others need it too, and checkpoints that are rare enough. fsync, full_page_writes
# and synchronous_commit stay on, as they are by default.
POSTGRESQL_SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "wal_buffers": "16MB",
    "max_connections": "100",
}
# Redis' manual ("Redis persistence") on losing nothing that was confirmed; "noeviction" is what every queue asks for.
REDIS_SETTINGS = {"appendonly": "yes", "appendfsync": "always", "save": "", "maxmemory-policy": "noeviction"}

_TERM_PATIENCE_S = 30.0


def _server_user() -> str | None:
    """Whom PostgreSQL runs as: it refuses to be root. None: whoever we are."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _stop(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    process.send_signal(number)
    try:
        process.wait(_TERM_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Postgresql:
    """Serves when it is made. Raises CannotInstall, or AssertionError when it does not start."""

    settings: Mapping[str, str] = {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        **POSTGRESQL_SETTINGS,
    }

    def __init__(self, folder: Path) -> None:
        self._programs = postgresql()
        self._user = _server_user()
        folder.mkdir()
        if self._user is not None:
            shutil.chown(folder, self._user)
            # Temporary folders are closed to other users; this one must be reached.
            folder.parent.chmod(0o711)
        self._log = folder.parent / "postgresql.log"
        data, (self.port,) = folder / "data", free_ports(1)
        self._run("initdb", f"--pgdata={data}", "--auth=trust", "--username=bench", "--no-sync", "--encoding=UTF8")
        options = {**POSTGRESQL_SETTINGS, "port": self.port, "unix_socket_directories": str(folder)}
        options["listen_addresses"] = "127.0.0.1"
        command = [self._programs.path("postgres"), "-D", str(data)]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        self._session: subprocess.Popen[str] | None = None
        self._process = self._start(command)
        try:
            until(self._answers, f"PostgreSQL serves; see {self._log}", 30.0)
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return f"postgresql://bench@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, query: str) -> str:
        """The one value that a query without newlines yields, through a session that stays open."""
        if self._session is None:
            command = [self._programs.path("psql"), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", self.url]
            self._session = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
                env={**os.environ, **self._programs.environment},
            )
        assert self._session.stdin is not None
        assert self._session.stdout is not None
        self._session.stdin.write(query + ";\n")
        return self._session.stdout.readline().strip()

    def close(self) -> None:
        if self._session is not None:
            self._session.kill()
            self._session.wait()
        # SIGINT is the "fast" shutdown: sessions are ended.
        _stop(self._process, signal.SIGINT)

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()[-2_000:]
        command = [self._programs.path("psql"), "--no-psqlrc", "-c", "SELECT 1", self.url]
        environment = {**os.environ, **self._programs.environment}
        return not subprocess.run(command, env=environment, capture_output=True, check=False).returncode

    def _run(self, program: str, *arguments: str) -> None:
        process = self._start([self._programs.path(program), *arguments])
        assert process.wait() == 0, self._log.read_text()[-2_000:]

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                env={**os.environ, **self._programs.environment},
                user=self._user,
                # Ctrl-C is for the benchmark, which stops the server itself.
                start_new_session=True,
            )


class Redis:
    """Serves when it is made. Raises CannotInstall, or AssertionError when it does not start."""

    settings: Mapping[str, str] = REDIS_SETTINGS

    def __init__(self, folder: Path) -> None:
        programs: Programs = redis()
        folder.mkdir()
        (self.port,) = free_ports(1)
        self._log = folder.parent / "redis.log"
        command = [programs.path("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder)]
        for name, value in REDIS_SETTINGS.items():
            command += [f"--{name}", value]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **programs.environment},
                start_new_session=True,
            )
        self._socket: socket.socket | None = None
        try:
            until(self._answers, f"Redis serves; see {self._log}", 30.0)
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, *command: str) -> int:
        """The answer to a command that answers with a number."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.port))
        self._socket.sendall(" ".join(command).encode() + b"\r\n")
        answer = b""
        while not answer.endswith(b"\r\n"):
            answer += self._socket.recv(4_096)
        assert answer.startswith(b":"), answer
        return int(answer[1:])

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        _stop(self._process, signal.SIGTERM)

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()[-2_000:]
        try:
            return self.ask("DBSIZE") == 0
        except ConnectionRefusedError:
            return False
