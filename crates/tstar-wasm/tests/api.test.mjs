// The npm package: `node --test crates/tstar-wasm/tests/api.test.mjs`.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { TstarError, load } from "../npm/tstar.js";

const START = Date.parse("2026-11-20T20:00:00Z");
const minutes = (list) => list.map((minute) => START + minute * 60_000);
const fill = (rows, value) => new Array(rows).fill(value);

/** Samples of a device at these minutes. */
const at = (list, others = {}) => ({
  device: "truck-17", time: minutes(list), lat: fill(list.length, 52.5),
  lon: fill(list.length, 13.4), ...others,
});

const fails = (run, says) => assert.throws(run, (error) => {
  assert(error instanceof TstarError, error.stack);
  assert.match(error.message, says);
  return true;
});

test("the example of the README prints what it shows", async () => {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const [, code] = /```js\n([^]*?)```/.exec(readme);
  const printed = [];
  const body = code.replace(/import .*\n/, "");
  const AsyncFunction = (async () => {}).constructor;
  await new AsyncFunction("load", "console", body)(load, {
    log: (...values) => printed.push(values),
  });
  const shown = [...code.matchAll(/console\.log\(.*\/\/ (.*)/g)].map(([, text]) => text);
  const { inspect } = await import("node:util");
  const text = (value) => (typeof value === "string" ? value : inspect(value));
  assert.deepEqual(printed.map((values) => values.map(text).join(" ")), shown);
  assert.equal(shown.length, 6);
});

test("a module is loaded from a URL, bytes or a compiled module", async () => {
  const url = new URL("../npm/tstar.wasm", import.meta.url);
  const bytes = await readFile(url);
  for (const source of [url, url.href, bytes, await WebAssembly.compile(bytes)]) {
    const { EFFECTS } = await load(source);
    assert.deepEqual(EFFECTS.slice(0, 3), ["new", "end", "inside"]);
  }
  await assert.rejects(load(new Uint8Array(8)), WebAssembly.CompileError);
  const other = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]);
  await assert.rejects(load(other), /is not of this version/);
});

test("trackers are apart, and samples may come in any number of calls", async () => {
  const { Tracker } = await load();
  const [one, other] = [new Tracker(), new Tracker({ max_gap_ms: 60_000 })];
  for (const minute of [10, 12, 0, 2, 6]) {
    one.absorb(at([minute]));
    other.absorb(at([minute]));
  }
  const whole = new Tracker();
  whole.absorb(at([10, 12, 0, 2, 6]));
  assert.deepEqual(one.segments(), whole.segments());
  assert.equal(other.segments().length, 5);
  assert.equal(one.segments()[0].version, 8);
  one.free();
  fails(() => one.segments(), /was freed/);
  assert.equal(other.segments("truck-17").length, 5);
  assert.deepEqual(other.segments("bus"), []);
});

test("more samples than one call takes are applied in order", async () => {
  const { Tracker } = await load();
  const tracker = new Tracker();
  const rows = 40_000;
  const device = Array.from({ length: rows }, (_, row) => `d${row % 777}`);
  const time = Float64Array.from({ length: rows }, (_, row) => START + row * 100);
  const lat = Float64Array.from({ length: rows }, (_, row) => (row === 30_000 ? 91 : 52));
  const lon = new Float32Array(rows).fill(13);
  const { effects, counts, refused } = tracker.absorb({ device, time, lat, lon });
  assert.deepEqual(counts, { new: 777, end: rows - 778, out_of_range: 1 });
  assert.equal(effects.length, rows);
  const message = "lat is 91; it must be -90 to 90";
  assert.deepEqual(refused, [{ row: 30_000, reason: "out_of_range", message }]);
  const segments = tracker.segments();
  assert.equal(segments.length, 777);
  assert.equal(segments.reduce((sum, { samples }) => sum + samples, 0), rows - 1);
  const last = segments.find(({ device_id }) => device_id === device.at(-1));
  assert.equal(last.version, 2 * (rows - 1));
});

test("readings, drivers and ignition come back from the path", async () => {
  const { Tracker, decodePath } = await load();
  const tracker = new Tracker();
  tracker.absorb(at([0, 1, 2], {
    speed_mps: [12.345, null, NaN], heading_deg: [359.96, undefined, 90],
    altitude_m: Float32Array.of(1, 2, 3), ignition: [true, null, true],
    driver: ["ann", null, "bob"],
  }));
  const [{ id }] = tracker.segments();
  const path = tracker.path(id);
  assert.deepEqual([...path.time], minutes([0, 1, 2]));
  assert.deepEqual([...path.speed_mps], [12.35, NaN, NaN]);
  assert.deepEqual([...path.heading_deg], [0, NaN, 90]);
  assert.deepEqual([...path.altitude_m], [1, 2, 3]);
  assert.deepEqual(path.driver, ["ann", null, "bob"]);
  assert.deepEqual(path.ignition, [true, null, true]);
  assert.deepEqual(path.class, ["moving", "moving", "moving"]);
  assert.deepEqual(decodePath(tracker.pathBytes(id)), path);
  assert.equal(tracker.path("truck-17~20261120T195900.000Z"), null);
});

