"""Runs simulations: `python -m tests.sim --seed 7`, `--seeds 1..100`, `--forever`. Exits with 1 at a violation."""

import argparse
import itertools
import sys
import time
from collections.abc import Iterable

from tests.sim.simulation import simulate
from tests.sim.timeline import Violation


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="one seed; prints its event hash, or its trace if it fails")
    which.add_argument("--seeds", metavar="A..B", help="from A to B, both included")
    which.add_argument("--forever", action="store_true", help="one seed after the other, from the time of day on")
    parser.add_argument("--minutes", type=float, default=5.0, help="simulated minutes with faults (default 5)")
    parser.add_argument("--keep-going", action="store_true", help="go on after a violation")
    given = parser.parse_args()
    seeds: Iterable[int]
    if given.forever:
        seeds = itertools.count(int(time.time()))
    elif given.seeds:
        first, _, last = given.seeds.partition("..")
        seeds = range(int(first), int(last or first) + 1)
    else:
        seeds = (given.seed,)
    return run(seeds, given.minutes, keep_going=given.keep_going)


def run(seeds: Iterable[int], minutes: float, *, keep_going: bool) -> int:
    count, simulated_s, wall_s = 0, 0.0, 0.0
    failed: list[int] = []
    try:
        for seed in seeds:
            count += 1
            try:
                outcome = simulate(seed, fault_s=minutes * 60)
            except Violation as error:
                failed.append(seed)
                print(f"VIOLATION {error}", flush=True)
                if not keep_going:
                    break
                continue
            simulated_s += outcome.simulated_s
            wall_s += outcome.wall_s
            speed = outcome.simulated_s / outcome.wall_s
            print(f"seed {seed} {outcome.digest} {speed:.0f} x, {outcome.events} events; {outcome.summary}", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(
        f"{count} seeds, {len(failed)} violations {failed[:20]}, {simulated_s / 60:.0f} simulated minutes, "
        f"{simulated_s / max(wall_s, 0.001):.0f} simulated seconds a second"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
