// The view of a device and of its trips: connects its parts. Loaded when it is first shown.

import { onEvent, poll } from "./changes.js";
import { Days, spanOfDates, timeOf } from "./days.js";
import { DayTable } from "./daytable.js";
import { Detail } from "./detail.js";
import {
  hashWithTable, loadEarlier, open, openDays, pick, redraw, remember, render, showDay, showDays,
  showOnMap, showTable,
} from "./device.js";
import { dayOf, tokenOf } from "./format.js";
import { announce, loadPart } from "./frame.js";
import { choose, find, lookUp, lookUpSoon } from "./lookups.js";
import { TripMap } from "./map.js";
import { get, hashOf, parts, prepared, setHash, state } from "./state.js";
import { Timeline } from "./timeline.js";
import { isStop, timed } from "./trips.js";

export { find, onEvent, pick, poll, redraw };

const { detail, map, timeline, table } = Object.assign(parts, {
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
    onMarks: (marks) => timeline.setMarks(marks),
  }),
  timeline: new Timeline({
    onLookup: lookUpSoon,
    onDay: (day) => showDay(day),
    onEnter: () => get(get("detail").hidden ? "day" : "detail").focus(),
  }),
  table: new DayTable({
    onPick: (segment) => pickSegment(segment),
    onDay: (day) => showDay(day),
    onMapDay: (day) => showOnMap(day),
    onView: () => remember(),
  }),
  days: new Days(get("device-days"), (span) => (span ? showDays(span) : open(state.device))),
});
table.area.attach(map.map);

/** Loads what the map shows under the trips, unless it is here. */
export function loadBase() {
  if (map.hasBase || !state.page) return;
  map.hasBase = true;
  map.loadBase(state.page).catch(() => (map.hasBase = false));
}

/** Draws the maps in the colours of the theme. */
export function paint() {
  map.paint();
  table.area.paint();
}

/** Leaves the device. */
export const close = () => map.clear();

/** The days that a URL names, `{first, last, onMap}`; null: none. */
function daysOf(parameters) {
  const span = spanOfDates(parameters.get("day"), parameters.get("to"));
  const onMap = spanOfDates(parameters.get("on"))?.first ?? NaN;
  return span && { ...span, onMap: onMap >= span.first && onMap <= span.last ? onMap : null };
}

/** Opens a device at the days, or the time, that the URL names. */
export async function openAt(device, parameters) {
  const ms = timeOf(parameters.get("at"));
  const hasTime = !Number.isNaN(ms);
  const day = dayOf(ms);
  const span = daysOf(parameters) ?? (hasTime ? { first: day, last: day } : null);
  await (span ? openDays(device, span) : open(device));
  table.read(parameters);
  if (!hasTime) return;
  timeline.setCursor(ms);
  await lookUp(ms);
}

/** Opens the trip of an id, with the span and the filter of the table that the URL names. */
export async function openTrip(id, parameters) {
  if (!(await find(id, false)) || !state.chosen) return;
  table.read(parameters);
  timeline.span = daysOf(parameters);
  showTable();
  setHash(hashWithTable({ trip: state.chosen.id }));
}

/** Opens a trip or stop of any device. */
export async function openSegment({ fields }) {
  const segment = prepared(fields);
  if (isStop(segment)) {
    const parameters = {
      device: tokenOf(segment.device_id), at: new Date(segment.startMs).toISOString(),
    };
    setHash(hashOf(parameters), true);
    await openAt(segment.device_id, new URLSearchParams(parameters));
  } else {
    await choose(segment, {}, { push: true });
    get("detail").focus({ preventScroll: true });
  }
}

/** Reads everything again once the server can be reached again. */
export function resume() {
  if (state.trips.byId.size) poll().catch(() => {});
  else open(state.device, state.trips.uptoMs);
}

/** Selects a trip or stop of the device. */
function pickSegment(segment) {
  if (!segment) return;
  if (segment.isWhatIf) {
    timeline.setCursor(segment.startMs);
    timeline.reveal();
    return;
  }
  if (!isStop(segment)) {
    choose(segment, {}, { push: true });
    return;
  }
  timeline.setCursor(segment.startMs);
  lookUp(segment.startMs);
}

/** Leaves the trip for its days, at its row. */
async function backToDay() {
  const id = timeline.selected;
  if (timeline.day === null) return;
  await showDays(timeline.tableDays);
  table.focus(id);
}

get("earlier").addEventListener("click", async () => {
  if (timeline.hiddenDays || (await loadEarlier())) timeline.showMore();
  render();
});
get("what-if").addEventListener("click", async () => {
  const part = await loadPart("the day under other rules", () => import("./what-if.js"));
  part?.switchWhatIf();
});
get("day-back").addEventListener("click", backToDay);
get("detail").addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.target.closest("form")) return;
  event.preventDefault();
  backToDay();
});
for (const [id, step] of Object.entries({ "trip-before": -1, "trip-after": 1 })) {
  get(id).addEventListener("click", () => {
    const { chosen, trips } = state;
    const from = chosen ? (step > 0 ? chosen.endMs : chosen.startMs) : timeline.cursorMs;
    const trip = from === null ? null : trips.next(from, step);
    if (trip) pickSegment(trip);
    else announce(step > 0 ? "No later trip is loaded" : "No earlier trip is loaded");
  });
}
