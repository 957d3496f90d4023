// Connects the parts of the page: the fleet, the view of a device, the URL and change events.

import * as api from "./api.js";
import { Fleet } from "./fleet.js";
import { deviceOf } from "./format.js";
import { loadPart, setUpFrame, showLogin, showState, toast } from "./frame.js";
import { Live, retryWhileOffline } from "./live.js";
import { hashParameters, readSettings, setUpSettings, settings } from "./settings.js";
import { get, parts, setHash, state } from "./state.js";

/** The view of a device, once it was shown. */
let view = null;

/** Runs what needs the view of a device. */
async function withView(run) {
  view ??= await loadPart("the view of a device", () => import("./device-view.js"));
  if (!view) return;
  view.loadBase();
  await run(view);
}

const find = (id) => withView((it) => it.find(id));

const fleet = new Fleet({
  onPick: (device) => withView((it) => it.pick(device)),
  onTrip: (segment) => withView((it) => it.openSegment(segment)),
  onFind: find,
  onView: (hash) => setHash(hash),
});
parts.fleet = fleet;
const live = new Live({ onEvent, onPoll: poll, onState: showLive });

function onEvent(event) {
  fleet.apply(event);
  // Trips of the opened device that are joined have a message of their own.
  const isHere = event.trip?.device_id === state.device && event.type !== "merged";
  if (fleet.isShown || isHere) fleet.news.apply(event);
  view?.onEvent(event);
}

/** Reads what is shown again, when there is no stream. */
async function poll(isMissed = false) {
  await fleet.poll(isMissed);
  await view?.poll();
}

function showLive(mode) {
  const texts = { stream: "Live", poll: "Live (polling)", wait: "Reconnecting" };
  showState(mode, texts[mode]);
  // Checks whether only the stream failed: an unreachable server shows the banner.
  if (mode === "wait") api.page().catch(() => {});
}

/** Shows all devices. */
function showFleet(parameters) {
  state.opening += 1;
  state.device = null;
  state.chosen = null;
  for (const id of ["timeline", "below"]) get(id).hidden = true;
  view?.close();
  return fleet.show(parameters);
}

/** Leaves a device for all devices, in the view that they had. */
function leave() {
  const device = state.device;
  const hash = fleet.hash();
  setHash(hash, true);
  showFleet(hashParameters(hash));
  fleet.focus(device);
}

/** Shows the view that the URL names. */
async function route() {
  if (!state.page) return;
  if (readSettings()) settings.dispatchEvent(new Event("change"));
  const parameters = hashParameters();
  const [id, token] = ["trip", "device"].map((name) => parameters.get(name));
  if (id) await withView((it) => it.openTrip(id, parameters));
  else if (token) await withView((it) => it.openAt(deviceOf(token), parameters));
  else await showFleet(parameters);
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
  view?.loadBase();
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
  else view.resume();
});
retryWhileOffline(async () => {
  const page = await api.page();
  if (!state.page) await start();
  return page;
});
readSettings();
setUpSettings();
settings.addEventListener("change", () => {
  view?.redraw();
  fleet.redraw();
});
setUpFrame({
  onTheme: () => [view, fleet.map].forEach((it) => it?.paint()),
  onRetry: () => (state.page ? poll() : start()),
});
start();
