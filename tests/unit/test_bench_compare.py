"""The comparison with peers says what was measured, and what could not be."""

from pathlib import Path
from typing import Any

import pytest

from bench.compare import packages
from bench.compare.packages import CannotInstall, npm_packages, python_packages
from bench.compare.peer import noted_starts, read_noted_starts
from bench.compare.peers import PEERS
from bench.compare.table import markdown, summarize, with_ratios


def result(round_: int, rate: int) -> dict[str, Any]:
    return {
        "round": round_,
        "jobs": 1_000,
        "create_per_s": 10 * rate,
        "drain_per_s": rate,
        "start_delay_ms": {"p50": 500.0, "p99": 1_000.0},
        "cpu_us_per_execution": 20.0,
    }


def system(*rates: int) -> dict[str, Any]:
    each = [result(number, rate) for number, rate in enumerate(rates, 1)]
    return {"copies": 1, "each": each, **summarize(each)}


def test_the_table_has_medians_ranges_and_ratios_within_rounds() -> None:
    systems = with_ratios({"peer": system(100, 50, 80), "raftsched": system(200, 200, 120)}, "raftsched")
    assert systems["raftsched"]["drain_per_s"] == {"median": 200, "min": 120, "max": 200}
    assert systems["peer"]["times_as_fast"] == {"median": 2.5, "min": 1.5, "max": 4.0}
    lines = markdown(systems).splitlines()
    assert lines[2] == "| raftsched | 1 | 1,000 | 2,000 | 200 (120–200) |  | 0.50 / 1.00 | 20.0 |"
    assert lines[3] == "| peer | 1 | 1,000 | 800 | 80 (50–100) | 2.50 (1.50–4.00) | 0.50 / 1.00 | 20.0 |"


def test_a_peer_that_could_not_be_measured_is_named_with_the_reason() -> None:
    failed = {"copies": 1, "each": [], "errors": ["could not be installed: npm is not there"] * 2}
    text = markdown(with_ratios({"raftsched": system(10), "peer": failed}, "raftsched"))
    assert text.count("peer: could not be installed: npm is not there") == 1


def test_ratios_are_left_out_without_a_run_of_our_own() -> None:
    systems = with_ratios({"raftsched": {"errors": ["failed"]}, "peer": system(10)}, "raftsched")
    assert "times_as_fast" not in systems["peer"]


def test_what_cannot_be_installed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(packages.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotInstall, match=r"node is not there"):
        npm_packages("peer", ["package@1.0.0"])
    with pytest.raises(CannotInstall, match=r"apt-get is not there|this is no Debian"):
        packages.unpacked("server", ["server-1"], "usr/bin")


def test_what_is_installed_in_the_wanted_version_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(packages.CACHE_VARIABLE, str(tmp_path))
    (tmp_path / "pip-peer").mkdir()
    (tmp_path / "pip-peer" / "installed.txt").write_text("package==1.0.0\n")
    assert python_packages("peer", ["package==1.0.0"]) == tmp_path / "pip-peer" / "bin"


def test_every_peer_is_pinned_to_one_version() -> None:
    for peer in PEERS.values():
        for package in peer.packages:
            assert "==" in package or "@" in package, package


def test_starts_that_workers_noted_are_counted_and_read(tmp_path: Path) -> None:
    notes = Path(packages.__file__).parent / "scripts" / "start_log.py"
    assert notes.exists()
    (tmp_path / "1.starts").write_bytes(b"\0" * 16)
    (tmp_path / "2.starts").write_bytes(b"\0" * 8)
    assert noted_starts(tmp_path) == 3
    assert list(read_noted_starts(tmp_path)) == [0.0, 0.0, 0.0]
