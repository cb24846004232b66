"""`script/bench`: every figure is a ratio of two measurements taken one after the other in the same call.

The engine and the bare loop take turns, so that what else the machine does meets both. Prints a table to stderr and
stdout, or one JSON object with ``--json``.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from local import postgres

ROOT = Path(__file__).resolve().parent.parent
MS = 1000


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. ``rate`` is the engine's records a second over the bare loop's; ``time`` the reverse."""

    ends: str
    latency_ms: int
    syncs: int
    records: int
    engine_rate: float
    bare_rate: float
    rate: float
    time: float
    cpu_per_1000_ms: float
    bare_cpu_per_1000_ms: float
    postgres_per_1000_ms: float
    cpu: float
    peak_mib: float
    slowest_run: float
    fastest_run: float


def postgres_seconds(pid: int) -> float:
    """CPU seconds of a server and all its processes, the ended ones included."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(stat.parent.name) == pid:
            total += sum(map(int, fields[11:15])) / ticks
        elif int(fields[1]) == pid:
            total += sum(map(int, fields[11:13])) / ticks
    return total


def child(how: str, ends: str, records: int, latency: float, syncs: int, url: str) -> dict[str, Any]:
    """One measurement in a process of its own."""
    task = {"how": how, "ends": ends, "records": records, "latency": latency, "syncs": syncs, "url": url}
    command = [sys.executable, "-W", "ignore", "-m", "bench.measure", json.dumps(task)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"The benchmark failed:\n{done.stderr[-2000:]}")
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def compare(server: postgres.Server, ends: str, records: int, latency: float, syncs: int, url: str, rounds: int) -> Row:
    """Engine and bare loop in turns, ``rounds`` times; the medians of both."""
    engines, bares, database = [], [], []
    for _ in range(rounds):
        bares.append(child("bare", ends, records, latency, syncs, url))
        before = postgres_seconds(server.pid or 0)
        engines.append(child("engine", ends, records, latency, syncs, url))
        database.append(postgres_seconds(server.pid or 0) - before)
    whole = records * syncs
    seconds, bare_seconds = (statistics.median(one["seconds"] for one in many) for many in (engines, bares))
    cpu, bare_cpu = (statistics.median(one["cpu"] for one in many) / whole * 1e6 for many in (engines, bares))
    server_cpu = statistics.median(database) / whole * 1e6
    durations = engines[-1]["durations"]
    return Row(
        ends=ends,
        latency_ms=round(latency * MS),
        syncs=syncs,
        records=records,
        engine_rate=whole / seconds,
        bare_rate=whole / bare_seconds,
        rate=bare_seconds / seconds,
        time=seconds / bare_seconds,
        cpu_per_1000_ms=cpu,
        bare_cpu_per_1000_ms=bare_cpu,
        postgres_per_1000_ms=server_cpu,
        cpu=(cpu + server_cpu) / bare_cpu,
        peak_mib=max(one["peak_mib"] for one in engines),
        slowest_run=max(durations),
        fastest_run=min(durations),
    )


@contextmanager
def http_double(latency: float) -> Iterator[str]:
    """A server in a process of its own that answers after ``latency``."""
    command = [sys.executable, "-m", "bench.doubles", str(latency)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None  # noqa: S101 - asked for just before
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.kill()


TABLE = (
    "ends   latency  syncs  records   engine/s    bare/s   rate  time  "
    "cpu/1000  bare cpu  postgres   cpu   peak MiB  fastest-slowest run"
)


def line(row: Row) -> str:
    return (
        f"{row.ends:6} {row.latency_ms:4} ms  {row.syncs:5}  {row.records:7}  "
        f"{row.engine_rate:9.0f} {row.bare_rate:9.0f}  "
        f"{row.rate:5.2f} {row.time:5.2f}  {row.cpu_per_1000_ms:5.0f} ms  {row.bare_cpu_per_1000_ms:5.0f} ms  "
        f"{row.postgres_per_1000_ms:5.0f} ms  {row.cpu:4.2f}  {row.peak_mib:7.0f}   "
        f"{row.fastest_run:.1f}-{row.slowest_run:.1f} s"
    )


def plans(quick: bool) -> list[tuple[str, int, float, int]]:
    """(ends, records, latency, syncs) of every comparison."""
    if quick:
        return [("memory", 500, 0.0, 1), ("http", 500, 0.0, 1), ("memory", 100, 0.02, 5)]
    singles = [(ends, 2_000, latency, 1) for ends in ("memory", "http") for latency in (0.0, 0.02)]
    large = [
        ("memory", 20_000, 0.0, 1),
        ("http", 20_000, 0.0, 1),
        ("memory", 20_000, 0.02, 1),
        ("memory", 100_000, 0.0, 1),
    ]
    return [*singles, *large, ("memory", 400, 0.02, 50)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="script/bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    parser.add_argument("--rounds", type=int, default=3, help="turns of engine and bare loop (3)")
    asked = parser.parse_args()
    rows = []
    with postgres.temporary() as server:
        server.ensure_database()
        os.environ.update(DATABASE_URL=server.url(), VIGIL_ENV="test", DJANGO_SETTINGS_MODULE="config.settings")
        subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], cwd=ROOT, check=True)
        print(TABLE, file=sys.stderr)
        for ends, records, latency, syncs in plans(asked.quick):
            rounds = 1 if records >= 20_000 else asked.rounds
            with http_double(latency) as url:
                row = compare(server, ends, records, latency, syncs, url, rounds)
            rows.append(row)
            print(line(row), file=sys.stderr)
    if asked.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}))


if __name__ == "__main__":
    main()
