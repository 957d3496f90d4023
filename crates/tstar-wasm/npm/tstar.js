// Trips with lasting ids from location samples in any order of arrival: tstar's core as WebAssembly.
// tstar.d.ts describes what this module exports, README.md shows it.

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Version of the interface of tstar.wasm that this file calls. */
const ABI = 1;
/** Samples of one call: more are sent in several. */
const CHUNK = 16_384;
const NONE = 0xffffffff;

/** Columns of numbers, of which NaN is none, in the order in which the module expects them. */
const NUMBERS = ["speed_mps", "heading_deg", "altitude_m", "accuracy_m", "log_time"];
const [DEVICE_BIT, DRIVER_BIT, IGNITION_BIT] = [5, 6, 7].map((bit) => 1 << bit);
const KNOWN = ["time", "lat", "lon", ...NUMBERS, "device", "driver", "ignition"];

/** Columns of a decoded path, in the order in which the module writes them. */
const POINTS = [
  "time", "lat", "lon", "speed_mps", "heading_deg", "altitude_m", "accuracy_m", "version",
];
const CLASSES = ["moving", "slow", "separator"];

/** An error of tstar: what failed, the value, and the next step. */
export class TstarError extends Error {
  name = "TstarError";
}

async function compiled(source) {
  if (source instanceof WebAssembly.Module) return source;
  if (ArrayBuffer.isView(source) || source instanceof ArrayBuffer) {
    return WebAssembly.compile(source);
  }
  if (typeof Response !== "undefined" && source instanceof Response) return fromResponse(source);
  const url = new URL(source, import.meta.url);
  // Node fetches no files.
  if (url.protocol === "file:" && typeof process !== "undefined" && process.versions?.node) {
    const { readFile } = await import("node:fs/promises");
    return WebAssembly.compile(await readFile(url));
  }
  return fromResponse(await fetch(url));
}

async function fromResponse(response) {
  if (!response.ok) {
    throw new TstarError(`${response.url} answered ${response.status}; pass load() its URL or bytes`);
  }
  // Servers that do not know the type would fail compileStreaming.
  return WebAssembly.compile(await response.arrayBuffer());
}

/**
 * Loads the module: from tstar.wasm next to this file, or from a URL, a response, bytes or a
 * compiled module. Each call gives one with its own memory.
 */
export async function load(source = new URL("./tstar.wasm", import.meta.url)) {
  const { exports } = await WebAssembly.instantiate(await compiled(source), {});
  if (exports.tstar_abi?.() !== ABI) {
    throw new TstarError("tstar.wasm is not of this version; install both files from one package");
  }
  return new Module(exports);
}

/** A loaded module. */
class Module {
  #exports;
  #failed = null;

  constructor(exports) {
    this.#exports = exports;
    const module = this;
    /** Names of the effects of samples, by number. */
    this.EFFECTS = Object.freeze(this.json("tstar_effects"));
    this.Tracker = class extends Tracker {
      constructor(rules) {
        super(module, rules);
      }
    };
    this.id = Object.freeze({
      forms: (device, tStarMs) => this.json("tstar_id_forms", String(device), Number(tStarMs)),
      parse: (id) => this.json("tstar_parse_id", String(id)),
      isOf: (id, device) => this.json("tstar_is_id_of", JSON.stringify([String(id), String(device)])),
      prefix: (device, date) =>
        this.json("tstar_id_prefix", JSON.stringify([String(device), String(date)])),
      range: (prefix) => this.json("tstar_prefix_range", String(prefix)),
    });
    this.decodePath = (bytes) => points(this.call("tstar_decode_path", bytesOf(bytes)));
    this.verify = (evidence) => {
      const verified = this.json("tstar_verify", String(evidence));
      return { follows: verified.differences.length === 0, ...verified };
    };
    Object.freeze(this);
  }

  /** Makes room for an input, has it written, calls a function, and copies the answer. */
  write(name, length, fill, ...values) {
    if (this.#failed) {
      throw new TstarError(`the module failed before (${this.#failed}); load() another one`);
    }
    const { memory, [name]: called, tstar_input, tstar_output, tstar_output_length } = this.#exports;
    try {
      const at = tstar_input(length);
      if (at === 0) throw new TstarError(`no room for ${length} bytes; at most 128 MiB are read at once`);
      fill(new Uint8Array(memory.buffer, at, length));
      const isError = called(...values) !== 0;
      // The call may have moved the memory.
      const answer = new Uint8Array(memory.buffer, tstar_output() >>> 0, tstar_output_length() >>> 0);
      if (isError) throw new TstarError(decoder.decode(answer));
      return answer.slice();
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError)) throw error;
      // What a trap leaves behind is not valid.
      this.#failed = error.message;
      throw new TstarError(`the module failed: ${this.#failed}; load() another one`, { cause: error });
    }
  }

  call(name, input = "", ...values) {
    const bytes = typeof input === "string" ? encoder.encode(input) : input;
    return this.write(name, bytes.length, (to) => to.set(bytes), ...values);
  }

  json(name, input, ...values) {
    return JSON.parse(decoder.decode(this.call(name, input, ...values)));
  }
}

