// The opened device: its trips and stops, and the chosen day.

import * as api from "./api.js";
import {
  dayOf, endOf, isoDay, make, plural, startOf, tokenOf, visible, zone,
} from "./format.js";
import { get, hashOf, parts, prepared, setHash, state } from "./state.js";
import { Tags } from "./tags.js";
import { Trips, isStop } from "./trips.js";

/** Maximum pages of trips and stops that are loaded for a span of days. */
const MAX_PAGES = 20;

/** Opens a device that was chosen: at the days of the fleet's sums, else at its newest trips. */
export async function pick(device) {
  const days = parts.fleet.isShown ? parts.fleet.day.chosen : null;
  setHash(deviceHash(device, days), true);
  get("devices").classList.remove("is-open");
  get("devices-toggle").setAttribute("aria-expanded", "false");
  await (days ? openDays(device, days) : open(device));
  parts.timeline.root.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
}

/** The fragment of days of a device: `{first, last, onMap}`; null: its newest day. */
function deviceHash(device, days, others = {}) {
  return hashOf({ device: tokenOf(device), ...(days ? datesOf(days) : {}), ...others });
}

/** Days as parameters of a URL. */
function datesOf({ first, last, onMap = null }) {
  return {
    day: isoDay(first),
    to: last > first ? isoDay(last) : "",
    on: onMap === null ? "" : isoDay(onMap),
  };
}

/**
 * The fragment of a trip, or of a time of the device: with the span and the filter of the table
 * from which it was chosen.
 */
export function hashWithTable(parameters) {
  const { tableDays } = parts.timeline;
  const dates = tableDays.last > tableDays.first ? datesOf(tableDays) : {};
  return hashOf({ ...parameters, ...dates, ...parts.table.parameters() });
}

/** Puts what the table shows into the URL. */
export function remember(push = false) {
  const { device, chosen } = state;
  const { tableDays } = parts.timeline;
  if (device === null || chosen || tableDays.first === null) return;
  setHash(deviceHash(device, tableDays, parts.table.parameters()), push);
}

/** Opens a device at its newest trips, or at the trips up to a time; false if that failed. */
export async function open(device, uptoMs = Infinity) {
  if (!(await load(device, uptoMs))) return false;
  const days = [...parts.timeline.days];
  const newest = days.find(([, segments]) => segments.some((it) => !isStop(it))) ?? days[0];
  viewDay(uptoMs === Infinity ? newest?.[0] ?? null : dayOf(uptoMs));
  return true;
}

/** Shows a device and loads its trips up to a time; false if that failed. */
function load(device, uptoMs) {
  state.opening += 1;
  if (state.device !== device) parts.table.read(new URLSearchParams());
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
  return loadEarlier();
}

/** Opens a device at a day or a span of days, with all trips of it; false if that failed. */
export async function openDays(device, span) {
  if (!(await load(device, endOf(span.last) - 1))) return false;
  if (span.last > span.first) parts.timeline.span = span;
  return showLoaded(span);
}

/** Shows a day or a span of days once all of its trips are loaded; false if that failed. */
async function showLoaded({ first, last }) {
  const { trips } = state;
  for (let page = 0; trips.fromMs > startOf(first) && page < MAX_PAGES; page += 1) {
    if (!(await loadEarlier())) return false;
  }
  viewDay(last);
  return true;
}

/** Shows what the device is called: its name, if it has one, and its id. */
function showName(/** @type {any} */ { name }) {
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
  const url = api.deviceUrl(tokenOf(device));
  let tags = null;
  try {
    tags = await api.deviceTags(tokenOf(device));
  } catch (error) {
    // That a device is unknown is said of its trips.
    if (opening === state.opening && error.code !== "no_device") showTagFault(error);
    return;
  }
  if (opening !== state.opening) return;
  const owner = { device, tags };
  deviceTags = new Tags(owner, { what: "device", url, onChange: () => showName(owner.tags) });
  get("device-tags-box").replaceChildren(deviceTags.root);
  get("device-tags").hidden = false;
  showName(tags);
}

/** Shows why the tags of the device cannot be read. */
function showTagFault(error) {
  const retry = make("button", "button small", "Retry", { type: "button" });
  retry.addEventListener("click", () => loadDeviceTags());
  const text = `Cannot read name, group and other tags: ${error.message}`;
  deviceTags = null;
  get("device-tags-box").replaceChildren(make("p", "fault", text, { role: "alert" }), retry);
  get("device-tags").hidden = false;
  get("device-tags").open = true;
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
  /** @type {string | (string | Node)[]} */
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

/** Trips and stops of the days that the map shows. */
export function segmentsOnMap() {
  const { first, last, onMap } = parts.timeline.tableDays;
  if (first === null) return [];
  return onMap === null ? state.trips.inDays(first, last) : state.trips.inDays(onMap, onMap);
}

/** Shows the table of the chosen days. */
export function showTable() {
  const { first, last, onMap } = parts.timeline.tableDays;
  parts.days.show(first === null ? null : { first, last });
  if (first === null) return;
  parts.whatIf?.follow();
  const whatIf = last > first ? null : parts.timeline.whatIfOf(first);
  const segments = whatIf?.segments ?? state.trips.inDays(first, last);
  const near = [state.trips.next(startOf(first), -1), state.trips.next(endOf(last) - 1, 1)];
  parts.table.show({
    device: state.device,
    first,
    last,
    onMap,
    segments,
    near: segments.length ? [] : near.map((trip) => trip && dayOf(trip.startMs)),
    selected: state.chosen?.id ?? null,
    maxGapMs: state.page.max_gap_ms,
    whatIf,
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
  parts.map.showNone(segmentsOnMap());
}

/** Shows a day of the device. */
export const showDay = (day) => showDays({ first: day, last: day });

/** Shows a day or a span of days of the device, and loads them if necessary. */
export async function showDays({ first, last, onMap = null }) {
  const { trips, device } = state;
  if (device === null) return;
  const span = last > first ? { first, last, onMap } : null;
  const isLoaded = startOf(last) <= trips.uptoMs && startOf(last) >= trips.fromMs;
  setHash(deviceHash(device, { first, last, onMap }, parts.table.parameters()), true);
  parts.timeline.span = span;
  if (isLoaded) await showLoaded({ first, last });
  else await openDays(device, { first, last, onMap });
}

/** Shows a day of the span alone on the map; null: all of them. */
export function showOnMap(day) {
  const { timeline } = parts;
  timeline.span = { ...timeline.tableDays, onMap: day };
  remember();
  showTable();
  parts.map.showNone(segmentsOnMap());
}

/** Shows everything in the zone and the units that were just chosen. */
export function redraw() {
  if (state.device === null) return;
  const { timeline, detail, table } = parts;
  // The day of what was shown, which may have another date now.
  const segments = table.shown?.segments ?? [];
  const first = segments.find((it) => !isStop(it)) ?? segments[0];
  const middle = first ? (first.startMs + first.endMs) / 2 : timeline.middleMs;
  timeline.forgetLanes();
  const { span } = timeline;
  // The dates of a span are those that were chosen.
  if (timeline.day !== null && !span) timeline.day = dayOf(timeline.cursorMs ?? middle);
  render();
  showTable();
  detail.again();
  parts.map.showUnits();
}

