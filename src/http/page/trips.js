// The trips of the chosen device, as far as they are loaded.

import { DAY, dayOf, starOf } from "./format.js";

/** A trip of the API with its times as ms. */
export function timed(trip) {
  return {
    ...trip,
    startMs: Date.parse(trip.start_time),
    endMs: Date.parse(trip.end_time),
    starMs: Date.parse(trip.t_star),
    retired: trip.absorbed.map((id) => ({ id, ms: starOf(id) })),
  };
}

export class Trips {
  constructor() {
    this.byId = new Map();
    /** Nothing earlier is loaded, ms; -Infinity where all is. */
    this.fromMs = Infinity;
    /** Nothing later is wanted, ms. */
    this.uptoMs = Infinity;
    this.cursor = null;
  }

  get size() {
    return this.byId.size;
  }

  /**
   * Takes a trip by the overlap rule: of overlapping trips the one of the highest version stands.
   * Answers null where nothing changed, else the trip and the other trips that it replaced.
   */
  take(trip) {
    const over = [...this.byId.values()].filter(
      (other) => other.startMs <= trip.endMs && other.endMs >= trip.startMs,
    );
    if (over.some((other) => other.version > trip.version)) return null;
    const before = this.byId.get(trip.id);
    if (over.length === 1 && before?.version === trip.version) {
      this.byId.set(trip.id, trip);
      return null;
    }
    for (const other of over) this.byId.delete(other.id);
    this.byId.set(trip.id, trip);
    const gone = over.filter((other) => other.id !== trip.id);
    return { trip, gone, isNew: before === undefined };
  }

  /** Forgets the trips that end before a time. */
  forget(beforeMs) {
    for (const [id, trip] of this.byId) if (trip.endMs < beforeMs) this.byId.delete(id);
  }

  /** Whether a trip lies where trips are loaded. */
  wants(trip) {
    return trip.endMs >= this.fromMs && trip.startMs <= this.uptoMs;
  }

  /** By start. */
  sorted() {
    return [...this.byId.values()].sort((a, b) => a.startMs - b.startMs);
  }

  covering(ms) {
    for (const trip of this.byId.values()) {
      if (trip.startMs <= ms && ms <= trip.endMs) return trip;
    }
    return null;
  }

  /** The nearest trip after (`step` 1) or before (-1) a time, as far as loaded. */
  next(ms, step) {
    const sorted = this.sorted();
    if (step > 0) return sorted.find((trip) => trip.startMs > ms) ?? null;
    return sorted.findLast((trip) => trip.endMs < ms) ?? null;
  }

  /** Day to the trips that touch it, the latest day first. */
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