/** Frees what was not freed by hand. */
const registry = new FinalizationRegistry(({ module, handle }) => {
  try {
    module.call("tstar_free_tracker", "", handle);
  } catch {
    // The module failed, and its memory goes with it.
  }
});

/** The trips and stops of devices. */
class Tracker {
  #module;
  #handle;

  constructor(module, rules = {}) {
    this.#module = module;
    const answer = module.call("tstar_new_tracker", JSON.stringify(rules, rule));
    this.#handle = new DataView(answer.buffer).getUint32(0, true);
    registry.register(this, { module, handle: this.#handle }, this);
  }

  #live() {
    if (this.#handle === null) throw new TstarError("the tracker was freed; make another one");
    return this.#handle;
  }

  #apply(batch, from, rows) {
    const { length, columns, fill } = batch.chunk(from, rows);
    try {
      return this.#module.write("tstar_absorb", length, fill, this.#live(), rows, columns);
    } catch (error) {
      if (from > 0) error.message += `; the ${from} samples before row ${from} are applied`;
      throw error;
    }
  }

  absorb(samples) {
    const batch = new Batch(samples);
    const effects = new Uint8Array(batch.rows);
    const refused = [];
    for (let from = 0; from < batch.rows; from += CHUNK) {
      const rows = Math.min(CHUNK, batch.rows - from);
      const answer = this.#apply(batch, from, rows);
      effects.set(answer.subarray(0, rows), from);
      for (const it of JSON.parse(decoder.decode(answer.subarray(rows)))) {
        refused.push({ ...it, row: it.row + from });
      }
    }
    const counts = {};
    for (const effect of effects) {
      const name = this.#module.EFFECTS[effect];
      counts[name] = (counts[name] ?? 0) + 1;
    }
    return { effects, counts, refused };
  }

  segments(device) {
    const input = device === undefined ? "" : named("device", device);
    return this.#module.json("tstar_segments", input, this.#live());
  }

  sums(fromMs, uptoMs, device) {
    const input = device === undefined ? "" : named("device", device);
    // Before the call: what a value does when it becomes a number may call the module.
    const [from, upto] = [Number(fromMs), Number(uptoMs)];
    return this.#module.json("tstar_sums", input, this.#live(), from, upto);
  }

  changes() {
    return this.#module.json("tstar_changes", "", this.#live());
  }

  find(id) {
    return this.#module.json("tstar_find", String(id), this.#live());
  }

  history(id) {
    return this.#module.json("tstar_history", String(id), this.#live());
  }

  pathBytes(id) {
    const bytes = this.#module.call("tstar_path", String(id), this.#live());
    return bytes.length ? bytes : null;
  }

  path(id) {
    const bytes = this.pathBytes(id);
    return bytes && this.#module.decodePath(bytes);
  }

  free() {
    if (this.#handle === null) return;
    registry.unregister(this);
    const handle = this.#handle;
    this.#handle = null;
    this.#module.call("tstar_free_tracker", "", handle);
  }
}
if (Symbol.dispose) Tracker.prototype[Symbol.dispose] = Tracker.prototype.free;

/** A rule as JSON has it, which would write null for NaN: that switches a rule off. */
function rule(name, value) {
  if (typeof value === "bigint") return Number(value);
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new TstarError(`rule ${name} is ${value}; it must be a number, or null for none`);
  }
  return value;
}

function named(what, text) {
  if (typeof text !== "string" || text === "") {
    throw new TstarError(`${what} is ${JSON.stringify(text)}; it must be a text`);
  }
  return text;
}

function bytesOf(bytes) {
  if (bytes instanceof ArrayBuffer) return new Uint8Array(bytes);
  if (ArrayBuffer.isView(bytes)) {
    return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
  throw new TstarError("a path must be an ArrayBuffer or a typed array");
}

/** Samples in columns, checked, for calls of the module. */
class Batch {
  #numbers;
  #mask = 0;
  #texts = {};
  #ignition = null;

  constructor(samples) {
    const unknown = Object.keys(samples).find((name) => !KNOWN.includes(name));
    if (unknown) {
      throw new TstarError(`\`${unknown}\` is not a column; there are: ${KNOWN.join(", ")}`);
    }
    const columns = ["time", "lat", "lon"].map((name) => [name, samples[name]]);
    NUMBERS.forEach((name, bit) => {
      if (samples[name] === undefined) return;
      columns.push([name, samples[name]]);
      this.#mask |= 1 << bit;
    });
    this.rows = samples.time?.length;
    this.#numbers = columns.map(([name, column]) => numbers(name, this.#checked(name, column)));
    this.#name("device", samples.device, DEVICE_BIT);
    if (samples.driver !== undefined) this.#name("driver", samples.driver, DRIVER_BIT);
    if (samples.ignition !== undefined) {
      this.#ignition = Uint8Array.from(this.#checked("ignition", samples.ignition), ignitionOf);
      this.#mask |= IGNITION_BIT;
    }
  }

  #checked(name, column) {
    const isList = Array.isArray(column) || (ArrayBuffer.isView(column) && !(column instanceof DataView));
    if (!isList) throw new TstarError(`column ${name} must be an array or a typed array`);
    if (column.length !== this.rows) {
      throw new TstarError(`column ${name} has ${column.length} rows, column time ${this.rows}`);
    }
    return column;
  }

  /** A column of names, or one name for all rows. */
  #name(name, column, bit) {
    if (typeof column === "string") {
      this.#texts[name] = { names: [column] };
      // A device without a column is that of all rows; a driver needs one.
      if (name === "driver") this.#texts[name].at = new Uint32Array(this.rows);
    } else {
      this.#texts[name] = numbered(name, this.#checked(name, column), name === "driver");
    }
    if (this.#texts[name].at) this.#mask |= bit;
  }

  /** Rows from one on: the length of the input, its columns, and what writes it. */
  chunk(from, rows) {
    const upto = from + rows;
    const texts = Object.fromEntries(Object.entries(this.#texts).map(([name, { names, at }]) =>
      [name, at ? within(names, at.subarray(from, upto)) : { names }]));
    const { device, driver } = texts;
    const json = encoder.encode(JSON.stringify({
      devices: device.names,
      drivers: driver?.names ?? [],
    }));
    const parts = [
      ...this.#numbers.map((column) => column.subarray(from, upto)),
      ...[device.at, driver?.at, this.#ignition?.subarray(from, upto)].filter(Boolean),
      json,
    ];
    const length = parts.reduce((sum, part) => sum + part.byteLength, 0);
    const fill = (to) => {
      let at = 0;
      for (const part of parts) {
        to.set(new Uint8Array(part.buffer, part.byteOffset, part.byteLength), at);
        at += part.byteLength;
      }
    };
    return { length, columns: this.#mask, fill };
  }
}

/** Of numbered names, those that are used, numbered again: names of other chunks are not sent. */
function within(names, at) {
  const used = new Map([[NONE, NONE]]);
  const chosen = [];
  const renumbered = at.map((number) => {
    if (!used.has(number)) used.set(number, chosen.push(names[number]) - 1);
    return used.get(number);
  });
  return { names: chosen, at: renumbered };
}

/** Each name once, and its number for each row. */
function numbered(name, column, isOptional) {
  const known = new Map();
  const at = Uint32Array.from(column, (text, row) => {
    if (isOptional && (text === null || text === undefined)) return NONE;
    if (typeof text !== "string") {
      throw new TstarError(`column ${name} has ${String(text)} in row ${row}; it must have texts`);
    }
    if (!known.has(text)) known.set(text, known.size);
    return known.get(text);
  });
  return { names: [...known.keys()], at };
}

/** A column as doubles; null is NaN. */
function numbers(name, column) {
  if (column instanceof Float64Array) return column;
  return Float64Array.from(column, (value, row) => {
    if (value === null || value === undefined) return NaN;
    if (typeof value === "number" || typeof value === "bigint") return Number(value);
    throw new TstarError(`column ${name} has ${String(value)} in row ${row}; it must have numbers`);
  });
}

function ignitionOf(value, row) {
  if (value === true || value === 1) return 1;
  if (value === false || value === 0) return 0;
  if (value === null || value === undefined || value === -1) return 2;
  throw new TstarError(
    `column ignition has ${String(value)} in row ${row}; it must have true, false or null`);
}

/** The columns of a path that the module wrote. */
function points(answer) {
  const rows = Number(new DataView(answer.buffer).getBigUint64(0, true));
  let at = 8;
  const take = (Kind) => {
    const column = new Kind(answer.buffer, at, rows);
    at += rows * Kind.BYTES_PER_ELEMENT;
    return column;
  };
  const columns = Object.fromEntries(POINTS.map((name) => [name, take(Float64Array)]));
  const drivers = take(Uint32Array);
  const ignition = Array.from(take(Uint8Array), (it) => (it === 2 ? null : it === 1));
  const classes = Array.from(take(Uint8Array), (it) => CLASSES[it]);
  const names = JSON.parse(decoder.decode(answer.subarray(at)));
  const driver = Array.from(drivers, (it) => (it === NONE ? null : names[it]));
  return { ...columns, driver, ignition, class: classes };
}
