// Registers a job from Node.js, cancels it, and shows how an error tells its reason: node client.mjs [HOST:PORT ...]
//
// npm install @grpc/grpc-js @grpc/proto-loader
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const PROTO = process.env.RAFTSCHED_PROTO ?? fileURLToPath(new URL("../../proto", import.meta.url));
const ATTEMPTS = 10;
const DEADLINE_MS = 3_000;
const RETRIED = new Set([grpc.status.UNAVAILABLE, grpc.status.DEADLINE_EXCEEDED, grpc.status.RESOURCE_EXHAUSTED]);

const definition = loadSync("raftsched/v1/job.proto", { includeDirs: [PROTO], longs: String, enums: String, oneofs: true });
const { JobService } = grpc.loadPackageDefinition(definition).raftsched.v1;
const addresses = process.argv.length > 2 ? process.argv.slice(2) : ["127.0.0.1:7101", "127.0.0.1:7102", "127.0.0.1:7103"];
const nodes = addresses.map((address) => new JobService(address, grpc.credentials.createInsecure()));

// Any node takes any call; with a request_id in the request a retry on another node cannot do it twice.
async function call(method, request) {
  for (let attempt = 1; ; attempt++) {
    const node = nodes[attempt % nodes.length];
    try {
      return await new Promise((resolve, reject) =>
        node[method](request, { deadline: Date.now() + DEADLINE_MS }, (error, answer) => (error ? reject(error) : resolve(answer))),
      );
    } catch (error) {
      if (!RETRIED.has(error.code) || attempt === ATTEMPTS) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50 * attempt));
    }
  }
}

const inAnHour = Math.floor(Date.now() / 1000) + 3600;
const created = await call("CreateJob", {
  job: { handler: "mail.send", payload: Buffer.from("Ada"), contentType: "text/plain", runAt: { seconds: inAnHour } },
  requestId: randomUUID(),
});
console.log(`registered job ${created.job.id}, ${created.job.state}`);
const cancelled = await call("CancelJob", { id: created.job.id, requestId: randomUUID() });
console.log(`job ${cancelled.job.id} is ${cancelled.job.state}`);
try {
  await call("CreateJob", { job: { handler: "not allowed!" }, requestId: randomUUID() });
} catch (error) {
  console.log(`refused: ${grpc.status[error.code]}: ${error.details}`);
}
nodes.forEach((node) => node.close());
