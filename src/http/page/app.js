// Connects the parts of the page: selection, server answers and change events.

import * as api from "./api.js";
import { onEvent, poll } from "./changes.js";
import { DayTable } from "./daytable.js";
import { Detail } from "./detail.js";
import {
  loadEarlier, open, pick, redraw, render, showDay, showNextDay, showTable,
} from "./device.js";
import { Fleet } from "./fleet.js";
import { dayOf, deviceOf, endOf } from "./format.js";
import { announce, setUpFrame, showLogin, showState, toast } from "./frame.js";
import { Live, retryWhileOffline } from "./live.js";
import { choose, find, lookUp, lookUpSoon } from "./lookups.js";
import { TripMap } from "./map.js";
import { hashParameters, readSettings, setUpSettings, settings } from "./settings.js";
import { get, parts, setHash, state } from "./state.js";
import { Timeline } from "./timeline.js";
import { isStop, timed } from "./trips.js";

const { fleet, detail, map, timeline } = Object.assign(parts, {
  fleet: new Fleet({
    onPick: (device) => pick(device),
    onView: (hash) => setHash(hash && `#${hash}`),
  }),
  detail: new Detail({
    onId: (id) => find(id),
    onTrip: (trip) => choose(timed(trip), {}, { push: true }),
    onPoint: (ms) => map.pointAt(ms),
    onReplay: (ms) => {
      map.replayAt(ms);
      timeline.setReplay(ms);
    },
    onPlay: () => map.loadFull(),
    onTags: () => showTable(),
  }),
  map: new TripMap({
    onPick: (id) => pickSegment(state.trips.byId.get(id)),
    onPath: (trip, path) => detail.path(trip, path),
    onSeek: (ms) => detail.replay?.seek(ms),
  }),
  timeline: new Timeline({
    onLookup: lookUpSoon,
    onDay: (day) => showDay(day),
    onEnter: () => get(get("detail").hidden ? "day" : "detail").focus(),
  }),
  table: new DayTable({
    onPick: (segment) => pickSegment(segment),
    onDay: (day) => showDay(day),
  }),
});
const live = new Live({ onEvent, onPoll: poll, onState: showLive });

/** Selects a trip or stop of the device. */
function pickSegment(segment) {
  if (!segment) return;
  if (!isStop(segment)) {
    choose(segment, {}, { push: true });
    return;
  }
  timeline.setCursor(segment.startMs);
  lookUp(segment.startMs);
}

function showLive(mode) {
  const texts = { stream: "Live", poll: "Live (polling)", wait: "Reconnecting" };
  showState(mode, texts[mode]);
  // Checks whether only the stream failed: an unreachable server shows the banner.
  if (mode === "wait") api.page().catch(() => {});
}

/** The number of a date, such as 2026-11-20; null if it is not valid. */
function dayOfDate(text) {
  const ms = Date.parse(`${text}T00:00:00Z`);
  return Number.isNaN(ms) ? null : ms / 86_400_000;
}

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
  if (readSettings()) settings.dispatchEvent(new Event("change"));
  const parameters = hashParameters();
  const [id, token, at, date] =
    ["trip", "device", "at", "day"].map((name) => parameters.get(name));
  if (id) {
    await find(id, false);
  } else if (token) {
    const ms = at ? Date.parse(at) : NaN;
    const day = Number.isNaN(ms) ? dayOfDate(date) : dayOf(ms);
    await open(deviceOf(token), day === null ? Infinity : endOf(day) - 1);
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
  const day = dayOfDate(get("upto").value);
  if (day === null) await open(state.device);
  else await showDay(day);
});
get("day-before").addEventListener("click", () => showNextDay(-1));
get("day-after").addEventListener("click", () => showNextDay(1));
/** Leaves the trip for its day, at its row. */
async function backToDay() {
  const id = timeline.selected;
  if (timeline.day === null) return;
  await showDay(timeline.day);
  parts.table.focus(id);
}
get("day-back").addEventListener("click", backToDay);
get("detail").addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.target.closest("form")) return;
  event.preventDefault();
  backToDay();
});
for (const [id, step] of [["trip-before", -1], ["trip-after", 1]]) {
  get(id).addEventListener("click", () => {
    const { chosen, trips } = state;
    const from = chosen ? (step > 0 ? chosen.endMs : chosen.startMs) : timeline.cursorMs;
    const trip = from === null ? null : trips.next(from, step);
    if (trip) pickSegment(trip);
    else announce(step > 0 ? "No later trip is loaded" : "No earlier trip is loaded");
  });
}
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
  const isField = event.target.matches("input:not(:placeholder-shown), select");
  if (isField || document.querySelector("dialog[open]")) return;
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
  else if (state.trips.byId.size) poll().catch(() => {});
  else open(state.device, state.trips.uptoMs);
});
retryWhileOffline(async () => {
  const page = await api.page();
  if (!state.page) await start();
  return page;
});
readSettings();
setUpSettings();
settings.addEventListener("change", () => {
  redraw();
  fleet.redraw();
});
setUpFrame({
  onTheme: () => [map, fleet.map].forEach((it) => it.paint()),
  onRetry: () => (state.page ? poll() : start()),
});
start();
