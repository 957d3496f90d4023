// What the page shows, for the modules that change it, and its parts.

import { withSettings } from "./settings.js";
import { Trips, timed } from "./trips.js";

/**
 * An element of the page.
 *
 * @param {string} id
 * @returns {any}
 */
export const get = (id) => document.getElementById(id);

export const state = {
  page: null,
  /** Clock of the server minus the local clock, ms. */
  clockOffset: 0,
  device: null,
  trips: new Trips(),
  /** The selected trip, and the request that found it. */
  chosen: null,
  lookup: {},
  /** Number of calls of `open` (device.js): identifies late answers to an earlier one. */
  opening: 0,
};

/** The parts of the page: set by app.js. */
export const parts = {};

/** Puts the view into the URL, so that it can be shared. */
export function setHash(hash, push = false) {
  const wanted = withSettings(hash);
  if (location.hash === wanted) return;
  history[push ? "pushState" : "replaceState"](null, "", wanted || location.pathname);
}

/** A fragment of a URL with these parameters, without those that are empty. */
export function hashOf(parameters) {
  const pairs = Object.entries(parameters).filter(([, value]) => value);
  const encoded = (value) => encodeURIComponent(value).replace(/%2C|%3A/g, decodeURIComponent);
  const text = ([name, value]) => `${name}=${encoded(value)}`;
  return pairs.length ? `#${pairs.map(text).join("&")}` : "";
}

/** A trip with its times as ms, and `open` by the server's clock if the answer has none. */
export function prepared(trip) {
  const result = timed(trip);
  const now = Date.now() + state.clockOffset;
  return { ...result, open: trip.open ?? result.endMs + state.page.max_gap_ms >= now };
}
