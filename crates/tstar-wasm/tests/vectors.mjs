// Holds the module to tests/vectors, and to longer files of the same form:
//
//   node crates/tstar-wasm/tests/vectors.mjs FILE...
//
// The effects, changes, segments, ids, columns and path messages of each log are those of its file.

import assert from "node:assert/strict";
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";

import { load } from "../npm/tstar.js";

const { Tracker, EFFECTS, id: ids } = await load();

const iso = (ms) => new Date(ms).toISOString();

/** Bytes before the message in a path: header and checksum. */
const BEFORE_MESSAGE = 5;

/** The rules of a file in the units of the module. */
const rulesOf = (rules) => ({
  max_gap_ms: rules.max_gap_ms,
  min_stop_ms: rules.min_stop_ms ?? null,
  stop_speed_mps: rules.stop_speed_cmps / 100,
  max_samples: rules.max_samples,
  min_time_ms: rules.min_time_ms,
  max_future_ms: rules.max_future_ms,
  max_accuracy_m: rules.max_accuracy_dm == null ? null : rules.max_accuracy_dm / 10,
  keep_zero_position: !rules.drop_zero_position,
  max_leg_speed_mps: rules.max_leg_speed_cmps == null ? null : rules.max_leg_speed_cmps / 100,
});

/** Records as columns, of which those that no record has are left out. */
function columnsOf(records) {
  const names = { time: "time_ms", log_time: "log_time_ms" };
  const column = (name) => records.map((record) => record[names[name] ?? name]);
  const optional = [
    "speed_mps", "heading_deg", "altitude_m", "accuracy_m", "ignition", "driver", "log_time",
  ];
  const columns = Object.fromEntries(["time", "lat", "lon"].map((name) => [name, column(name)]));
  for (const name of optional) {
    if (column(name).some((value) => value !== undefined)) columns[name] = column(name);
  }
  return { ...columns, device: records.map((record) => record.device_id) };
}

const byBytes = (one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other));

/** Changes as the file has them. */
const changesOf = (tracker) => tracker.changes()
  .sort((one, other) => byBytes(one.device_id, other.device_id))
  .map(({ device_id, taken, events }) => ({
    device_id,
    taken: taken.map((it) => [Date.parse(it.start_time), Date.parse(it.end_time), it.version]),
    segments: events.map(({ id, kind, type, absorbed }) => ({ id, kind, type, absorbed })),
  }));

/** What the file says of a segment, as the module says it. */
function expectedOf(segment) {
  const seconds = (ms) => (ms === undefined ? null : ms / 1000);
  const { ids: points, key, uuid, path, driver_ms, ...it } = segment;
  const [live] = points.filter(([, history]) => history.length % 2 === 1);
  const duration = seconds(it.end_ms - it.start_ms);
  const counted = duration - (it.jump_s ?? 0);
  const position = ([lat, lon]) => ({ lat, lon });
  return {
    id: it.id,
    device_id: it.device_id,
    kind: it.kind,
    t_star: iso(live[0]),
    start_time: iso(it.start_ms),
    end_time: iso(it.end_ms),
    duration_s: duration,
    moving_s: seconds(it.moving_ms),
    idle_s: seconds(it.idle_ms),
    parked_s: seconds(it.parked_ms),
    samples: it.samples,
    distance_m: Math.round(it.distance_m * 10) / 10,
    avg_speed_mps: counted > 0 ? Math.round((it.distance_m / counted) * 100) / 100 : null,
    max_speed_mps: it.max_speed_mps ?? null,
    jumps: it.jumps ?? null,
    driver: it.driver ?? null,
    start: position(it.start),
    end: position(it.end),
    bbox: it.bbox,
    absorbed: points.filter((point) => point !== live)
      .map(([at]) => ids.forms(it.device_id, at).text),
    version: it.version,
  };
}

function checkSegments(tracker, expected) {
  const found = tracker.segments().sort((one, other) =>
    byBytes(one.device_id, other.device_id) ||
    Date.parse(one.start_time) - Date.parse(other.start_time));
  assert.deepEqual(found, expected.map(expectedOf));
  for (const { id, key, uuid, ids: points, path, device_id } of expected) {
    const message = tracker.pathBytes(id).subarray(BEFORE_MESSAGE);
    assert.equal(Buffer.from(message).toString("base64"), path, id);
    const history = points.map(([at, versions]) =>
      ({ id: ids.forms(device_id, at).text, versions }));
    assert.deepEqual(tracker.history(id), history);
    for (const form of [key, uuid].filter(Boolean)) assert.equal(tracker.find(form).id, id);
    for (const [at] of points) assert.equal(tracker.find(ids.forms(device_id, at).text).id, id);
  }
}

/** A log while it is read. */
class Log {
  records = [];
  done = 0;

  constructor({ log, rules }) {
    this.name = log;
    this.tracker = new Tracker(rulesOf(rules));
  }

  /** Applies the records up to here. */
  apply() {
    const { effects } = this.tracker.absorb(columnsOf(this.records));
    this.records.forEach(({ effect }, at) =>
      assert.equal(EFFECTS[effects[at]], effect, `${this.name}: record ${this.done + at}`));
    this.done += this.records.length;
    this.records = [];
  }
}

const counts = { logs: 0, records: 0, changes: 0, segments: 0 };
for (const file of process.argv.slice(2)) {
  let log = null;
  for await (const line of createInterface({ input: createReadStream(file) })) {
    const value = JSON.parse(line);
    if (value.log !== undefined) {
      log = new Log(value);
      counts.logs += 1;
    } else if (value.changes !== undefined) {
      log.apply();
      assert.deepEqual(changesOf(log.tracker), value.changes, log.name);
      counts.changes += value.changes.length;
    } else if (value.segments !== undefined) {
      log.apply();
      checkSegments(log.tracker, value.segments);
      counts.segments += value.segments.length;
      log.tracker.free();
    } else {
      log.records.push(value);
      counts.records += 1;
    }
  }
}
assert(counts.records > 0 && counts.segments > 0, "name a file of tests/vectors");
console.log(Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(", "));
