// Joins the parts: what was chosen, what the server says, what changed meanwhile.

import * as api from "./api.js";
import { Detail } from "./detail.js";
import { Devices } from "./devices.js";
import {
  DAY, dayOf, deviceOf, isoDay, make, moment, plural, tokenOf, visible,
} from "./format.js";
import { Live, whileAway } from "./live.js";
import { TripMap } from "./map.js";
import { Timeline } from "./timeline.js";
import { Trips, timed } from "./trips.js";
import { say, setUpFrame, showLogin, showState, toast } from "./frame.js";

const KEY_REST_MS = 150;
const REFRESH_MS = 400;

const get = (id) => document.getElementById(id);

const state = {
  page: null,
  /** Server's clock less this one's, ms. */
  ahead: 0,
  device: null,
  trips: new Trips(),
  /** The trip shown, and what was asked for it. */
  chosen: null,
  asked: {},
  /** Counts openings, so that a late answer of an earlier one is known. */
  opening: 0,
};

const devices = new Devices({ onPick: (device) => pick(device) });
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
  onLookup: (ms, isSettled) => lookUpSoon(ms, isSettled ? 0 : KEY_REST_MS),
  onEnter: () => get("detail").focus(),
});
const live = new Live({ onEvent: hear, onPoll: poll, onState: tellLive });

/** Puts what is shown into the address, so that it can be sent to somebody. */
function setHash(hash, push = false) {
  if (location.hash === hash) return;
  history[push ? "pushState" : "replaceState"](null, "", hash || location.pathname);
}

/** A trip with `open` by the server's clock where the answer has none. */
function dated(trip) {
  const known = timed(trip);
  const now = Date.now() + state.ahead;
  return { ...known, open: trip.open ?? known.endMs + state.page.max_gap_ms >= now };
}

// Devices and their days

async function pick(device) {
  setHash(`#device=${tokenOf(device)}`, true);
  get("devices").classList.remove("is-open");
  get("devices-toggle").setAttribute("aria-expanded", "false");
  await open(device);
  timeline.root.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
}

/** Opens a device at its newest trips, or at the trips up to a time. */
async function open(device, uptoMs = Infinity) {
  state.opening += 1;
  state.device = device;
  state.chosen = null;
  state.trips = new Trips();
  state.trips.uptoMs = uptoMs;
  devices.choose(device);
  timeline.clear(state.trips);
  get("welcome").hidden = true;
  get("timeline").hidden = false;
  get("below").hidden = false;
  get("device-name").textContent = visible(device);
  get("device-facts").textContent = "";
  get("upto").value = uptoMs === Infinity ? "" : isoDay(dayOf(uptoMs));
  document.title = `${visible(device)} · tstar`;
  detail.hint();
  const isDone = await loadEarlier();
  if (!isDone) return false;
  showDayOnMap();
  return true;
}

/** Loads the next page of trips, going back in time. False: it did not come, or came too late. */
async function loadEarlier() {
  const { trips, opening } = state;
  const token = tokenOf(state.device);
  const to = trips.uptoMs === Infinity ? null : trips.uptoMs;
  const lanes = get("lanes");
  get("lanes-state").textContent = "Loading the trips…";
  get("earlier").hidden = true;
  lanes.setAttribute("aria-busy", "true");
  let says = "";
  try {
    const page = await api.trips(token, { to, cursor: trips.cursor });
    if (opening !== state.opening) return false;
    for (const trip of page.trips) trips.take(dated(trip));
    trips.cursor = page.next;
    const earliest = Math.min(...page.trips.map((trip) => Date.parse(trip.start_time)));
    trips.fromMs = page.next ? earliest : -Infinity;
    if (!trips.size) says = "This device has no trips here.";
    return true;
  } catch (refused) {
    if (opening !== state.opening) return false;
    says = `The trips did not come: ${refused.message}`;
    return false;
  } finally {
    if (opening === state.opening) {
      lanes.removeAttribute("aria-busy");
      render();
      get("lanes-state").textContent = says;
    }
  }
}

function render(into) {
  timeline.render(into);
  const { trips } = state;
  get("earlier").hidden = !timeline.hiddenDays && !trips.cursor;
  const shown = [plural(trips.size, "trip")];
  const merged = [...trips.byId.values()].filter((trip) => trip.retired.length).length;
  if (merged) shown.push(`${merged} merged`);
  shown.push(`${plural(trips.days().size, "day")}${trips.cursor ? " loaded" : ""}, UTC`);
  get("device-facts").textContent = trips.size ? shown.join(" · ") : "";
}

