// Connects the parts of the page: selection, server answers and change events.

import * as api from "./api.js";
import { Detail } from "./detail.js";
import { Fleet } from "./fleet.js";
import {
  DAY, dayOf, deviceOf, isoDay, make, moment, plural, tokenOf, visible,
} from "./format.js";
import { Live, retryWhileOffline } from "./live.js";
import { TripMap } from "./map.js";
import { Timeline } from "./timeline.js";
import { Trips, timed } from "./trips.js";
import { announce, setUpFrame, showLogin, showState, toast } from "./frame.js";

/** Delay of a lookup after a key press or a drag, ms. */
const LOOKUP_DELAY_MS = 150;
/** Delay before the selected trip is shown again after a change, ms. */
const REFRESH_DELAY_MS = 400;

const get = (id) => document.getElementById(id);

const state = {
  page: null,
  /** Clock of the server minus the local clock, ms. */
  clockOffset: 0,
  device: null,
  trips: new Trips(),
  /** The selected trip, and the request that found it. */
  chosen: null,
  lookup: {},
  /** Number of `open` calls: identifies late answers to an earlier one. */
  opening: 0,
};

const fleet = new Fleet({
  onPick: (device) => pick(device),
  onView: (hash) => setHash(hash && `#${hash}`),
});
const detail = new Detail({
  onId: (id) => find(id),
  onTrip: (trip) => choose(timed(trip), {}, { push: true }),
  onPoint: (ms) => map.pointAt(ms),
});
const map = new TripMap({
  onPick: (id) => choose(state.trips.byId.get(id), {}, { push: true }),
  onPath: (trip, path) => detail.path(trip, path),
});
const timeline = new Timeline({
  onLookup: (ms, isSettled) => lookUpSoon(ms, isSettled ? 0 : LOOKUP_DELAY_MS),
  onEnter: () => get("detail").focus(),
});
const live = new Live({ onEvent, onPoll: poll, onState: showLive });

/** Puts the view into the URL, so that it can be shared. */
function setHash(hash, push = false) {
  if (location.hash === hash) return;
  history[push ? "pushState" : "replaceState"](null, "", hash || location.pathname);
}

/** A trip with its times as ms, and `open` by the server's clock if the answer has none. */
function prepared(trip) {
  const result = timed(trip);
  const now = Date.now() + state.clockOffset;
  return { ...result, open: trip.open ?? result.endMs + state.page.max_gap_ms >= now };
}

// Devices and their days

async function pick(device) {
  setHash(`#device=${tokenOf(device)}`, true);
  get("devices").classList.remove("is-open");
  get("devices-toggle").setAttribute("aria-expanded", "false");
  await open(device);
  timeline.root.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
}

/** Opens a device at its newest trips, or at the trips up to a time; false if that failed. */
async function open(device, uptoMs = Infinity) {
  state.opening += 1;
  state.device = device;
  state.chosen = null;
  state.trips = new Trips();
  state.trips.uptoMs = uptoMs;
  fleet.hide(device);
  timeline.clear(state.trips);
  map.clear();
  get("timeline").hidden = false;
  get("below").hidden = false;
  get("device-name").textContent = visible(device);
  get("device-facts").textContent = "";
  get("upto").value = uptoMs === Infinity ? "" : isoDay(dayOf(uptoMs));
  document.title = `${visible(device)} · tstar`;
  detail.hint();
  const isLoaded = await loadEarlier();
  if (!isLoaded) return false;
  showDayOnMap();
  return true;
}

/** Loads the next page of earlier trips; false if that failed or another device was opened. */
async function loadEarlier() {
  const { trips, opening } = state;
  const token = tokenOf(state.device);
  const to = trips.uptoMs === Infinity ? null : trips.uptoMs;
  const lanes = get("lanes");
  get("lanes-state").textContent = "Loading the trips…";
  get("earlier").hidden = true;
  lanes.setAttribute("aria-busy", "true");
  let message = "";
  try {
    const page = await api.trips(token, { to, cursor: trips.cursor });
    if (opening !== state.opening) return false;
    for (const trip of page.trips) trips.add(prepared(trip));
    trips.cursor = page.next;
    const earliest = Math.min(...page.trips.map((trip) => Date.parse(trip.start_time)));
    trips.fromMs = page.next ? earliest : -Infinity;
    if (page.isUnknown) message = "This device is unknown: no sample of it is stored.";
    else if (!trips.size) message = await hintAt(token, to);
    return opening === state.opening;
  } catch (error) {
    if (opening !== state.opening) return false;
    message = `Cannot load the trips: ${error.message}`;
    return false;
  } finally {
    if (opening === state.opening) {
      lanes.removeAttribute("aria-busy");
      render();
      get("lanes-state").replaceChildren(...[message].flat());
    }
  }
}

