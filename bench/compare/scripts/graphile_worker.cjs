// One worker process, with the settings that the manual's page on performance measures with.
const { run, Logger } = require("graphile-worker");
const { noteStart } = require("./start_log.cjs");

async function main() {
  const runner = await run({
    preset: {
      worker: {
        connectionString: process.env.BENCH_URL,
        concurrentJobs: 24,
        maxPoolSize: 25,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        // The default of 2 s would be added to the drain.
        pollInterval: 100,
        // A line for each job would be most of the work.
        logger: new Logger(() => (level, message) => {
          if (level === "error" || level === "warning") console.error(message);
        }),
      },
    },
    taskList: { noop: () => noteStart() },
  });
  await runner.promise;
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
