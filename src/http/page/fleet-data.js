// The devices with their last positions and the sums of a day: read once, then kept up to date by
// change events.

import * as api from "./api.js";
import { tokenOf } from "./format.js";

/** Maximum pages that are loaded without being asked for. */
const PAGES = 20;
/** Minimum time between two reads of the sums, ms; a slow server is asked less often. */
const SUMS_MS = 60_000;
const SUMS_SHARE = 30;
/** Delay before sums are asked for again where the server is busy, ms, and how often. */
const BUSY_MS = 4000;
const BUSY_RETRIES = 5;

/** Compares names as people count: truck-2 before truck-10. */
const { compare } = new Intl.Collator("en", { numeric: true });
export const byName = (a, b) => compare(titleOf(a), titleOf(b));

/** What a device is called: by its tag `name`, else its id. */
export const titleOf = (entry) => entry.tags.name || entry.device_id;

/** Whether the id, the name or the group of a device has a text. */
export const hasText = ({ device_id, token, tags }, text) =>
  [device_id, token, tags.name ?? "", tags.group ?? ""]
    .some((it) => it.toLowerCase().includes(text));

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A device without a position yet. */
function blank(device_id, token) {
  return {
    device_id, token, tags: {}, lastMs: null, lat: 0, lon: 0, x: 0, y: 0, tripId: null, kind: null,
    metres: null, trips: null,
  };
}

/** Sets where and when a device was last; `x` and `y` are of the web Mercator plane, 0 to 1. */
function setLast(entry, { ms, position: { lat, lon }, tripId, kind }) {
  const sine = Math.sin((Math.min(Math.max(lat, -85.05), 85.05) * Math.PI) / 180);
  const y = 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI);
  Object.assign(entry, { lastMs: ms, lat, lon, tripId, kind, x: (lon + 180) / 360, y });
}

export class FleetData {
  /** `onChange(entries)`: these devices changed; null: the set of devices did. */
  constructor({ onChange }) {
    this.onChange = onChange;
    /** Ordered by name, once `order()` was called. */
    this.all = [];
    this.isOrdered = true;
    this.byId = new Map();
    this.next = null;
    this.isLoaded = false;
    /** The read in progress: reads follow one another. */
    this.reading = null;
    /** Why devices or sums are missing. */
    this.fault = "";
    this.sumsFault = "";
    /** Rows of the sums by device; null: they are not known. */
    this.sums = null;
    /** The sums of all devices together. */
    this.total = null;
    this.sumsAt = 0;
    this.sumsTook = 0;
    this.sumsKey = "";
    this.isStale = false;
  }

  get(device) {
    return this.byId.get(device) ?? null;
  }

  get isLoading() {
    return this.reading !== null;
  }

  /** Reads after the reads that are in progress. */
  async inTurn(read) {
    while (this.reading) await this.reading.catch(() => {});
    this.reading = read();
    try {
      return await this.reading;
    } finally {
      this.reading = null;
      this.onChange(null);
    }
  }

  /** Loads the first page, if that is missing; false if that failed. */
  load() {
    return this.read(1, () => this.isLoaded);
  }

  /** Loads all pages, at most `PAGES` of them at a time. */
  loadAll() {
    return this.isLoaded && !this.next ? true : this.read(PAGES);
  }

  /** Reads up to `pages` more pages; stops early once `isEnough()`. */
  read(pages, isEnough = () => false) {
    return this.inTurn(() => this.readPages(pages, isEnough));
  }

  async readPages(pages, isEnough) {
    try {
      for (let at = 0; at < pages && (this.next || !this.isLoaded) && !isEnough(); at += 1) {
        this.put(await api.devices(this.next));
        this.fault = "";
        this.onChange(null);
      }
      return true;
    } catch (error) {
      this.fault = error.message;
      return false;
    }
  }

  put({ devices, next }) {
    this.isLoaded = true;
    this.next = next;
    for (const { device_id, token, last, tags } of devices) {
      const entry = this.byId.get(device_id) ?? this.add(blank(device_id, token));
      this.setTags(entry, tags);
      if (!last) continue;
      const ms = Date.parse(last.time);
      // An event may have come while the page was read.
      if (entry.lastMs !== null && entry.lastMs > ms) continue;
      setLast(entry, { ms, position: last.position, tripId: last.trip_id, kind: last.kind });
    }
  }

  /** Orders the devices by name: once for all that have come since. */
  order() {
    if (!this.isOrdered) this.all.sort(byName);
    this.isOrdered = true;
  }