/** What to show where a device has no trips up to a time; leads to its first ones. */
async function hintAt(token, to) {
  if (to === null) return "This device has no trips.";
  const { trips } = await api.trips(token, { order: "asc", limit: 1 });
  if (!trips.length) return "This device has no trips.";
  const day = dayOf(Date.parse(trips[0].start_time));
  const text = `Show the first trips: ${isoDay(day)}`;
  const go = make("button", "button small", text, { type: "button" });
  const device = state.device;
  go.addEventListener("click", () => open(device, (day + 1) * DAY - 1));
  return [`No trips up to ${isoDay(dayOf(to))}. `, go];
}

function render(into) {
  timeline.render(into);
  const { trips } = state;
  get("earlier").hidden = !timeline.hiddenDays && !trips.cursor;
  const facts = [plural(trips.size, "trip")];
  const merged = [...trips.byId.values()].filter((trip) => trip.retired.length).length;
  if (merged) facts.push(`${merged} merged`);
  facts.push(`${plural(trips.days().size, "day")}${trips.cursor ? " loaded" : ""}, UTC`);
  get("device-facts").textContent = trips.size ? facts.join(" · ") : "";
}

function dayTrips(ms) {
  const days = state.trips.days();
  const day = ms === null ? days.keys().next().value : dayOf(ms);
  return days.get(day) ?? [];
}

function showDayOnMap() {
  map.showNone(dayTrips(timeline.cursorMs));
}

// Lookups by time and id

let lookupTimer = 0;
let lookupAbort = null;

function lookUpSoon(ms, delay) {
  lookupAbort?.abort();
  clearTimeout(lookupTimer);
  lookupTimer = setTimeout(() => lookUp(ms), delay);
}

/** Looks up the trip that covers a time. */
async function lookUp(ms) {
  const { device, opening } = state;
  lookupAbort = new AbortController();
  const { signal } = lookupAbort;
  detail.loading("Looking up the trip…");
  try {
    const trip = await api.lookup(device, ms, signal);
    if (opening === state.opening) await choose(prepared(trip), { at: ms });
  } catch (error) {
    if (signal.aborted || opening !== state.opening) return;
    state.chosen = null;
    timeline.select(null);
    if (["no_trip", "no_device"].includes(error.code)) {
      const { previous, next, stop } = error.problem;
      detail.none(ms, previous && prepared(previous), next && prepared(next), stop && prepared(stop));
      announce(`${moment(ms)} is not covered by a trip`);
      setHash(`#device=${tokenOf(device)}&at=${new Date(ms).toISOString()}`);
      showDayOnMap();
    } else {
      detail.fault("The lookup failed", error.message, {
        text: "Retry",
        run: () => lookUp(ms),
      });
    }
  }
}

/** Looks up the trip of an id, in any id form. */
async function find(id, push = true) {
  get("find-id").value = id;
  try {
    const trip = await api.trip(id);
    await choose(prepared(trip), { requested_id: trip.requested_id, match: trip.match }, { push });
    announce(`${visible(id)}: ${trip.match}`);
    get("detail").scrollIntoView({ block: "nearest" });
  } catch (error) {
    if (error.status === 401) return;
    const titles = {
      bad_id: "Not a valid trip id",
      no_trip: "Trip not found",
      gone: "Trip erased",
    };
    const title = titles[error.code];
    fleet.hide(state.device);
    get("below").hidden = false;
    const isInvalid = error.code === "bad_id";
    const run = () => pick(id);
    detail.fault(title ?? "The lookup failed", error.message,
      isInvalid ? { text: "Open the device with this id", run } : null);
    announce(title ?? error.message);
  }
}

/** Selects a trip and shows its device, day and path. */
async function choose(trip, lookup, { push = false } = {}) {
  if (!trip) return;
  const isElsewhere = trip.device_id !== state.device;
  const isOutside = !state.trips.overlapsLoaded(trip);
  if (isElsewhere || isOutside) {
    const end = (dayOf(trip.endMs) + 1) * DAY - 1;
    const isOpen = await open(trip.device_id, isElsewhere ? Infinity : end);
    if (!isOpen) return;
    if (!state.trips.overlapsLoaded(trip) && !(await open(trip.device_id, end))) return;
  }
  state.trips.add(trip);
  state.chosen = trip;
  state.lookup = lookup;
  timeline.cursorMs = lookup.at ?? trip.starMs;
  timeline.select(trip.id);
  timeline.reveal();
  detail.trip(trip, lookup);
  setHash(`#trip=${encodeURIComponent(trip.id)}`, push);
  await map.show(trip, dayTrips(timeline.cursorMs));
}

// Change events

const pending = [];
let isScheduled = false;