function dayTrips(ms) {
  const days = state.trips.days();
  const day = ms === null ? days.keys().next().value : dayOf(ms);
  return days.get(day) ?? [];
}

function showDayOnMap() {
  map.showNone(dayTrips(timeline.cursorMs));
}

// Times and ids

let restTimer = 0;
let asking = null;

function lookUpSoon(ms, rest) {
  asking?.abort();
  clearTimeout(restTimer);
  restTimer = setTimeout(() => lookUp(ms), rest);
}

/** Asks the server which trip covers a time. */
async function lookUp(ms) {
  const { device, opening } = state;
  asking = new AbortController();
  const { signal } = asking;
  detail.loading("Looking it up…");
  try {
    const trip = await api.lookup(device, ms, signal);
    if (opening === state.opening) await choose(dated(trip), { at: ms });
  } catch (refused) {
    if (signal.aborted || opening !== state.opening) return;
    state.chosen = null;
    timeline.select(null);
    if (refused.code === "no_trip") {
      const { previous, next } = refused.problem;
      detail.none(ms, previous && dated(previous), next && dated(next));
      say(`${moment(ms)} lies in no trip`);
      setHash(`#device=${tokenOf(device)}&at=${new Date(ms).toISOString()}`);
      showDayOnMap();
    } else {
      detail.fault("The lookup failed", refused.message, {
        text: "Try again",
        run: () => lookUp(ms),
      });
    }
  }
}

/** Finds the trip of any form of an id. */
async function find(id, push = true) {
  get("find-id").value = id;
  get("below").hidden = false;
  try {
    const trip = await api.trip(id);
    await choose(dated(trip), { requested_id: trip.requested_id, match: trip.match }, { push });
    say(`${visible(id)}: ${trip.match}`);
    get("detail").scrollIntoView({ block: "nearest" });
  } catch (refused) {
    if (refused.status === 401) return;
    const titles = {
      bad_id: "This is no trip id",
      no_trip: "No trip covers it",
      gone: "It was forgotten",
    };
    const title = titles[refused.code];
    const isForm = refused.code === "bad_id";
    const run = () => pick(id);
    detail.fault(title ?? "It could not be looked up", refused.message,
      isForm ? { text: "Open a device of this name", run } : null);
    say(title ?? refused.message);
  }
}

/** Shows a trip, on its device, day and map. */
async function choose(trip, asked, { push = false } = {}) {
  if (!trip) return;
  const isElsewhere = trip.device_id !== state.device;
  const isOutside = !state.trips.wants(trip);
  if (isElsewhere || isOutside) {
    const end = (dayOf(trip.endMs) + 1) * DAY - 1;
    const isOpen = await open(trip.device_id, isElsewhere ? Infinity : end);
    if (!isOpen) return;
    if (!state.trips.wants(trip) && !(await open(trip.device_id, end))) return;
  }
  state.trips.take(trip);
  state.chosen = trip;
  state.asked = asked;
  timeline.cursorMs = asked.at ?? trip.starMs;
  timeline.select(trip.id);
  timeline.reveal();
  detail.trip(trip, asked);
  setHash(`#trip=${encodeURIComponent(trip.id)}`, push);
  await map.show(trip, dayTrips(timeline.cursorMs));
}

// Changes

const waiting = [];
let isQueued = false;

