// The loaded trips and stops of the selected device.

import { dayOf, endOf, starOf, startOf } from "./format.js";

/** Whether it is a stop; all else are trips. */
export const isStop = (segment) => segment.kind === "stop";

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

  /** Number of trips. */
  get size() {
    let size = 0;
    for (const segment of this.byId.values()) if (!isStop(segment)) size += 1;
    return size;
  }

  /**
   * Adds a trip or stop by the overlap rule: of those that overlap the one with the highest version
   * wins. Returns null if nothing changed, else it and the others that it replaced.
   */
  add(trip) {
    const overlapping = [...this.byId.values()].filter(
      (other) => other.startMs <= trip.endMs && other.endMs >= trip.startMs,
    );
    if (overlapping.some((other) => other.version > trip.version)) return null;
    const before = this.byId.get(trip.id);
    // Change events have no tags.
    trip.tags ??= before?.tags;
    if (overlapping.length === 1 && before?.version === trip.version) {
      this.byId.set(trip.id, trip);
      return null;
    }
    for (const other of overlapping) this.byId.delete(other.id);
    this.byId.set(trip.id, trip);
    const replaced = overlapping.filter((other) => other.id !== trip.id);
    return { trip, replaced, isNew: before === undefined };
  }

  /** Removes the trips and stops that end before a time. */
  forget(beforeMs) {
    for (const [id, trip] of this.byId) if (trip.endMs < beforeMs) this.byId.delete(id);
  }

  /** Whether a trip overlaps the loaded span. */
  overlapsLoaded(trip) {
    return trip.endMs >= this.fromMs && trip.startMs <= this.uptoMs;
  }

  /** Trips and stops, ordered by start. */
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
    const sorted = this.sorted().filter((segment) => !isStop(segment));
    if (step > 0) return sorted.find((trip) => trip.startMs > ms) ?? null;
    return sorted.findLast((trip) => trip.endMs < ms) ?? null;
  }

  /** Trips and stops that overlap a day or a span of days, ordered by start. */
  inDays(first, last) {
    const [from, to] = [startOf(first), endOf(last)];
    return this.sorted().filter((segment) => segment.startMs < to && segment.endMs >= from);
  }

  /** The day of the latest trip or stop; null without any. */
  newestDay() {
    return this.days().keys().next().value ?? null;
  }

  /**
   * Trips and stops by day, latest day first: days that a trip touches, in which a stop begins or
   * ends, and `chosen`, if it is loaded.
   */
  days(chosen = null) {
    const days = new Map();
    const earliest = dayOf(this.fromMs);
    const isLoaded = (day) => day >= earliest && startOf(day) <= this.uptoMs;
    if (chosen !== null && isLoaded(chosen)) days.set(chosen, []);
    const sorted = this.sorted();
    const spans = sorted.map((it) => ({ it, first: dayOf(it.startMs), last: dayOf(it.endMs) }));
    for (const { it, first, last } of spans) {
      for (let day = first; day <= last; day += isStop(it) ? Math.max(last - first, 1) : 1) {
        if (isLoaded(day) && !days.has(day)) days.set(day, []);
      }
    }
    for (const { it, first, last } of spans) {
      for (let day = first; day <= last; day += 1) days.get(day)?.push(it);
    }
    return new Map([...days].sort(([a], [b]) => b - a));
  }
}
