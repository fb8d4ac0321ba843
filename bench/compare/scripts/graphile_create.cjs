// node graphile_create.cjs JOBS DUE_MS: jobs that are due at one instant, in batches.
const { makeWorkerUtils, Logger } = require("graphile-worker");

const BATCH = 5000;

async function main() {
  const [jobs, dueMs] = process.argv.slice(2).map(Number);
  const utils = await makeWorkerUtils({
    connectionString: process.env.BENCH_URL,
    logger: new Logger(() => () => {}),
  });
  await utils.migrate();
  const job = { identifier: "noop", payload: {}, runAt: new Date(dueMs) };
  for (let first = 0; first < jobs; first += BATCH) {
    await utils.addJobs(Array(Math.min(BATCH, jobs - first)).fill(job));
  }
  await utils.release();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