function hear(event) {
  if (event.type === "forgotten") {
    if (event.device_id !== state.device) return;
  } else {
    const { device_id } = event.trip;
    devices.heard({ device_id, token: tokenOf(device_id) });
    if (device_id !== state.device) return;
  }
  waiting.push(event);
  if (isQueued) return;
  isQueued = true;
  // However many come, they are drawn together.
  setTimeout(() => {
    isQueued = false;
    applyAll(waiting.splice(0));
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
    const trip = dated(event.trip);
    if (!state.trips.wants(trip)) continue;
    const change = state.trips.take(trip);
    if (change) changes.push({ ...change, absorbed: event.absorbed });
  }
  showChanges(changes);
}

/** Draws what changed; a merge is seen and said. */
function showChanges(changes) {
  const into = new Map();
  for (const { trip, gone, absorbed } of changes) {
    for (const other of gone) into.set(other.id, trip);
    const retired = absorbed?.length ? absorbed : gone.map((other) => other.id);
    if (retired.length) tellMerge(trip, retired);
  }
  render(into);
  get("lanes-state").textContent = state.trips.size ? "" : "This device has no trips here.";
  if (state.chosen) refreshSoon(into);
}

function tellMerge(trip, retired) {
  const ids = retired.map(visible).join(", ");
  say(`Trips became one: ${visible(trip.id)} took in ${ids}. The retired id still finds it.`);
  toast([make("b", "", "Two trips became one. "), "Retired: ", make("bdi", "ident", ids)], {
    text: "Find the retired id",
    run: () => find(retired[0]),
  });
}

let refreshTimer = 0;

/** The chosen trip as it is now; one that was retired goes on under its new id. */
function refreshSoon(into) {
  const { chosen } = state;
  const winner = into.get(chosen.id);
  if (winner) {
    state.asked = { requested_id: chosen.id, match: "retired" };
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
    detail.trip(trip, state.asked);
    setHash(`#trip=${encodeURIComponent(trip.id)}`);
    map.show(trip, dayTrips(timeline.cursorMs));
  }, REFRESH_MS);
}

/** Without a stream: the newest trips once more. */
async function poll() {
  if (state.device === null) {
    if (!devices.all.length) await devices.load();
    return;
  }
  const { trips, opening, device } = state;
  const to = trips.uptoMs === Infinity ? null : trips.uptoMs;
  const page = await api.trips(tokenOf(device), { to });
  if (opening !== state.opening) return;
  const changes = page.trips.map((trip) => trips.take(dated(trip))).filter(Boolean);
  const seen = new Set(page.trips.map((trip) => trip.id));
  const earliest = Math.min(...page.trips.map((trip) => Date.parse(trip.start_time)));
  const isAway = (trip) => !seen.has(trip.id) && (!page.next || trip.startMs > earliest);
  const gone = [...trips.byId.values()].filter(isAway);
  for (const trip of gone) trips.byId.delete(trip.id);
  if (changes.length || gone.length) showChanges(changes);
}

function tellLive(how) {
  const texts = { stream: "Live", poll: "Live, by asking", wait: "Reconnecting" };
  showState(how, texts[how]);
  // Is it the stream alone, or the server? The answer shows the banner.
  if (how === "wait") api.page().catch(() => {});
}

// Start

/** Shows what the address names. */
async function route() {
  if (!state.page) return;
  const named = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
  const [id, token, at] = ["trip", "device", "at"].map((name) => named.get(name));
  if (id) {
    await find(id, false);
  } else if (token) {
    const ms = at ? Date.parse(at) : NaN;
    const end = (dayOf(ms) + 1) * DAY - 1;
    await open(deviceOf(token), Number.isNaN(ms) ? Infinity : end);
    if (Number.isNaN(ms)) return;
    timeline.setCursor(ms);
    await lookUp(ms);
  }
}

async function start() {
  try {
    state.page = await api.page();
  } catch (refused) {
    if (refused.status !== 401) showState("off", "Offline");
    return;
  }
  state.ahead = Date.parse(state.page.now) - Date.now();
  get("logout").hidden = !state.page.logged_in;
  if (!map.isGrounded) {
    map.isGrounded = true;
    map.ground(state.page.tiles).catch(() => (map.isGrounded = false));
  }
  live.start(state.page.stream);
  await Promise.all([devices.load(), route()]);
}

get("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const id = get("find-id").value.trim();
  if (id) find(id);
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
    // Nothing of what was shown stays.
    location.reload();
  } catch (refused) {
    toast(`Logging out failed: ${refused.message}`, {
      text: "Try again",
      run: () => get("logout").click(),
    });
  }
});
window.addEventListener("hashchange", route);
window.addEventListener("popstate", () => {
  if (!location.hash) location.reload();
});
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
  if (!devices.all.length) devices.load();
  if (state.device === null) route();
  else if (state.trips.size) poll().catch(() => {});
  else open(state.device, state.trips.uptoMs);
});
whileAway(async () => {
  const page = await api.page();
  if (!state.page) await start();
  return page;
});
setUpFrame({ onTheme: () => map.paint(), onRetry: () => (state.page ? poll() : start()) });
start();
