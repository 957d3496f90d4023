// Lookups of a trip: by time, by id, by a click.

import * as api from "./api.js";
import { hashWithTable, open, pick, render, segmentsOnMap, showTable } from "./device.js";
import { dayOf, endOf, moment, tokenOf, visible } from "./format.js";
import { announce } from "./frame.js";
import { get, parts, prepared, setHash, state } from "./state.js";

/** Delay of a lookup after a key press or a drag, ms. */
const LOOKUP_DELAY_MS = 150;

let lookupTimer = 0;
let lookupAbort = null;

export function lookUpSoon(ms, isSettled) {
  lookupAbort?.abort();
  clearTimeout(lookupTimer);
  lookupTimer = setTimeout(() => lookUp(ms), isSettled ? 0 : LOOKUP_DELAY_MS);
}

/** Looks up the trip that covers a time. */
export async function lookUp(ms) {
  const { device, opening } = state;
  lookupAbort = new AbortController();
  const { signal } = lookupAbort;
  parts.detail.loading("Looking up the trip…");
  try {
    const trip = await api.lookup(device, ms, signal);
    if (opening === state.opening) await choose(prepared(trip), { at: ms });
  } catch (error) {
    if (signal.aborted || opening !== state.opening) return;
    state.chosen = null;
    if (["no_trip", "no_device"].includes(error.code)) {
      showNone(ms, error.problem);
    } else {
      parts.timeline.select(null);
      parts.detail.fault("The lookup failed", error.message, {
        text: "Retry",
        run: () => lookUp(ms),
      });
    }
  }
}

/** Shows that no trip covers a time, and the stop that does. */
function showNone(ms, { previous, next, stop }) {
  const { timeline, detail, map } = parts;
  const [before, after, stands] = [previous, next, stop].map((it) => it && prepared(it));
  if (stands && state.trips.overlapsLoaded(stands)) state.trips.add(stands);
  timeline.day = dayOf(ms);
  timeline.select(stands?.id ?? null);
  render();
  detail.none(ms, before, after, stands);
  announce(`${moment(ms)} is not covered by a trip`);
  setHash(hashWithTable({ device: tokenOf(state.device), at: new Date(ms).toISOString() }));
  showTable();
  map.showNone(segmentsOnMap(), stands);
}

/** Looks up the trip of an id, in any id form; false if that failed. */
export async function find(id, push = true) {
  get("find-id").value = id;
  try {
    const trip = await api.trip(id);
    await choose(prepared(trip), { requested_id: trip.requested_id, match: trip.match }, { push });
    announce(`${visible(id)}: ${trip.match}`);
    get("detail").scrollIntoView({ block: "nearest" });
    return true;
  } catch (error) {
    if (error.status === 401) return false;
    const titles = {
      bad_id: "Not a valid trip id",
      no_trip: "Trip not found",
      gone: "Trip erased",
    };
    const title = titles[error.code];
    parts.fleet.hide(state.device);
    get("below").hidden = false;
    const isInvalid = error.code === "bad_id";
    const run = () => pick(id);
    parts.detail.fault(title ?? "The lookup failed", error.message,
      isInvalid ? { text: "Open the device with this id", run } : null);
    announce(title ?? error.message);
    return false;
  }
}

/** Selects a trip and shows its device, day and path. */
export async function choose(trip, lookup, { push = false } = {}) {
  if (!trip) return;
  const isElsewhere = trip.device_id !== state.device;
  const isOutside = !state.trips.overlapsLoaded(trip);
  if (isElsewhere || isOutside) {
    const end = endOf(dayOf(trip.endMs)) - 1;
    const isOpen = await open(trip.device_id, isElsewhere ? Infinity : end);
    if (!isOpen) return;
    if (!state.trips.overlapsLoaded(trip) && !(await open(trip.device_id, end))) return;
  }
  const { timeline, detail, map } = parts;
  state.trips.add(trip);
  state.chosen = trip;
  state.lookup = lookup;
  timeline.cursorMs = lookup.at ?? trip.starMs;
  timeline.day = dayOf(timeline.cursorMs);
  timeline.select(trip.id);
  timeline.reveal();
  detail.trip(trip, lookup);
  setHash(hashWithTable({ trip: trip.id }), push);
  showTable();
  await map.show(trip, segmentsOnMap());
}