test("ids have the forms of tstar, and lead to trips in each of them", async () => {
  const { Tracker, id } = await load();
  const tracker = new Tracker();
  tracker.absorb(at([10, 12, 0, 2, 6]));
  const forms = id.forms("truck-17", START);
  assert.equal(forms.key, "ehp7aorb5koje040000q3ukbbo00");
  for (const form of Object.values(forms)) {
    assert.equal(tracker.find(form).match, "current", form);
    assert.equal(id.parse(form).t_star_ms, START);
    assert(id.isOf(form, "truck-17") && !id.isOf(form, "truck-18"));
  }
  assert.equal(tracker.find(id.forms("truck-17", minutes([10])[0]).uuid).match, "retired");
  assert.equal(tracker.find(id.forms("truck-17", minutes([1])[0]).text).match, "covers");
  assert.equal(tracker.find(id.forms("bus", START).text), null);
  assert.equal(id.prefix("a b", "2026-11"), "a~20b~202611");
  assert.equal(id.range("truck-17~2026").from_ms, Date.parse("2026-01-01T00:00:00Z"));
  assert.deepEqual(id.forms("d", -1).uuid, null);
  fails(() => id.parse("truck"), /"truck" is not a trip id/);
  fails(() => id.forms("d", 0.5), /t_star_ms: 0.5 is not a whole number/);
});

test("what is wrong with a call is said, and nothing of it is applied", async () => {
  const { Tracker, decodePath } = await load();
  fails(() => new Tracker({ max_gap_ms: 0 }), /max_gap_ms must be 1 to 21600000, not 0/);
  fails(() => new Tracker({ max_gap: 1 }), /unknown field `max_gap`/);
  fails(() => new Tracker({ stop_speed_mps: "1" }), /rules: invalid type/);
  const tracker = new Tracker();
  fails(() => tracker.absorb({ ...at([0]), sped: [1] }), /`sped` is not a column; there are: time/);
  fails(() => tracker.absorb(at([0, 1], { lat: [1] })), /column lat has 1 rows, column time 2/);
  fails(() => tracker.absorb(at([0], { lat: ["52"] })), /column lat has 52 in row 0/);
  fails(() => tracker.absorb(at([0], { lon: 13 })), /column lon must be an array/);
  fails(() => tracker.absorb(at([0], { device: [7] })), /column device has 7 in row 0/);
  fails(() => tracker.absorb(at([0], { device: undefined })), /column device must be an array/);
  fails(() => tracker.absorb(at([0], { ignition: ["on"] })), /column ignition has on in row 0/);
  fails(() => tracker.absorb(at([0], { device: "\ud800" })), /names: /);
  assert.deepEqual(tracker.segments(), []);
  const { refused } = tracker.absorb(at([0, 1, 2], {
    time: [START + 0.5, NaN, 1e300], device: ["", "a\0", "d"],
  }));
  assert.deepEqual(refused.map(({ reason }) => reason), ["bad_time", "bad_time", "bad_time"]);
  assert.match(refused[0].message, /time is 1795204800000.5; it must be a whole number of ms/);
  const bad = tracker.absorb(at([0, 1], { device: ["", "x".repeat(257)] }));
  assert.deepEqual(bad.counts, { bad_device_id: 2 });
  fails(() => decodePath(new Uint8Array(0)), /the path is empty/);
  fails(() => decodePath(Uint8Array.of(9, 1, 2, 3, 4, 5)), /the path begins with 0x09/);
  fails(() => decodePath("bytes"), /must be an ArrayBuffer or a typed array/);
});

test("what becomes a number only when it is read makes no module fail", async () => {
  const { Tracker } = await load();
  const tracker = new Tracker({ max_gap_ms: 300_000n });
  tracker.absorb(at([0, 1]));
  const sums = tracker.sums(START, START + 60_000);
  assert.deepEqual(tracker.sums(BigInt(START), BigInt(START) + 60_000n), sums);
  for (const odd of [Symbol("a"), Object.create(null)]) {
    assert.throws(() => tracker.sums(odd, 2), TypeError);
  }
  const reenters = { valueOf: () => (tracker.absorb(at([2])), START) };
  tracker.sums(reenters, START + 1);
  assert.equal(tracker.segments()[0].samples, 3);
  for (const value of [NaN, Infinity]) {
    fails(() => new Tracker({ min_stop_ms: value }), /rule min_stop_ms is \w+; it must be a number/);
  }
});

