"""The peers: what to install, how they are started, and when each has recorded all completions. README.md says where
every setting comes from.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from bench.compare.packages import npm_packages, python_packages
from bench.compare.peer import SCRIPTS, Peer, run_checked
from bench.compare.servers import Postgresql, Redis


class _OnPostgresql(Peer):
    store = "PostgreSQL 15, fsync"
    server_settings = Postgresql.settings
    # True when not one row is left for which this holds.
    pending: ClassVar[str]

    def start_server(self, folder: Path) -> None:
        self._server = Postgresql(folder)

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def server_pid(self) -> int:
        return self._server.pid

    def is_drained(self) -> bool:
        return self._server.ask(f"SELECT EXISTS (SELECT 1 FROM {self.pending})") == "f"

    def stop_server(self) -> None:
        self._server.close()


class _OnRedis(Peer):
    store = "Redis, appendfsync always"
    server_settings = Redis.settings
    # Each of these commands answers with the number of jobs that are not completed.
    pending: ClassVar[tuple[str, ...]]

    def start_server(self, folder: Path) -> None:
        self._server = Redis(folder)

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def server_pid(self) -> int:
        return self._server.pid

    def is_drained(self) -> bool:
        return not any(self._server.ask(*command.split()) for command in self.pending)

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Nothing: Redis has no tables."""

    def stop_server(self) -> None:
        self._server.close()


class _InNode(Peer):
    def install(self) -> None:
        self._modules = npm_packages(self.name, self.packages)

    def environment(self) -> Mapping[str, str]:
        return {"NODE_PATH": str(self._modules), "NODE_ENV": "production"}


class _InPython(Peer):
    def install(self) -> None:
        self._programs = python_packages(self.name, self.packages)

    def environment(self) -> Mapping[str, str]:
        return {"PYTHONPATH": str(SCRIPTS), "PYTHONDONTWRITEBYTECODE": "1"}

    def _program(self, name: str) -> str:
        return str(self._programs / name)


class GraphileWorker(_InNode, _OnPostgresql):
    name = "graphile-worker"
    packages = ("graphile-worker@0.18.0",)
    slowest_create_per_s = 20_000
    # Completed jobs are deleted.
    pending = "graphile_worker._private_jobs"
    worker_settings: ClassVar[Mapping[str, Any]] = {
        "concurrentJobs": 24,
        "maxPoolSize": 25,
        "localQueue.size": 500,
        "completeJobBatchDelay": 0,
        "failJobBatchDelay": 0,
        "pollInterval": 100,
    }

    def prepare(self, environment: Mapping[str, str]) -> None:
        run_checked([*self.create_command(), "0", "0"], environment)

    def create_command(self) -> list[str]:
        return ["node", str(SCRIPTS / "graphile_create.cjs")]

    def worker_commands(self, workers: int) -> list[list[str]]:
        return [["node", str(SCRIPTS / "graphile_worker.cjs")]] * workers


class BullMq(_InNode, _OnRedis):
    name = "bullmq"
    packages = ("bullmq@6.7.0", "ioredis@6.0.0")
    slowest_create_per_s = 8_000
    # Completed jobs are removed.
    pending = ("ZCARD bull:hot:delayed", "LLEN bull:hot:wait", "LLEN bull:hot:active", "ZCARD bull:hot:prioritized")
    worker_settings: ClassVar[Mapping[str, Any]] = {"concurrency": 100, "removeOnComplete": True}

    def create_command(self) -> list[str]:
        return ["node", str(SCRIPTS / "bullmq_create.cjs")]

    def worker_commands(self, workers: int) -> list[list[str]]:
        return [["node", str(SCRIPTS / "bullmq_worker.cjs")]] * workers


class Procrastinate(_InPython, _OnPostgresql):
    name = "procrastinate"
    packages = ("procrastinate==3.10.0", "psycopg[binary,pool]==3.3.4")
    slowest_create_per_s = 3_000
    is_slow = True
    pending = "procrastinate_jobs WHERE status IN ('todo', 'doing')"
    worker_settings: ClassVar[Mapping[str, Any]] = {"concurrency": 20, "fetch_job_polling_interval": 0.1}

    def prepare(self, environment: Mapping[str, str]) -> None:
        run_checked(
            [self._program("procrastinate"), "--app=procrastinate_app.app", "schema", "--apply"],
            environment,
        )

    def create_command(self) -> list[str]:
        return [self._program("python"), str(SCRIPTS / "procrastinate_app.py")]

    def worker_commands(self, workers: int) -> list[list[str]]:
        command = [self._program("procrastinate"), "--app=procrastinate_app.app", "worker", "--queues=hot"]
        settings = self.worker_settings
        command += [f"--concurrency={settings['concurrency']}"]
        command += [f"--fetch-job-polling-interval={settings['fetch_job_polling_interval']}"]
        return [command] * workers


class Celery(_InPython, _OnRedis):
    name = "celery"
    packages = ("celery[redis]==5.7.0",)
    slowest_create_per_s = 400
    is_slow = True
    # Acknowledged messages are removed.
    pending = ("LLEN celery", "HLEN unacked")
    worker_settings: ClassVar[Mapping[str, Any]] = {
        "pool": "prefork",
        "task_acks_late": True,
        "task_ignore_result": True,
        "worker_prefetch_multiplier": 128,
    }

    def create_command(self) -> list[str]:
        return [self._program("python"), str(SCRIPTS / "celery_app.py")]

    def worker_commands(self, workers: int) -> list[list[str]]:
        command = [self._program("celery"), "--app=celery_app:app", "worker", f"--concurrency={workers}"]
        return [[*command, "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=WARNING"]]


PEERS: Mapping[str, type[Peer]] = {peer.name: peer for peer in (GraphileWorker, BullMq, Procrastinate, Celery)}
