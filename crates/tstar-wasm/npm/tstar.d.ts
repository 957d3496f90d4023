/** Rules of a tracker, with tstar's defaults. The same rules give the same trips everywhere. */
export interface Rules {
  /** A longer silence ends a trip, ms: at most 6 hours. Default 300,000. */
  max_gap_ms?: number;
  /** Standing at least this long ends a trip, ms: at most 12 hours; null: it ends none. Default 300,000. */
  min_stop_ms?: number | null;
  /** A vehicle stands while it reports a lower speed, m/s. Default 0.5. */
  stop_speed_mps?: number;
  /** Maximum samples of a trip. Default 100,000. */
  max_samples?: number;
  /** Earliest device time accepted, ms since 1970. Default: the year 2000. */
  min_time_ms?: number;
  /** How far a device time may be past `log_time`, ms. Default 24 hours. */
  max_future_ms?: number;
  /** Less accurate samples are dropped, m. Default null: none. */
  max_accuracy_m?: number | null;
  /** Keep samples whose latitude and longitude are 0. Default false. */
  keep_zero_position?: boolean;
  /** Faster legs do not count for distance and average speed, m/s. Default null: all count. */
  max_leg_speed_mps?: number | null;
  /** Memory that trips and samples may use, bytes, at most 2 GiB. Default 1 GiB. */
  max_memory?: number;
}

/** A column of numbers. `null`, `undefined` and NaN: the sample has none. */
export type Numbers =
  | Float64Array | Float32Array | Int32Array | Uint32Array | BigInt64Array
  | ArrayLike<number | bigint | null | undefined>;

/** Samples in columns of equal length, in the order in which they arrived. */
export interface Samples {
  /** Device id of each sample, or of all: 1 to 256 bytes of UTF-8 without NUL. */
  device: string | readonly string[];
  /** Device times, whole ms since 1970. */
  time: Numbers;
  /** Degrees north. */
  lat: Numbers;
  /** Degrees east. */
  lon: Numbers;
  speed_mps?: Numbers;
  heading_deg?: Numbers;
  altitude_m?: Numbers;
  accuracy_m?: Numbers;
  /** When the log received it, whole ms since 1970. */
  log_time?: Numbers;
  /** Who drove. */
  driver?: string | ReadonlyArray<string | null | undefined>;
  /** Whether the ignition is on. */
  ignition?: ReadonlyArray<boolean | null | undefined> | Int8Array | Uint8Array;
}

/** A sample that cannot be used. */
export interface Refused {
  /** Its row, from 0. */
  row: number;
  /** As in tstar's dead letters, such as `out_of_range`. */
  reason: string;
  message: string;
}

/** What samples did. */
export interface Absorbed {
  /** A number for each sample, whose name is in `EFFECTS`. */
  effects: Uint8Array;
  /** How often each effect occurred. */
  counts: Record<string, number>;
  /** Up to 100 refused samples of each 16,384. */
  refused: Refused[];
}

export interface Position {
  lat: number;
  lon: number;
}

/** A trip or stop, with the fields of tstar's HTTP API. */
export interface Segment {
  /** `truck-17~20261120T213800.123Z`. */
  id: string;
  device_id: string;
  kind: "trip" | "stop";
  /** The time in the id. */
  t_star: string;
  start_time: string;
  end_time: string;
  duration_s: number;
  /** null if no sample has a speed. */
  moving_s: number | null;
  /** null if no sample has a speed. */
  idle_s: number | null;
  parked_s: number;
  samples: number;
  distance_m: number;
  avg_speed_mps: number | null;
  max_speed_mps: number | null;
  /** Number of legs faster than `max_leg_speed_mps`; null without that rule. */
  jumps: number | null;
  driver: string | null;
  start: Position;
  end: Position;
  /** West, south, east, north. */
  bbox: [number, number, number, number];
  /** Ids that merges retired; each still leads here. */
  absorbed: string[];
  /** Twice the number of samples that arrived before the last one that changed it. */
  version: number;
}

/** Sums over the trips and stops of a span, as of `/v1/summary`: those that cross its ends count with their part. */
export interface Sums {
  /** Number of trips that start in it. */
  trips: number;
  distance_m: number;
  duration_s: number;
  /** How long trips move: those of which a sample has a speed. */
  moving_s: number;
  idle_s: number;
  /** How long stops stand and the ignition is not off. */
  standing_s: number;
  parked_s: number;
}

