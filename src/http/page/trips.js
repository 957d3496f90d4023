// The loaded trips of the selected device.

import { DAY, dayOf, starOf } from "./format.js";

/** A trip of the API with its `fields`, and with its times as ms. */
export function timed(trip) {
  return {
    ...trip,
    fields: trip,
    startMs: Date.parse(trip.start_time),
    endMs: Date.parse(trip.end_time),
    starMs: Date.parse(trip.t_star),
    retired: trip.absorbed.map((id) => ({ id, ms: starOf(id) })),
  };
}

export class Trips {
  constructor() {
    this.byId = new Map();
    /** Start of the loaded span, ms; -Infinity if all earlier trips are loaded. */
    this.fromMs = Infinity;
    /** End of the span to load, ms. */
    this.uptoMs = Infinity;
    this.cursor = null;
  }

  get size() {
    return this.byId.size;
  }

  /**
   * Adds a trip by the overlap rule: of overlapping trips the one with the highest version wins.
   * Returns null if nothing changed, else the trip and the other trips that it replaced.
   */
  add(trip) {
    const overlapping = [...this.byId.values()].filter(
      (other) => other.startMs <= trip.endMs && other.endMs >= trip.startMs,
    );
    if (overlapping.some((other) => other.version > trip.version)) return null;
    const before = this.byId.get(trip.id);
    if (overlapping.length === 1 && before?.version === trip.version) {
      this.byId.set(trip.id, trip);
      return null;
    }
    for (const other of overlapping) this.byId.delete(other.id);
    this.byId.set(trip.id, trip);
    const replaced = overlapping.filter((other) => other.id !== trip.id);
    return { trip, replaced, isNew: before === undefined };
  }

  /** Removes the trips that end before a time. */
  forget(beforeMs) {
    for (const [id, trip] of this.byId) if (trip.endMs < beforeMs) this.byId.delete(id);
  }

  /** Whether a trip overlaps the loaded span. */
  overlapsLoaded(trip) {
    return trip.endMs >= this.fromMs && trip.startMs <= this.uptoMs;
  }

  /** Trips ordered by start. */
  sorted() {
    return [...this.byId.values()].sort((a, b) => a.startMs - b.startMs);
  }

  covering(ms) {
    for (const trip of this.byId.values()) {
      if (trip.startMs <= ms && ms <= trip.endMs) return trip;
    }
    return null;
  }

  /** The nearest loaded trip after (`step` 1) or before (-1) a time. */
  next(ms, step) {
    const sorted = this.sorted();
    if (step > 0) return sorted.find((trip) => trip.startMs > ms) ?? null;
    return sorted.findLast((trip) => trip.endMs < ms) ?? null;
  }

  /** Trips by the days that they touch, latest day first. */
  days() {
    const days = new Map();
    const earliest = dayOf(this.fromMs);
    for (const trip of this.sorted()) {
      for (let day = dayOf(trip.startMs); day <= dayOf(trip.endMs); day += 1) {
        if (day < earliest || day * DAY > this.uptoMs) continue;
        if (!days.has(day)) days.set(day, []);
        days.get(day).push(trip);
      }
    }
    return new Map([...days].sort(([a], [b]) => b - a));
  }
}
