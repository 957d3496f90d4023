// Samples of fleets to measure with, and a tstar that serves them.

const { spawn, spawnSync } = require("node:child_process");
const { mkdtempSync, rmSync, createWriteStream } = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");

const DAY_MS = 86_400_000;
const program = process.env.TSTAR_TEST_BIN;

/** A folder that ends with the process. */
function folder() {
  const path = mkdtempSync(join(tmpdir(), "tstar-page-"));
  process.on("exit", () => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Numbers from 0 to 1, the same each time. */
function random() {
  let state = 1;
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
}

/**
 * Writes the samples of a fleet around a town: each device drove yesterday, and again until a
 * moment ago; one in three stands since then. Of some, the middle of yesterday's trip came late.
 */
async function writeFleet(path, devices) {
  const [file, next, now] = [createWriteStream(path), random(), Date.now()];
  const yesterday = Math.floor(now / DAY_MS) * DAY_MS - DAY_MS / 2;
  for (let nth = 1; nth <= devices; nth += 1) {
    const [lat, lon] = [48 + next() * 6, 7 + next() * 8];
    const drive = (fromMs, order, speed) => {
      for (const at of order) {
        const sample = {
          device_id: `truck-${nth}`, time: new Date(fromMs + at * 60_000).toISOString(),
          lat: lat + (speed ? at * 0.004 : 0), lon, speed, ignition: speed > 0, driver: "Ana",
        };
        file.write(`${JSON.stringify(sample)}\n`);
      }
    };
    const upTo = (samples) => [...Array(samples).keys()];
    const isLate = (at) => nth % 50 === 1 && at >= 5 && at < 10;
    drive(yesterday, upTo(15).toSorted((a, b) => isLate(a) - isLate(b)), 8);
    drive(now - 12 * 60_000, upTo(5), 8);
    drive(now - 7 * 60_000, upTo(7), nth % 3 ? 8 : 0);
    if (file.writableNeedDrain) await new Promise((done) => file.once("drain", done));
  }
  await new Promise((done) => file.end(done));
}

/** Writes a trip of a sample each second that reports its speed. */
async function writeLong(path, samples) {
  const file = createWriteStream(path);
  const from = Math.floor(Date.now() / DAY_MS - 1) * DAY_MS;
  for (let at = 0; at < samples; at += 1) {
    const sample = {
      device_id: "train", time: new Date(from + at * 1000).toISOString(),
      lat: 47 + Math.sin(at / 700) * 0.5, lon: 8 + at / 4e4, speed: 20 + 10 * Math.sin(at / 60),
    };
    file.write(`${JSON.stringify(sample)}\n`);
    if (file.writableNeedDrain) await new Promise((done) => file.once("drain", done));
  }
  await new Promise((done) => file.end(done));
  return `train~${new Date(from).toISOString().replaceAll(/[-:]/g, "")}`;
}

/** Runs a command of tstar to its end. */
function run(words, cwd) {
  const ran = spawnSync(program, words, { cwd, encoding: "utf8" });
  if (ran.status !== 0) throw new Error(`tstar ${words.join(" ")}: ${ran.stderr}`);
  return ran.stdout;
}

/** Starts a server; returns its process and its URL. */
async function listening(words, cwd) {
  const child = spawn(program, words, { cwd, stdio: ["ignore", "ignore", "pipe"] });
  process.on("exit", () => child.kill("SIGKILL"));
  let said = "";
  const url = await new Promise((done, failed) => {
    child.stderr.on("data", (text) => {
      said += text;
      const [, found] = /listening on (http:\/\/[\d.:]+)/.exec(said) ?? [];
      if (found) done(found);
    });
    child.on("exit", () => failed(new Error(`tstar ${words.join(" ")} ended: ${said}`)));
  });
  return { child, url };
}

/** A server over a file with these samples. */
async function overFile(cwd) {
  run(["ingest", "samples.ndjson", "--store", "sqlite:trips.db"], cwd);
  return listening(["serve", "--store", "sqlite:trips.db", "--listen", "127.0.0.1:0"], cwd);
}

module.exports = { folder, writeFleet, writeLong, overFile };
