"""A Dask scheduler and workers for tests: prints its address; each line on standard input kills the next worker.

A killed worker is replaced at once, like a machine that joins. There are no nannies: a nanny gives up if its worker is
killed before it has joined.
"""

from __future__ import annotations

import subprocess
import sys

from distributed import LocalCluster


def worker(address: str) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-m", "distributed.cli.dask_worker", address]
    quiet = ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
    return subprocess.Popen([*program, *quiet], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    # `tls` after the number: certificates are those of Dask's own configuration, of the workers too.
    protocol = f"{sys.argv[2]}://" if len(sys.argv) > 2 else None
    with LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50, protocol=protocol) as cluster:
        workers = [worker(cluster.scheduler_address) for _ in range(int(sys.argv[1]))]
        print(cluster.scheduler_address, flush=True)
        for turn, _ in enumerate(sys.stdin):
            number = turn % len(workers)
            workers[number].kill()
            workers[number].wait()
            print(workers[number].pid, flush=True)
            workers[number] = worker(cluster.scheduler_address)
        for one in workers:
            one.terminate()
            one.wait()
