// What a device is doing, by its last sample: in words, by shape and by colour.

import { DAY, dayOf, isoDay, moment } from "./format.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** Ages from here on are shown as a day. */
const OLD_DAYS = 60;
/** Clocks of devices may be ahead by this much, ms, before the page mentions it. */
const AHEAD_MS = MINUTE;

/** The states, most interesting first. `none`: its position is not known. */
export const STATES = ["moving", "standing", "silent", "none"];

export const WORDS = {
  moving: "Moving",
  standing: "Standing",
  silent: "Silent",
  none: "No position",
};

/**
 * The state of a device at a time.
 *
 * Standing: its last sample belongs to a stop, however old: parked receivers sleep. Silent: it
 * belongs to a trip and is older than `max_gap_ms`. A sample that came now would not continue that
 * trip, so whether it still drives is not known. A short halt inside a trip, such as at a traffic
 * light, counts as moving: the list of devices has no speed and no ignition.
 */
export function stateOf({ lastMs, kind }, nowMs, maxGapMs) {
  if (lastMs === null) return "none";
  if (kind === "stop") return "standing";
  return nowMs - lastMs > maxGapMs ? "silent" : "moving";
}

/** How long ago a time was: `2 min ago`; as a day when that was long ago. */
export function ago(ms, nowMs) {
  const age = nowMs - ms;
  if (age < -AHEAD_MS) return "clock ahead";
  if (age < 5000) return "now";
  if (age < MINUTE) return `${Math.floor(age / 5000) * 5} s ago`;
  if (age < HOUR) return `${Math.floor(age / MINUTE)} min ago`;
  if (age < 2 * DAY) return `${Math.floor(age / HOUR)} h ago`;
  if (age < OLD_DAYS * DAY) return `${Math.floor(age / DAY)} d ago`;
  return isoDay(dayOf(ms));
}

/** The state in a few words: `Standing, 2 min ago`. */
export function brief(entry, clock) {
  const state = clock.state(entry);
  return WORDS[state] + (state === "none" ? "" : `, ${ago(entry.lastMs, clock.now())}`);
}

/** The state in a sentence: `Standing, last seen 2 min ago (2026-11-20 14:03:20)`. */
export function sentence(entry, state, nowMs) {
  if (state === "none") return WORDS.none;
  const when = `${ago(entry.lastMs, nowMs)} (${moment(Math.floor(entry.lastMs / 1000) * 1000)})`;
  return `${WORDS[state]}, last seen ${state === "silent" ? "moving " : ""}${when}`;
}
