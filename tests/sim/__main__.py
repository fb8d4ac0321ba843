"""Runs simulations: `python -m tests.sim --seed 7`, `--seeds 1..100 --jobs 2`, `--forever`. Exits with 1 at a
violation."""

import argparse
import itertools
import multiprocessing
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from tests.sim.simulation import Outcome, simulate
from tests.sim.timeline import Violation


@dataclass(frozen=True, slots=True)
class Verdict:
    """On one seed: what came of it, or how it broke a promise."""

    seed: int
    cpu_s: float
    outcome: Outcome | None = None
    violation: str = ""

    def line(self) -> str:
        if self.outcome is None:
            return f"VIOLATION {self.violation}"
        found = self.outcome
        return (
            f"seed {self.seed} {found.digest} {found.simulated_s / self.cpu_s:.0f} x, {found.events} events; "
            f"{found.summary}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="one seed; prints its event hash, or its trace if it fails")
    which.add_argument("--seeds", metavar="A..B", help="from A to B, both included")
    which.add_argument("--forever", action="store_true", help="one seed after the other, from the time of day on")
    parser.add_argument("--minutes", type=float, default=5.0, help="simulated minutes with faults (default 5)")
    parser.add_argument("--keep-going", action="store_true", help="go on after a violation")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--quiet", action="store_true", help="a short line for each seed")
    given = parser.parse_args()
    seeds: Iterable[int]
    if given.forever:
        seeds = itertools.count(int(time.time()))
    elif given.seeds:
        first, _, last = given.seeds.partition("..")
        seeds = range(int(first), int(last or first) + 1)
    else:
        seeds = (given.seed,)
    return run(verdicts(seeds, given.minutes, given.jobs), keep_going=given.keep_going, quiet=given.quiet)


def judge(seed: int, *, minutes: float) -> Verdict:
    """Runs one seed."""
    began_s = time.process_time()
    try:
        outcome = simulate(seed, fault_s=minutes * 60)
    except Violation as error:
        return Verdict(seed, time.process_time() - began_s, violation=str(error))
    except Exception:  # noqa: BLE001  the simulator's own fault, perhaps; other seeds may go on
        return Verdict(seed, time.process_time() - began_s, violation=f"seed {seed} ended: {traceback.format_exc()}")
    return Verdict(seed, time.process_time() - began_s, outcome)


def verdicts(seeds: Iterable[int], minutes: float, jobs: int) -> Iterator[Verdict]:
    """In the order in which they come."""
    one = partial(judge, minutes=minutes)
    if jobs <= 1:
        yield from map(one, seeds)
        return
    # Now and then a new process: what seeds leave behind in memory slows later ones down.
    with multiprocessing.get_context("forkserver").Pool(jobs, maxtasksperchild=20) as pool:
        yield from pool.imap_unordered(one, seeds)


def run(found: Iterable[Verdict], *, keep_going: bool, quiet: bool) -> int:
    count, simulated_s, cpu_s = 0, 0.0, 0.0
    failed: list[int] = []
    try:
        for verdict in found:
            count += 1
            cpu_s += verdict.cpu_s
            if verdict.outcome is None:
                failed.append(verdict.seed)
                print(verdict.line(), flush=True)
                if not keep_going:
                    break
                continue
            simulated_s += verdict.outcome.simulated_s
            print(f"seed {verdict.seed} ok {verdict.cpu_s:.1f} s" if quiet else verdict.line(), flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(
        f"{count} seeds, {len(failed)} violations {failed[:20]}, {simulated_s / 60:.0f} simulated minutes, "
        f"{cpu_s:.0f} s of CPU, {simulated_s / max(cpu_s, 0.001):.0f} simulated seconds a second"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