test("a trip is verified from its records alone", async () => {
  const { verify } = await load();
  const text = await readFile(new URL("evidence.json", import.meta.url), "utf8");
  const verified = verify(text);
  assert.deepEqual([verified.follows, verified.records, verified.kept], [true, 5, 5]);
  const evidence = JSON.parse(text);
  evidence.rules.max_gap_ms = 60_000;
  const { follows, differences } = verify(JSON.stringify(evidence));
  assert(!follows && differences.length > 0);
  fails(() => verify("{"), /it is not evidence of a trip.*EOF/);
  fails(() => verify(JSON.stringify({ ...evidence, format: "tstar-trip/2" })), /`tstar-trip\/2`/);
});

test("memory is limited before samples are applied", async () => {
  const { Tracker } = await load();
  const tracker = new Tracker({ max_memory: 20_000_000 });
  const rows = 100_000;
  const device = Array.from({ length: rows }, (_, row) => `device-${row}`);
  const samples = { ...at(fill(rows, 0)), device };
  fails(() => tracker.absorb(samples), /16384 samples more could exceed the 20000000 bytes/);
  fails(() => tracker.absorb(samples), /raise max_memory/);
  const applied = tracker.segments().length;
  assert(applied > 0 && applied % 16_384 === 0, `${applied}`);
  // It still answers, and takes what fits.
  assert.deepEqual(tracker.absorb(at([5], { device: "device-0" })).counts, { end: 1 });
});

/** Random numbers from a seed. */
function* random(seed) {
  for (let state = seed; ;) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    yield state / 0x7fffffff;
  }
}

test("no bytes of a path, rules or ids make the module fail", async () => {
  const { Tracker, decodePath, id } = await load();
  const tracker = new Tracker();
  tracker.absorb(at([0, 1, 2, 3, 40, 41], { driver: ["a", "b", "a", null, "c", "c"] }));
  const bytes = tracker.pathBytes(tracker.segments()[0].id);
  const next = random(52);
  const draw = (most) => Math.floor(next.next().value * most);
  let errors = 0;
  const tried = (run) => {
    try {
      run();
    } catch (error) {
      assert(error instanceof TstarError, error.stack);
      assert.doesNotMatch(error.message, /the module failed/);
      errors += 1;
    }
  };
  for (let round = 0; round < 20_000; round += 1) {
    const damaged = bytes.slice(0, bytes.length - draw(3));
    for (let flips = draw(4); flips >= 0; flips -= 1) damaged[draw(damaged.length)] = draw(256);
    tried(() => decodePath(damaged));
    const text = String.fromCharCode(...Array.from({ length: draw(30) }, () => 32 + draw(96)));
    tried(() => tracker.find(text));
    tried(() => id.range(text));
    tried(() => tracker.sums(draw(9e15) - 4e15, draw(9e15) - 4e15));
  }
  assert(errors > 40_000, `${errors}`);
  assert.equal(tracker.segments().length, 2);
});

test("samples with any values make the module fail nowhere", async () => {
  const { Tracker } = await load();
  const next = random(7);
  const draw = (list) => list[Math.floor(next.next().value * list.length)];
  const odd = [0, -0, NaN, Infinity, -Infinity, 1e308, -1, 90, 180, 360, START, START + 1, 2 ** 53];
  for (let round = 0; round < 200; round += 1) {
    const tracker = new Tracker({
      max_gap_ms: draw([1, 60_000, 21_600_000]), min_stop_ms: draw([null, 1, 43_200_000]),
      max_samples: draw([1, 3, 2_000_000]), stop_speed_mps: draw([0, 0.5, 1000]),
      max_leg_speed_mps: draw([null, 0, 50]), min_time_ms: 0,
    });
    // Mostly values that a sample may have, so that many are kept.
    const column = (good, some = odd) =>
      Array.from({ length: 300 }, () => draw(next.next().value < 0.04 ? some : good));
    const times = minutes([0, 1, 2, 5, 9, 30, 240, 1440, 1441, ...Array(99).keys()]);
    const { effects } = tracker.absorb({
      device: column(["a", "b"], ["", "\0"]), time: column(times), lat: column([1, 2, 3]),
      lon: column([1, 2, 3]), speed_mps: column([0, 9, NaN]), heading_deg: column([0, 359.99]),
      altitude_m: column([-5]), accuracy_m: column([4]), ignition: column([true, false, null], [null]),
      driver: column(["ann", "", null], ["x".repeat(300)]), log_time: column([NaN]),
    });
    assert.equal(effects.length, 300);
    const kept = tracker.segments().reduce((sum, { samples }) => sum + samples, 0);
    assert(kept > 0 && tracker.changes().length > 0);
    for (const { id } of tracker.segments()) assert(tracker.path(id).time.length > 0);
    tracker.free();
  }
});
