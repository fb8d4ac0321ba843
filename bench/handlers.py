"""The worker of the benchmarks: a handler that notes when it was called and does nothing else."""

from bench.worker_log import note_confirmations, note_start
from raftsched.client import Context, Worker

# The command line says which nodes.
app = Worker(["127.0.0.1:1"])
note_confirmations(lambda: app.stats.confirmed)


@app.handler("noop", inline=True)
def noop(context: Context, _payload: bytes) -> None:
    note_start(context.execution_id)