function onEvent(event) {
  fleet.apply(event);
  if (event.type === "tagged") {
    if (event.device_id === state.chosen?.device_id) loadTags();
    return;
  }
  if (event.type === "forgotten") {
    if (event.device_id !== state.device) return;
  } else {
    if (event.trip.device_id !== state.device) return;
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
    // Where a stop has come, the trips beside it have events of their own.
    if (event.kind === "stop") continue;
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
  render(into);
  get("lanes-state").textContent = state.trips.size ? "" : "This device has no trips here.";
  if (state.chosen) refreshSoon(into);
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
async function loadTags() {
  const { id } = state.chosen;
  const found = await api.trip(id).catch(() => null);
  if (!found || state.chosen?.id !== id) return;
  if (JSON.stringify(found.tags) === JSON.stringify(state.chosen.tags)) return;
  state.chosen.tags = found.tags;
  detail.trip(state.chosen, state.lookup);
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
    timeline.select(winner.id);
  }
  const now = state.trips.byId.get(state.chosen.id);
  if (!winner && (!now || now.version === chosen.version)) return;
  state.chosen = now;
  clearTimeout(refreshTimer);
  refreshTimer = setTimeout(() => {
    const trip = state.trips.byId.get(state.chosen?.id);
    if (!trip) return;
    detail.trip(trip, state.lookup);
    setHash(`#trip=${encodeURIComponent(trip.id)}`);
    map.show(trip, dayTrips(timeline.cursorMs));
    if (!trip.tags) loadTags();
  }, REFRESH_DELAY_MS);
}

/** Reloads the newest trips, when there is no stream. */
async function poll(isMissed = false) {
  await fleet.poll(isMissed);
  if (state.device === null) return;
  const { trips, opening, device } = state;
  const to = trips.uptoMs === Infinity ? null : trips.uptoMs;
  const page = await api.trips(tokenOf(device), { to });
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

function showLive(mode) {
  const texts = { stream: "Live", poll: "Live (polling)", wait: "Reconnecting" };
  showState(mode, texts[mode]);
  // Checks whether only the stream failed: an unreachable server shows the banner.
  if (mode === "wait") api.page().catch(() => {});
}

// Start

/** Shows all devices. */
function showFleet(parameters) {
  state.opening += 1;
  state.device = null;
  state.chosen = null;
  for (const id of ["timeline", "below"]) get(id).hidden = true;
  map.clear();
  return fleet.show(parameters);
}

/** Leaves a device for all devices, in the view that they had. */
function leave() {
  const device = state.device;
  const hash = fleet.hash();
  setHash(hash && `#${hash}`, true);
  showFleet(new URLSearchParams(hash));
  fleet.list.focus(device);
}

/** Shows the view that the URL names. */
async function route() {
  if (!state.page) return;
  const parameters = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
  const [id, token, at] = ["trip", "device", "at"].map((name) => parameters.get(name));
  if (id) {
    await find(id, false);
  } else if (token) {
    const ms = at ? Date.parse(at) : NaN;
    const end = (dayOf(ms) + 1) * DAY - 1;
    await open(deviceOf(token), Number.isNaN(ms) ? Infinity : end);
    if (Number.isNaN(ms)) return;
    timeline.setCursor(ms);
    await lookUp(ms);
  } else {
    await showFleet(parameters);
  }
}

async function start() {
  try {
    state.page = await api.page();
  } catch (error) {
    if (error.status !== 401) showState("off", "Offline");
    return;
  }
  state.clockOffset = Date.parse(state.page.now) - Date.now();
  get("logout").hidden = !state.page.logged_in;
  if (!map.hasBase) {
    map.hasBase = true;
    map.loadBase(state.page).catch(() => (map.hasBase = false));
  }
  fleet.start(state.page, state.clockOffset);
  live.start(state.page.stream);
  await route();
  await fleet.load();
}

get("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const id = get("find-id").value.trim();
  if (!fleet.finder.open() && id) find(id);
});
get("earlier").addEventListener("click", async () => {
  if (timeline.hiddenDays || (await loadEarlier())) timeline.showMore();
  render();
});
get("upto").addEventListener("change", async () => {
  const ms = Date.parse(`${get("upto").value}T23:59:59.999Z`);
  await open(state.device, Number.isNaN(ms) ? Infinity : ms);
});
get("logout").addEventListener("click", async () => {
  try {
    await api.logout();
    // Clears everything on the page.
    location.reload();
  } catch (error) {
    toast(`Cannot log out: ${error.message}`, {
      text: "Retry",
      run: () => get("logout").click(),
    });
  }
});
get("brand").addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || !state.page) return;
  event.preventDefault();
  leave();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || fleet.isShown || !state.page) return;
  // A field or a dialog has its own use for the key.
  if (document.querySelector("dialog[open]") || event.target.matches("input:not(:placeholder-shown), select")) return;
  leave();
});
window.addEventListener("popstate", route);
api.server.addEventListener("unauthorized", () => {
  live.stop();
  showState("off", "Locked");
  showLogin(async (token) => {
    await api.login(token);
    await start();
  });
});
api.server.addEventListener("online", () => {
  if (!state.page) return;
  live.start(state.page.stream);
  fleet.resume();
  if (state.device === null) route();
  else if (state.trips.size) poll().catch(() => {});
  else open(state.device, state.trips.uptoMs);
});
retryWhileOffline(async () => {
  const page = await api.page();
  if (!state.page) await start();
  return page;
});
setUpFrame({
  onTheme: () => [map, fleet.map].forEach((it) => it.paint()),
  onRetry: () => (state.page ? poll() : start()),
});
start();
