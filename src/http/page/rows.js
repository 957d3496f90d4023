// Rows of trips and stops, in the table of a device and in that of the fleet: their columns, order
// and filter. The filter is what the API calls it, so that a download has the same rows.

import {
  dayOf, distance, duration, inUnit, isoDay, make, minute, visible,
} from "./format.js";
import { unit } from "./settings.js";
import { isStop } from "./trips.js";

/** A duration to the minute, from one minute on: the trip has the seconds. */
export const short = (s) =>
  (s === null ? "–" : duration(s < 60 ? s * 1000 : Math.round(s / 60) * 60_000));

const top = (mps) => String(Math.round(inUnit(mps)));

/** The columns: label, the value to sort by, and the text of a trip or stop. */
export const COLUMNS = [
  { key: "time", label: "Time", value: (it) => it.startMs },
  { key: "what", label: "What", value: (it) => it.kind, text: (it) => what(it) },
  {
    key: "distance", label: "Distance", isNumber: true,
    value: (it) => (isStop(it) ? -1 : it.distance_m),
    text: (it) => (isStop(it) ? "" : distance(it.distance_m)),
  },
  {
    key: "duration", label: "Duration", isNumber: true, value: (it) => it.endMs - it.startMs,
    text: (it) => short((it.endMs - it.startMs) / 1000),
  },
  {
    key: "moving", label: "Moving", isNumber: true, value: (it) => it.moving_s ?? -1,
    text: (it) => (isStop(it) ? "" : short(it.moving_s)),
  },
  {
    key: "idle", label: "Idle", isNumber: true, value: (it) => it.idle_s ?? -1,
    text: (it) => (isStop(it) && !it.idle_s ? "" : short(it.idle_s)),
  },
  {
    key: "top", label: "Top", unit: () => unit().speed, isNumber: true,
    value: (it) => it.max_speed_mps ?? -1,
    text: (it) => (isStop(it) || it.max_speed_mps === null ? "" : top(it.max_speed_mps)),
  },
  {
    key: "driver", label: "Driver", value: (it) => it.driver ?? "",
    text: (it) => make("bdi", "", visible(it.driver ?? "")),
  },
];

/** What it is, with its tags. */
function what(segment) {
  const name = isStop(segment)
    ? segment.parked_s > 0 ? "Parked" : "Stop"
    : segment.retired.length ? "Trip, merged" : "Trip";
  const tags = Object.entries(segment.tags ?? {}).map(([key, value]) =>
    make("bdi", "tag", visible(value ? `${key}: ${value}` : key)));
  return make("span", "what", [make("span", `kind ${segment.kind}`, name), ...tags]);
}

/** `08:00 – 08:12`, with the dates of times that are not on the day; null: with the first date. */
export function times({ startMs, endMs }, day) {
  const date = (ms, other) => (dayOf(ms) === other ? "" : `${isoDay(dayOf(ms)).slice(5)} `);
  const until = day ?? dayOf(startMs);
  return `${date(startMs, day)}${minute(startMs)} – ${date(endMs, until)}${minute(endMs)}`;
}

/** Whether a tag filter, `key=value` or `key`, accepts these tags. */
function hasTag(tags, wanted) {
  const [key, ...rest] = wanted.split("=");
  // Objects have a `constructor`, and more of that kind.
  return Object.hasOwn(tags ?? {}, key) && (!rest.length || tags[key] === rest.join("="));
}

/** Whether two boxes overlap, edges included; the first one may cross the antimeridian. */
function overlaps([west, south, east, north], [w, s, e, n]) {
  const byLongitude = west <= east ? e >= west && w <= east : e >= west || w <= east;
  return byLongitude && n >= south && s <= north;
}

/** Whether a trip or stop is of a filter. */
export const accepts = ({ kind, driver, tag, bbox }, it) =>
  (kind === "all" || it.kind === kind) && (!driver || it.driver === driver) &&
  (!tag || hasTag(it.tags, tag)) && (!bbox || overlaps(bbox.split(",").map(Number), it.bbox));

/** The filter in words, as the content of an element; empty if it accepts everything. */
export function inWords({ kind, driver, tag, bbox }) {
  const text = (it) => make("bdi", "", visible(it));
  const words = [];
  if (kind !== "all") words.push([`${kind}s only`]);
  if (driver) words.push(["driver ", text(driver)]);
  if (tag) words.push(["tag ", text(tag)]);
  if (bbox) words.push(["bounding box touches the area on the map"]);
  return words.flatMap((it, at) => (at ? [", ", ...it] : it));
}

/** The order of a table, by a click on the head of a column, and as `-distance` in the URL. */
export class Order {
  onChange; columns; row;

  constructor(row, columns, onChange) {
    Object.assign(this, { row, columns, onChange });
    row.replaceChildren(...columns.map((column) => this.head(column)));
    this.read("");
  }

  head({ key, isNumber }) {
    const button = make("button", "sort", "", { type: "button" });
    const cell = make("th", isNumber ? "number" : "", button, { scope: "col", "data-key": key });
    button.addEventListener("click", () => {
      this.step = this.key === key ? -this.step : isNumber ? -1 : 1;
      this.key = key;
      this.onChange();
    });
    return cell;
  }

  /** The order as a parameter of the URL; empty: by the first column. */
  get parameter() {
    const isDefault = this.key === this.columns[0].key && this.step > 0;
    return isDefault ? "" : (this.step < 0 ? "-" : "") + this.key;
  }

  read(text) {
    const key = (text ?? "").replace(/^-/, "");
    this.step = text?.startsWith("-") ? -1 : 1;
    this.key = this.columns.some((it) => it.key === key) ? key : this.columns[0].key;
  }

  /** Whether rows are in order of time. */
  get isByTime() {
    return this.key === "time" && this.step > 0;
  }

  sorted(rows) {
    const { value } = this.columns.find(({ key }) => key === this.key);
    const compare = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
    return rows.toSorted((a, b) => compare(a, b) * this.step || a.startMs - b.startMs);
  }

  /** Writes the labels, and which column orders the rows. */
  show() {
    for (const cell of this.row.children) {
      const { key, label, unit: name } = this.columns.find((it) => it.key === cell.dataset.key);
      cell.firstChild.textContent = name ? `${label} ${name()}` : label;
      if (key !== this.key) cell.removeAttribute("aria-sort");
      else cell.setAttribute("aria-sort", this.step > 0 ? "ascending" : "descending");
    }
  }
}
