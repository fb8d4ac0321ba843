// One worker process. Finished jobs are removed, as the manual advises ("Auto-removal of jobs").
const { Worker } = require("bullmq");
const { noteStart } = require("./start_log.cjs");

const worker = new Worker("hot", async () => noteStart(), {
  connection: { url: process.env.BENCH_URL, maxRetriesPerRequest: null },
  concurrency: 100,
  removeOnComplete: { count: 0 },
});
worker.on("error", (error) => console.error(error));
process.on("SIGTERM", () => worker.close().then(() => process.exit(0)));