  add(entry) {
    this.isOrdered = false;
    this.byId.set(entry.device_id, entry);
    this.all.push(entry);
    this.setSums(entry);
    return entry;
  }

  setTags(entry, tags) {
    if (tags.name !== entry.tags.name) this.isOrdered = false;
    entry.tags = tags;
  }

  setSums(entry) {
    if (!this.sums) return;
    const row = this.sums.get(entry.device_id);
    entry.metres = row?.distance_m ?? 0;
    entry.trips = row?.trips ?? 0;
  }

  remove(entry) {
    this.byId.delete(entry.device_id);
    this.all.splice(this.all.indexOf(entry), 1);
  }

  /** Reads everything again: after a time without events. */
  reload() {
    return this.inTurn(() => this.readAgain());
  }

  async readAgain() {
    const pages = Math.max(1, Math.ceil(this.all.length / api.PAGE));
    const before = [...this.all];
    const found = new Map(this.byId);
    const seen = new Set();
    let cursor = null;
    for (let at = 0; at < pages || (at < PAGES && cursor); at += 1) {
      const page = await api.devices(cursor);
      for (const { device_id } of page.devices) seen.add(device_id);
      // The answer is newer than what was missed: it may have an earlier position, too.
      for (const { device_id } of page.devices) {
        const entry = found.get(device_id);
        if (entry) entry.lastMs = null;
      }
      this.put(page);
      cursor = page.next;
      if (!cursor) break;
    }
    const gone = cursor ? [] : before.filter(({ device_id }) => !seen.has(device_id));
    for (const entry of gone) this.remove(entry);
    this.isStale = true;
  }

  /** Applies a change event. No device is read again for it. */
  apply(event) {
    if (event.type === "tagged") {
      const entry = this.get(event.device_id);
      // Without an id, it is a tag of the device itself.
      if (!entry || event.id !== null) return;
      const { [event.key]: _, ...others } = entry.tags;
      this.setTags(entry, event.value === null ? others : { ...others, [event.key]: event.value });
      this.onChange(null);
      return;
    }
    if (event.type === "forgotten") {
      const entry = this.get(event.device_id);
      const before = typeof event.before === "number" ? event.before : Date.parse(event.before);
      if (!entry || entry.lastMs === null || entry.lastMs >= before) return;
      this.remove(entry);
      this.onChange(null);
      return;
    }
    const { trip } = event;
    const known = this.get(trip.device_id);
    const entry = known ?? this.add(blank(trip.device_id, tokenOf(trip.device_id)));
    const ms = Date.parse(trip.end_time);
    this.isStale = true;
    // Late samples change the past, which does not move the device.
    if (entry.lastMs === null || ms >= entry.lastMs) {
      const kind = event.kind ?? trip.kind ?? "trip";
      setLast(entry, { ms, position: trip.end, tripId: trip.id, kind });
    }
    this.onChange(known ? [entry] : null);
  }

  /**
   * Reads the sums of a span for all devices with one request: at first, on another day, and after
   * changes, but not more often than `SUMS_MS`.
   */
  async loadSums(fromMs, toMs) {
    const key = `${fromMs} ${toMs}`;
    const now = performance.now();
    const wait = Math.max(SUMS_MS, this.sumsTook * SUMS_SHARE);
    const isDue = this.isStale && now - this.sumsAt >= wait;
    if (key === this.sumsKey && !isDue) return;
    const isOther = this.sumsKey && key !== this.sumsKey;
    Object.assign(this, { sumsKey: key, sumsAt: now, isStale: false });
    // The sums of another day are not those of this one.
    if (isOther) this.clearSums();
    for (let attempt = 0; attempt <= BUSY_RETRIES; attempt += 1) {
      try {
        const { rows, total } = await api.summary("device", fromMs, toMs);
        if (key !== this.sumsKey) return;
        this.putSums(rows, total);
        return;
      } catch (error) {
        if (key !== this.sumsKey) return;
        this.sumsFault = error.message;
        if (error.code !== "busy") break;
        await pause(BUSY_MS * (attempt + 1));
      } finally {
        this.sumsTook = performance.now() - now;
      }
    }
    // What failed for want of a server is asked for again.
    this.isStale = true;
    this.clearSums();
  }

  clearSums() {
    this.sums = this.total = null;
    for (const entry of this.all) Object.assign(entry, { metres: null, trips: null });
    this.onChange(null);
  }

  putSums(rows, total) {
    this.total = total;
    this.sumsFault = "";
    this.sums = new Map(rows.map((row) => [row.key, row]));
    for (const entry of this.all) this.setSums(entry);
    this.onChange(null);
  }
}
