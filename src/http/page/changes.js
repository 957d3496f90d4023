// Change events: what the page shows of a device follows the store.

import * as api from "./api.js";
import { hashWithTable, loadDeviceTags, render, segmentsOnMap, showTable } from "./device.js";
import { make, tokenOf, visible } from "./format.js";
import { announce, toast } from "./frame.js";
import { find } from "./lookups.js";
import { get, parts, prepared, setHash, state } from "./state.js";

/** Delay before the selected trip is shown again after a change, ms. */
const REFRESH_DELAY_MS = 400;
/** Minimum time between two drawings of the day of a device that drives, ms. */
const DAY_DELAY_MS = 2000;

const pending = [];
let isScheduled = false;

export function onEvent(event) {
  if (event.type === "tagged") {
    // Without an id, it is a tag of the device itself.
    if (event.id === null && event.device_id === state.device) loadDeviceTags();
    else if (event.device_id === state.chosen?.device_id) loadTags();
    return;
  }
  if (event.type === "forgotten") {
    if (event.device_id !== state.device) return;
  } else if (event.trip.device_id !== state.device) {
    return;
  }
  pending.push(event);
  if (isScheduled) return;
  isScheduled = true;
  // Draws all events of a short time together.
  setTimeout(() => {
    isScheduled = false;
    applyAll(pending.splice(0));
  }, 50);
}

function applyAll(events) {
  const changes = [];
  for (const event of events) {
    if (event.type === "forgotten") {
      const before = event.before;
      state.trips.forget(typeof before === "number" ? before : Date.parse(before));
      continue;
    }
    const trip = prepared(event.trip);
    if (!state.trips.overlapsLoaded(trip)) continue;
    const change = state.trips.add(trip);
    if (change) changes.push(change);
  }
  showChanges(changes);
}

/** Draws changes; animates and announces merges. */
function showChanges(changes) {
  const into = new Map();
  for (const { trip, replaced } of changes) {
    // The others are parts of it now, or were one with it.
    const retired = replaced.map((other) => other.id).filter((id) => trip.absorbed.includes(id));
    for (const id of retired) into.set(id, trip);
    if (retired.length) announceMerge(trip, retired);
  }
  if (parts.timeline.day === null) parts.timeline.day = state.trips.newestDay();
  render(into);
  get("lanes-state").textContent = state.trips.byId.size ? "" : "This device has no trips here.";
  if (state.chosen) refreshSoon(into);
  else drawDaySoon();
  showTable();
}

let dayTimer = 0;

/** Draws the trips of the day on the map, while none is selected. */
function drawDaySoon() {
  dayTimer ||= setTimeout(() => {
    dayTimer = 0;
    if (state.device !== null && !state.chosen) parts.map.showDay(segmentsOnMap());
  }, DAY_DELAY_MS);
}

function announceMerge(trip, retired) {
  const ids = retired.map(visible).join(", ");
  announce(`Trips merged: ${visible(trip.id)} absorbed ${ids}. Retired ids still find it.`);
  toast([make("b", "", "Trips merged. "), "Retired: ", make("bdi", "ident", ids)], {
    text: "Find the retired id",
    run: () => find(retired[0]),
  });
}

/** Reads the tags of the selected trip, which change events of trips do not have. */
export async function loadTags() {
  const { id } = state.chosen;
  const found = await api.trip(id).catch(() => null);
  if (!found || state.chosen?.id !== id) return;
  if (JSON.stringify(found.tags) === JSON.stringify(state.chosen.tags)) return;
  state.chosen.tags = found.tags;
  parts.detail.trip(state.chosen, state.lookup);
  showTable();
}

let refreshTimer = 0;

/** Updates the selected trip; if a merge retired its id, selects the merged trip. */
function refreshSoon(into) {
  const { chosen } = state;
  let winner = into.get(chosen.id);
  // One batch may merge the winner as well, or split it again.
  for (const seen = new Set(); winner && into.has(winner.id) && !seen.has(winner.id);) {
    seen.add(winner.id);
    winner = into.get(winner.id);
  }
  if (winner) {
    state.lookup = { requested_id: chosen.id, match: "retired" };
    state.chosen = winner;
    parts.timeline.select(winner.id);
  }
  const now = state.trips.byId.get(state.chosen.id);
  if (!winner && (!now || now.version === chosen.version)) return;
  state.chosen = now;
  clearTimeout(refreshTimer);
  refreshTimer = setTimeout(() => {
    const trip = state.trips.byId.get(state.chosen?.id);
    if (!trip) return;
    parts.detail.trip(trip, state.lookup);
    setHash(hashWithTable({ trip: trip.id }));
    parts.map.show(trip, segmentsOnMap());
    if (!trip.fields.tags) loadTags();
  }, REFRESH_DELAY_MS);
}

/** Reloads the newest trips, when there is no stream. */
export async function poll() {
  if (state.device === null) return;
  const { trips, opening, device } = state;
  const to = trips.uptoMs === Infinity ? null : trips.uptoMs;
  const page = await api.trips(tokenOf(device), { to, kind: "all" });
  if (opening !== state.opening) return;
  const changes = page.trips.map((trip) => trips.add(prepared(trip))).filter(Boolean);
  const current = new Set(page.trips.map((trip) => trip.id));
  const earliest = Math.min(...page.trips.map((trip) => Date.parse(trip.start_time)));
  const isErased = (trip) => !current.has(trip.id) && (!page.next || trip.startMs > earliest);
  const erased = [...trips.byId.values()].filter(isErased);
  for (const trip of erased) trips.byId.delete(trip.id);
  if (changes.length || erased.length) showChanges(changes);
  // A tag does not change the version of its trip.
  if (state.chosen) await loadTags();
}
