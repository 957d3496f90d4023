// Holds the module to what tstar made of a log of any length:
//
//   node crates/tstar-wasm/tests/daemon.mjs SAMPLES TRIPS
//
// SAMPLES are NDJSON in the order of arrival, as `tstar simulate` prints them; TRIPS is what `tstar export --kind all
// --format ndjson` says of the store that `tstar ingest` built from them. Every field of every trip and stop is alike.

import assert from "node:assert/strict";
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";

import { load } from "../npm/tstar.js";

const [samples, trips] = process.argv.slice(2);

/** Lines that are applied at once. */
const BATCH = 100_000;

/** Fields that an export adds to a trip. */
const EXTRAS = ["tags", "open", "fresh"];

const lines = (file) => createInterface({ input: createReadStream(file), crlfDelay: Infinity });

/** A sample of a line; one that is not a sample has no time, and takes its place in the log. */
function read(line) {
  let sample = null;
  try {
    sample = JSON.parse(line);
  } catch {
    // Text that is not JSON.
  }
  const { device_id, time, lat, lon } = sample ?? {};
  // Bytes that are not UTF-8 were replaced.
  const isText = typeof device_id === "string" && !line.includes("\ufffd");
  const isSample = isText && [lat, lon].every(Number.isFinite);
  if (!isSample) return { device_id: "unusable", time: NaN, lat: 0, lon: 0 };
  return { ...sample, time: Date.parse(time) };
}

const { Tracker } = await load();
const tracker = new Tracker({ max_memory: 2 ** 31 });
let [records, spent, batch] = [0, 0, []];
const unseen = new Set();
function apply() {
  const column = (name) => batch.map((sample) => sample[name] ?? null);
  const columns = {
    device: column("device_id"), time: column("time"), lat: column("lat"), lon: column("lon"),
    speed_mps: column("speed"), heading_deg: column("heading"), altitude_m: column("altitude"),
    accuracy_m: column("accuracy"), driver: column("driver"), ignition: column("ignition"),
  };
  const began = process.cpuUsage().user;
  tracker.absorb(columns);
  spent += process.cpuUsage().user - began;
  for (const sample of batch) unseen.add(sample.device_id);
  records += batch.length;
  batch = [];
}
for await (const line of lines(samples)) {
  batch.push(read(line));
  if (batch.length === BATCH) apply();
}
apply();

let segments = 0;
let device = null;
let found = [];
for await (const line of lines(trips)) {
  const expected = JSON.parse(line);
  for (const name of EXTRAS) delete expected[name];
  if (expected.device_id !== device) {
    assert.deepEqual(found, [], "no more of the device before");
    device = expected.device_id;
    unseen.delete(device);
    found = tracker.segments(device);
  }
  assert.deepEqual(found.shift(), expected);
  segments += 1;
}
assert.deepEqual(found, []);
// All segments of a long log are more than one answer may have.
for (const other of unseen) {
  assert.deepEqual(typeof other === "string" && other ? tracker.segments(other) : [], []);
}
assert(segments > 0, "there are trips");
console.log(`${records} records, ${segments} segments, ` +
  `${Math.round((records / spent) * 1e6)} records a second of CPU`);
