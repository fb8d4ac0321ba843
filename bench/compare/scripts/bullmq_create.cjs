// node bullmq_create.cjs JOBS DUE_MS: jobs that are due at one instant, in batches.
const { Queue } = require("bullmq");

const BATCH = 5000;

async function main() {
  const [jobs, dueMs] = process.argv.slice(2).map(Number);
  const queue = new Queue("hot", { connection: { url: process.env.BENCH_URL } });
  for (let first = 0; first < jobs; first += BATCH) {
    const timestamp = Date.now();
    const opts = { timestamp, delay: dueMs - timestamp, removeOnComplete: true };
    await queue.addBulk(Array(Math.min(BATCH, jobs - first)).fill({ name: "noop", data: {}, opts }));
  }
  await queue.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
