"""Gets what a peer needs into a cache folder outside the repository: packages of npm and PyPI in pinned versions, and
Debian's builds of database servers. Nothing is installed into the system, so that no one needs to be root.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CACHE_VARIABLE = "RAFTSCHED_BENCH_CACHE"
# A registry that hangs must not hold up the other peers.
PATIENCE_S = 600.0


class CannotInstall(Exception):
    """Something that a peer needs is not to be had here; the text says what, and the tool's own last words."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Server programs by name, and what their environment needs."""

    folder: Path
    environment: Mapping[str, str]

    def path(self, name: str) -> str:
        return str(self.folder / name)


def cache_folder() -> Path:
    """Made when it is not there; a user that servers run as may read it."""
    given = os.environ.get(CACHE_VARIABLE)
    # The home of root is closed to the user as whom PostgreSQL has to run.
    home = Path("/var/cache") if os.geteuid() == 0 else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = Path(given) if given else home / "raftsched-bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def run_tool(command: Sequence[str], cwd: Path | None = None) -> None:
    """Raises CannotInstall."""
    try:
        done = subprocess.run(
            command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise CannotInstall(f"{' '.join(command)}: {last}")


def _install_once(folder: Path, wanted: Sequence[str]) -> bool:
    """Whether these are still to be installed; if so the folder is empty. `_installed` says that it is done."""
    marker = folder / "installed.txt"
    if marker.exists() and marker.read_text().split() == list(wanted):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return True


def _installed(folder: Path, wanted: Sequence[str]) -> None:
    (folder / "installed.txt").write_text("\n".join(wanted) + "\n")


def npm_packages(peer: str, wanted: Sequence[str]) -> Path:
    """The folder for NODE_PATH. `wanted` are names with versions. Raises CannotInstall."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            raise CannotInstall(f"{tool} is not there: install Node.js 20 or newer")
    folder = cache_folder() / f"npm-{peer}"
    if _install_once(folder, wanted):
        (folder / "package.json").write_text('{"private": true}\n')
        run_tool(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact", *wanted], folder)
        _installed(folder, wanted)
    return folder / "node_modules"


def python_packages(peer: str, wanted: Sequence[str]) -> Path:
    """The folder with the commands of a virtual environment of the peer's own. Raises CannotInstall."""
    folder = cache_folder() / f"pip-{peer}"
    if _install_once(folder, wanted):
        run_tool([sys.executable, "-m", "venv", str(folder)])
        run_tool([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted])
        _installed(folder, wanted)
    return folder / "bin"


def postgresql() -> Programs:
    """PostgreSQL 15: this machine's own, else Debian's. Raises CannotInstall."""
    installed = Path("/usr/lib/postgresql/15/bin")
    if (installed / "postgres").exists() and (installed / "psql").exists():
        return Programs(installed, {})
    packages = ("postgresql-15", "postgresql-client-15", "libpq5", "libldap-2.5-0", "libicu72", "libxml2")
    return unpacked("postgresql", packages, "usr/lib/postgresql/15/bin")


def redis() -> Programs:
    """Redis: this machine's own, else Debian's. Raises CannotInstall."""
    installed = shutil.which("redis-server")
    if installed:
        return Programs(Path(installed).parent, {})
    packages = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1")
    return unpacked("redis", packages, "usr/bin")


def unpacked(name: str, packages: Sequence[str], programs: str) -> Programs:
    """Debian packages, downloaded and unpacked below the cache folder. Raises CannotInstall."""
    folder = cache_folder() / f"debian-{name}"
    if _install_once(folder, packages):
        for tool in ("apt-get", "dpkg-deb"):
            if shutil.which(tool) is None:
                raise CannotInstall(f"{name} is not there, and this is no Debian to get it from: install it")
        try:
            run_tool(["apt-get", "download", "--quiet", *packages], folder)
        except CannotInstall:
            if os.geteuid() != 0:
                raise
            # The lists may be missing or old.
            run_tool(["apt-get", "update", "--quiet"])
            run_tool(["apt-get", "download", "--quiet", *packages], folder)
        for archive in sorted(folder.glob("*.deb")):
            run_tool(["dpkg-deb", "--extract", str(archive), str(folder)])
            archive.unlink()
        _installed(folder, packages)
    libraries = [*folder.glob("usr/lib/*-linux-gnu"), *folder.glob("lib/*-linux-gnu")]
    return Programs(folder / programs, {"LD_LIBRARY_PATH": ":".join(str(path) for path in libraries)})
