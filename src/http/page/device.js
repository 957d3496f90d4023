// The opened device: its trips and stops, and the chosen day.

import * as api from "./api.js";
import {
  dayOf, endOf, isoDay, make, plural, startOf, tokenOf, visible, zone,
} from "./format.js";
import { dayHash, get, parts, prepared, setHash, state } from "./state.js";
import { Tags } from "./tags.js";
import { Trips, isStop } from "./trips.js";
import { otherDay } from "./zone.js";

export async function pick(device) {
  setHash(`#device=${tokenOf(device)}`, true);
  get("devices").classList.remove("is-open");
  get("devices-toggle").setAttribute("aria-expanded", "false");
  await open(device);
  parts.timeline.root.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
}

/** Opens a device at its newest trips, or at the trips up to a time; false if that failed. */
export async function open(device, uptoMs = Infinity) {
  state.opening += 1;
  state.device = device;
  state.chosen = null;
  state.trips = new Trips();
  state.trips.uptoMs = uptoMs;
  parts.fleet.hide(device);
  parts.timeline.clear(state.trips);
  parts.map.clear();
  get("timeline").hidden = false;
  get("below").hidden = false;
  showName({});
  loadDeviceTags();
  get("device-facts").textContent = "";
  document.title = `${visible(device)} · tstar`;
  parts.detail.hint();
  parts.table.clear();
  const isLoaded = await loadEarlier();
  if (!isLoaded) return false;
  const days = [...parts.timeline.days];
  const newest = days.find(([, segments]) => segments.some((it) => !isStop(it))) ?? days[0];
  viewDay(uptoMs === Infinity ? newest?.[0] ?? null : dayOf(uptoMs));
  return true;
}

/** Shows what the device is called: its name, if it has one, and its id. */
function showName({ name }) {
  const id = make("bdi", "ident", visible(state.device));
  const called = name ? [make("bdi", "", visible(name)), " ", id] : [id];
  get("device-name").replaceChildren(...called);
}

let deviceTags = null;

/** Shows the tags of the device, among them its name and group. */
export async function loadDeviceTags() {
  const { device, opening } = state;
  if (deviceTags?.owner.device === device && deviceTags.isEditing) return;
  get("device-tags").hidden = true;
  const [url, tags] = [api.deviceUrl(tokenOf(device)),
    await api.deviceTags(tokenOf(device)).catch(() => null)];
  if (!tags || opening !== state.opening) return;
  const owner = { device, tags };
  deviceTags = new Tags(owner, { what: "device", url, onChange: () => showName(owner.tags) });
  get("device-tags-box").replaceChildren(deviceTags.root);
  get("device-tags").hidden = false;
  showName(tags);
}

/** Loads the next page of earlier trips; false if that failed or another device was opened. */
export async function loadEarlier() {
  const { trips, opening } = state;
  const token = tokenOf(state.device);
  const to = trips.uptoMs === Infinity ? null : trips.uptoMs;
  const lanes = get("lanes");
  get("lanes-state").textContent = "Loading the trips…";
  get("earlier").hidden = true;
  lanes.setAttribute("aria-busy", "true");
  let message = "";
  try {
    const page = await api.trips(token, { to, cursor: trips.cursor, kind: "all" });
    if (opening !== state.opening) return false;
    for (const trip of page.trips) trips.add(prepared(trip));
    trips.cursor = page.next;
    const earliest = Math.min(...page.trips.map((trip) => Date.parse(trip.start_time)));
    trips.fromMs = page.next ? earliest : -Infinity;
    if (page.isUnknown) message = "This device is unknown: no sample of it is stored.";
    else if (!trips.byId.size) message = await hintAt(token, to);
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
  go.addEventListener("click", () => showDay(day));
  return [`No trips up to ${isoDay(dayOf(to))}. `, go];
}

export function render(into) {
  parts.timeline.render(into);
  const { trips } = state;
  get("earlier").hidden = !parts.timeline.hiddenDays && !trips.cursor;
  const facts = [plural(trips.size, "trip")];
  const merged = [...trips.byId.values()].filter((trip) => trip.retired.length).length;
  if (merged) facts.push(`${merged} merged`);
  facts.push(`${plural(parts.timeline.days.size, "day")}${trips.cursor ? " loaded" : ""}`, zone());
  get("device-facts").textContent = trips.byId.size ? facts.join(" · ") : "";
}

/** Trips and stops of the chosen day. */
export const chosenDay = () =>
  (parts.timeline.day === null ? [] : state.trips.inDay(parts.timeline.day));

/** Shows the table of the chosen day. */
export function showTable() {
  const { day } = parts.timeline;
  get("upto").value = day === null ? "" : isoDay(day);
  for (const id of ["day-before", "day-after"]) get(id).disabled = day === null;
  if (day === null) return;
  const segments = chosenDay();
  const near = [state.trips.next(startOf(day), -1), state.trips.next(endOf(day) - 1, 1)];
  parts.table.show({
    device: state.device,
    day,
    segments,
    near: segments.length ? [] : near.map((trip) => trip && dayOf(trip.startMs)),
    selected: state.chosen?.id ?? null,
    maxGapMs: state.page.max_gap_ms,
  });
}

/** Shows a loaded day: its lane, its table, and its trips on the map. */
function viewDay(day) {
  state.chosen = null;
  parts.timeline.selected = null;
  parts.timeline.chooseDay(day);
  render();
  parts.detail.hint();
  showTable();
  parts.map.showNone(chosenDay());
}

/** Shows a day of the device, and loads it if necessary. */
export async function showDay(day, { push = true } = {}) {
  const { trips, device } = state;
  if (device === null) return;
  const isLoaded = startOf(day) <= trips.uptoMs && startOf(day) >= trips.fromMs;
  setHash(dayHash(device, day), push);
  if (isLoaded) viewDay(day);
  else await open(device, endOf(day) - 1);
}

/** Shows the day after (`step` 1) or before (-1) the chosen one. */
export const showNextDay = (step) => showDay(otherDay(parts.timeline.day, step));

/** Shows everything in the zone and the units that were just chosen. */
export function redraw() {
  if (state.device === null) return;
  const { timeline, detail, table } = parts;
  // The day of what was shown, which may have another date now.
  const segments = table.shown?.segments ?? [];
  const first = segments.find((it) => !isStop(it)) ?? segments[0];
  const middle = first ? (first.startMs + first.endMs) / 2 : timeline.middleMs;
  timeline.forgetLanes();
  if (timeline.day !== null) timeline.day = dayOf(timeline.cursorMs ?? middle);
  render();
  showTable();
  detail.again();
  parts.map.showUnits();
}

