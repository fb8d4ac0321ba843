// Notes when handlers are called: milliseconds since the epoch as doubles, appended to a file of this process.
const fs = require("fs");
const path = require("path");

const file = path.join(process.env.BENCH_STARTS, `${process.pid}.starts`);
let starts = [];

function flush() {
  if (starts.length) {
    const noted = Float64Array.from(starts);
    starts = [];
    fs.appendFileSync(file, Buffer.from(noted.buffer));
  }
}

exports.noteStart = () => {
  starts.push(performance.timeOrigin + performance.now());
};
setInterval(flush, 50).unref();
process.on("exit", flush);
