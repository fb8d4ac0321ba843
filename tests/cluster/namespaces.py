"""A network namespace for each node, all on one bridge: real packets, which a cut loses instead of holding them back.

The tests themselves, and workers, are at the bridge and reach every node. Nodes are cut off from each other by sending
what is for the other to a hardware address that nobody has, or from everybody by taking their interface down.
"""

import contextlib
import functools
import os
import random
import shutil
import subprocess
from collections.abc import Iterable, Sequence

import pytest

from tests.cluster.processes import until

PORT = 7_100
# Locally administered; no interface of these tests has it.
NOBODY = "02:00:00:00:de:ad"


class NoNamespaces(Exception):
    """This machine or user cannot have them; the message says why."""


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoNamespaces(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


@functools.cache
def _objection() -> str:
    """Why there can be no namespaces here; empty when there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the command ip (Debian: iproute2)"
    try:
        Namespaces([1]).close()
    except NoNamespaces as error:
        return f"no network namespaces here: {error}"
    return ""


def require_namespaces() -> None:
    """Skips the test where they are not to be had."""
    if reason := _objection():
        pytest.skip(reason)


class Namespaces:
    """One namespace for each of `nodes` until `close`. Raises NoNamespaces."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self._nodes = list(nodes)
        self._tag = f"rs{random.randrange(16**6):06x}"
        self._bridge = f"{self._tag}b"
        self._subnet = f"10.{random.randrange(64, 255)}.{random.randrange(256)}"
        self.addresses = {node: f"{self._host(node)}:{PORT}" for node in self._nodes}
        self._cut: set[tuple[int, int]] = set()
        try:
            self._make()
        except NoNamespaces:
            self.close()
            raise

    def _make(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self._subnet}.254/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for node in self._nodes:
            self._make_one(node)

    def _make_one(self, node: int) -> None:
        name = self._name(node)
        _ip("netns", "add", name)
        _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", name, "master", self._bridge, "up")
        _ip("-n", name, "addr", "add", f"{self._host(node)}/24", "dev", "eth0")
        for interface in ("lo", "eth0"):
            _ip("-n", name, "link", "set", interface, "up")

    def add(self, node: int) -> str:
        """One more; returns its address."""
        self._nodes.append(node)
        self._make_one(node)
        return f"{self._host(node)}:{PORT}"

    def _name(self, node: int) -> str:
        return f"{self._tag}n{node}"

    def _host(self, node: int) -> str:
        return f"{self._subnet}.{node}"

    def enter(self, node: int) -> Sequence[str]:
        """What a command begins with that runs in the node's namespace."""
        return ("ip", "netns", "exec", self._name(node))

    def cut(self, one: int, other: int) -> None:
        """Nothing passes between these two, in either direction."""
        self.cut_way(one, other)
        self.cut_way(other, one)

    def cut_way(self, sender: int, receiver: int) -> None:
        """What `sender` sends to `receiver` is lost; the other direction stays as it is."""
        hole = ("lladdr", NOBODY, "nud", "permanent", "dev", "eth0")
        _ip("-n", self._name(sender), "neigh", "replace", self._host(receiver), *hole)
        self._cut.add((sender, receiver))

    def mend(self, one: int, other: int) -> None:
        for sender, receiver in ((one, other), (other, one)):
            if (sender, receiver) in self._cut:
                _ip("-n", self._name(sender), "neigh", "del", self._host(receiver), "dev", "eth0")
                self._cut.discard((sender, receiver))

    def isolate(self, node: int) -> None:
        """From the other nodes; workers and clients still reach it."""
        for other in self._nodes:
            if other != node:
                self.cut(node, other)

    def split(self, groups: Sequence[Sequence[int]]) -> None:
        """Nodes pass messages only to those with which they share a group."""
        for one in self._nodes:
            for other in self._nodes:
                if one < other:
                    together = any(one in group and other in group for group in groups)
                    (self.mend if together else self.cut)(one, other)

    def unplug(self, node: int) -> None:
        """Nobody reaches the node, and it reaches nobody."""
        _ip("link", "set", self._name(node), "down")

    def plug(self, node: int) -> None:
        _ip("link", "set", self._name(node), "up")

    def mend_all(self) -> None:
        for sender, receiver in list(self._cut):
            self.mend(sender, receiver)
        for node in self._nodes:
            self.plug(node)

    def close(self) -> None:
        """Processes in the namespaces must have ended before."""
        for node in self._nodes:
            with contextlib.suppress(NoNamespaces):
                _ip("netns", "del", self._name(node))
        with contextlib.suppress(NoNamespaces):
            _ip("link", "del", self._bridge)
        # The kernel takes namespaces apart some time after the command, and the subnet may be chosen again.
        until(lambda: self._tag not in _ip("-o", "link", "show"), "the interfaces are gone")