/** What changed, as in tstar's change feed. */
export interface ChangeEvent {
  type: "started" | "changed" | "merged" | "split" | "revived";
  id: string;
  kind: "trip" | "stop";
  /** Ids that this change retired. */
  absorbed: string[];
  version: number;
  trip: Segment;
}

/** Changes of a device that belong together. */
export interface ChangeGroup {
  device_id: string;
  /** Spans to delete first: trips and stops that end within one, unless their version is greater. */
  taken: Array<{ start_time: string; end_time: string; version: number }>;
  /** The trips and stops that are there instead, by time. */
  events: ChangeEvent[];
}

/** An id, and the versions at which it was minted, retired, revived and so on. */
export interface IdHistory {
  id: string;
  versions: number[];
}

/** A trip or stop that an id leads to. */
export interface Lookup extends Segment {
  /** Whether the id names it now, named it before a merge, or is a time within it. */
  match: "current" | "retired" | "covers";
}

/** The samples of a trip or stop, by time. NaN: the sample has none. */
export interface Path {
  time: Float64Array;
  lat: Float64Array;
  lon: Float64Array;
  speed_mps: Float64Array;
  heading_deg: Float64Array;
  altitude_m: Float64Array;
  accuracy_m: Float64Array;
  /** Where each sample was in the order of arrival, as `version` of a segment. */
  version: Float64Array;
  driver: Array<string | null>;
  ignition: Array<boolean | null>;
  class: Array<"moving" | "slow" | "separator">;
}

/** The trips and stops of devices. */
export interface Tracker {
  /** Applies samples in the order of arrival. What throws before any is applied: columns that do not fit. */
  absorb(samples: Samples): Absorbed;
  /** Trips and stops of a device, or of all: devices by their first sample, then by time. */
  segments(device?: string): Segment[];
  /** Sums over a span, whole ms since 1970, both ends inclusive; of a device, or of all. */
  sums(fromMs: number, uptoMs: number, device?: string): Sums;
  /** What changed since the last call, by device. */
  changes(): ChangeGroup[];
  /** What an id in any form leads to. */
  find(id: string): Lookup | null;
  /** The ids of what an id leads to, by time: now and before merges. */
  history(id: string): IdHistory[] | null;
  /** The samples of what an id leads to. */
  path(id: string): Path | null;
  /** The same as bytes, as column `path` of a tstar store has them. */
  pathBytes(id: string): Uint8Array | null;
  /** Frees its memory, which otherwise is freed some time after the last reference is gone. */
  free(): void;
}

/** Forms and parts of ids. */
export interface Ids {
  /** All forms of the id of a device and a time, ms; null: there is no such form. */
  forms(device: string, tStarMs: number): { text: string | null; key: string; uuid: string | null };
  /** Device and time of an id in any form; a UUID has only a hash of the device. */
  parse(id: string): { device_id: string | null; t_star_ms: number };
  /** Whether an id in any form is one of a device. */
  isOf(id: string, device: string): boolean;
  /** The prefix of the ids of a device in a year, month, day or hour, such as `2026-11-20`. */
  prefix(device: string, date: string): string;
  /** What a prefix selects; both ends are inclusive. */
  range(prefix: string): { device_id: string; from_ms: number; upto_ms: number };
}

/** What follows from the records and rules of a trip. */
export interface Verified {
  /** Whether the trip does. Records that were left out of the evidence are not excluded. */
  follows: boolean;
  /** How it differs from what follows. */
  differences: Array<{ fact: string; said: unknown; follows: unknown }>;
  records: number;
  /** Number of records that are samples of the trip. */
  kept: number;
  /** To be compared with that of a store: SHA-256 of the rules. */
  rules_hash: string;
}

/** A loaded module, with its own memory. */
export interface Tstar {
  readonly Tracker: new (rules?: Rules) => Tracker;
  readonly id: Ids;
  /** The samples of an encoded path: column `path` of a store, or `Tracker.pathBytes`. */
  decodePath(bytes: ArrayBuffer | ArrayBufferView): Path;
  /** Whether a trip follows from its records and rules: evidence as `tstar explain --evidence` writes it. */
  verify(evidence: string): Verified;
  /** Names of the effects of samples, by number. */
  readonly EFFECTS: readonly string[];
}

/** What failed, the value, and the next step. */
export class TstarError extends Error {}

/**
 * Loads the module: from `tstar.wasm` next to this file, or from a URL, a response, bytes or a
 * compiled module.
 */
export function load(
  source?: URL | string | Response | ArrayBuffer | ArrayBufferView | WebAssembly.Module,
): Promise<Tstar>;
