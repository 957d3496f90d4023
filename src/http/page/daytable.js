// A day of a device as a table: trips and stops in turn, the silences between them, and the sums.

import * as api from "./api.js";
import {
  clock, count, dayName, dayOf, distance, duration, endOf, inUnit, isoDay, make, minute,
  startOf, tokenOf, visible, zone,
} from "./format.js";
import { unit } from "./settings.js";
import { isStop } from "./trips.js";

const FORMATS = { csv: "CSV", geojson: "GeoJSON", ndjson: "NDJSON", parquet: "Parquet" };

/** Minimum time between two reads of the sums of a day that changes, ms. */
const SUMS_DELAY_MS = 2000;

/** A duration to the minute, from one minute on: the trip has the seconds. */
const short = (s) => (s === null ? "–" : duration(s < 60 ? s * 1000 : Math.round(s / 60) * 60_000));

const top = (mps) => String(Math.round(inUnit(mps)));

/** The columns: label, the value to sort by, and the text of a trip or stop. */
const COLUMNS = [
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

/** `08:00 – 08:12`, with the date of an end that is on another day. */
function span({ startMs, endMs }, day) {
  const date = (ms) => (dayOf(ms) === day ? "" : `${isoDay(dayOf(ms)).slice(5)} `);
  const text = (ms) => date(ms) + minute(ms);
  return `${text(startMs)} – ${text(endMs)}`;
}

/** Whether a tag filter, `key=value` or `key`, accepts these tags. */
function hasTag(tags, wanted) {
  const [key, ...rest] = wanted.split("=");
  const value = tags?.[key];
  return value !== undefined && (!rest.length || value === rest.join("="));
}

export class DayTable {
  /** `onPick(segment)`: the row of a trip or stop was chosen; `onDay(day)`: another day. */
  constructor({ onPick, onDay }) {
    Object.assign(this, { onPick, onDay });
    const get = (id) => document.getElementById(id);
    this.root = get("day");
    this.name = get("day-name");
    this.sums = get("day-sums");
    this.body = get("day-rows");
    this.state = get("day-state");
    this.links = get("day-links");
    this.kind = get("day-kind");
    this.driver = get("day-driver");
    this.tag = get("day-tag");
    this.sort = { key: "time", step: 1 };
    this.shown = null;
    get("day-head").replaceChildren(...COLUMNS.map((column) => this.head(column)));
    for (const filter of [this.kind, this.driver, this.tag]) {
      filter.addEventListener("change", () => this.render());
    }
  }

  head({ key, isNumber }) {
    const button = make("button", "sort", "", { type: "button" });
    const cell = make("th", isNumber ? "number" : "", button, { scope: "col", "data-key": key });
    button.addEventListener("click", () => {
      const step = this.sort.key === key ? -this.sort.step : isNumber ? -1 : 1;
      this.sort = { key, step };
      this.render();
    });
    return cell;
  }

  clear() {
    this.shown = this.total = null;
    this.loading?.abort();
    this.name.textContent = "";
    this.driver.value = "";
    this.tag.value = "";
    for (const el of [this.sums, this.body, this.links]) el.replaceChildren();
    this.state.textContent = "";
  }

  /**
   * Shows a day: `{device, day, segments, selected, maxGapMs, near}`. Of a day without any, `near`
   * are the days of the trips before and after it, or null.
   */
  show(shown) {
    const isSame = this.shown?.device === shown.device && this.shown?.day === shown.day;
    const key = zone() + shown.segments.map(({ id, version }) => `${id} ${version}`).join();
    this.shown = shown;
    const drivers = [...new Set(shown.segments.map((it) => it.driver).filter(Boolean))].sort();
    const chosen = drivers.includes(this.driver.value) ? this.driver.value : "";
    this.driver.replaceChildren(new Option("All drivers", ""),
      ...drivers.map((driver) => new Option(visible(driver), driver)));
    this.driver.value = chosen;
    this.driver.parentElement.hidden = !drivers.length;
    this.render();
    if (isSame && key === this.key) {
      if (this.total) this.showSums();
      return;
    }
    this.key = key;
    if (isSame) {
      this.sumsTimer ||= setTimeout(() => this.loadSums(), SUMS_DELAY_MS);
      return;
    }
    this.total = null;
    this.sums.replaceChildren(make("p", "muted", "Loading the sums…"));
    this.loadSums();
  }

  /** What the table shows, as the API calls it. */
  filter() {
    const tag = this.tag.value.trim();
    return { kind: this.kind.value, driver: this.driver.value || null, tag: tag || null };
  }

  /** Trips and stops that the filter accepts, sorted. */
  rows() {
    const { segments } = this.shown;
    const { kind, driver, tag } = this.filter();
    const found = segments.filter((it) => (kind === "all" || it.kind === kind) &&
      (!driver || it.driver === driver) && (!tag || hasTag(it.tags, tag)));
    const { value } = COLUMNS.find(({ key }) => key === this.sort.key);
    const compare = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
    return found.sort((a, b) => compare(a, b) * this.sort.step || a.startMs - b.startMs);
  }

  render() {
    if (!this.shown) return;
    const { day, segments, maxGapMs } = this.shown;
    this.name.textContent = dayName(day);
    for (const cell of document.getElementById("day-head").children) {
      const { label, unit: name } = COLUMNS.find(({ key }) => key === cell.dataset.key);
      cell.firstChild.textContent = name ? `${label} ${name()}` : label;
      const isSorted = cell.dataset.key === this.sort.key;
      const order = this.sort.step > 0 ? "ascending" : "descending";
      if (isSorted) cell.setAttribute("aria-sort", order);
      else cell.removeAttribute("aria-sort");
    }
    const found = this.rows();
    const isTimeline = this.sort.key === "time" && this.sort.step > 0 &&
      found.length === segments.length;
    const focused = document.activeElement?.closest?.("tr")?.dataset.id;
    const rows = [];
    found.forEach((it, at) => {
      const before = found[at - 1];
      const silent = before && it.startMs - before.endMs;
      if (isTimeline && silent > maxGapMs) rows.push(silence(before, it));
      rows.push(this.row(it));
    });
    this.body.replaceChildren(...rows);
    if (focused) [...this.body.rows].find((row) => row.dataset.id === focused)
      ?.querySelector("button")?.focus({ preventScroll: true });
    this.state.replaceChildren(...(found.length ? [] : segments.length
      ? ["No trip or stop of this day is of that kind, driver and tag."]
      : ["No trips or stops on this day. ", ...this.neighbours()]));
    this.showLinks();
  }

  /** Buttons to the days with trips before and after one without. */
  neighbours() {
    const button = (word, day) => {
      const go = make("button", "button small", `${word}: ${isoDay(day)}`, { type: "button" });
      go.addEventListener("click", () => this.onDay(day));
      return go;
    };
    const [before, after] = this.shown.near;
    return [["Before", before], ["After", after]]
      .flatMap(([word, day]) => ((day ?? null) === null ? [] : [button(word, day), " "]));
  }

  /** Moves the focus to the row of a trip or stop, else to the day. */
  focus(id) {
    const row = [...this.body.rows].find((it) => it.dataset.id === id);
    (row?.querySelector("button") ?? this.root).focus();
    row?.scrollIntoView({ block: "nearest" });
  }

  row(segment) {
    const { day, selected } = this.shown;
    const choose = make("button", "link time", span(segment, day), { type: "button" });
    choose.title = `${clock(segment.startMs)} – ${clock(segment.endMs)} ${zone()}`;
    choose.addEventListener("click", () => this.onPick(segment));
    const cells = COLUMNS.slice(1).map(({ isNumber, text }) =>
      make("td", isNumber ? "number" : "", text(segment)));
    const row = make("tr", segment.kind, [make("th", "", choose, { scope: "row" }), ...cells]);
    row.dataset.id = segment.id;
    if (segment.id === selected) row.setAttribute("aria-current", "true");
    return row;
  }

  /** Links to what is shown, in the formats of the API. */
  showLinks() {
    const { device, day } = this.shown;
    const span = { from: startOf(day), to: endOf(day) - 1 };
    const token = tokenOf(device);
    const links = Object.entries(FORMATS).map(([format, text]) =>
      make("a", "button small", text, {
        href: api.listUrl(token, format, { ...span, ...this.filter() }),
        download: `${token}-${isoDay(day)}.${format}`,
      }));
    this.links.replaceChildren(make("span", "muted", "Download:"), ...links);
  }

  /** Reads the sums of the day, in which trips over midnight count with their part. */
  async loadSums() {
    clearTimeout(this.sumsTimer);
    this.sumsTimer = 0;
    this.loading?.abort();
    if (!this.shown) return;
    const loading = new AbortController();
    this.loading = loading;
    const { device, day, segments } = this.shown;
    const [from, to] = [startOf(day), endOf(day)];
    if (!segments.length) {
      this.sums.replaceChildren();
      return;
    }
    try {
      const total = await api.sums(device, { from, to }, loading.signal);
      if (loading.signal.aborted) return;
      this.total = total;
      this.showSums();
    } catch (error) {
      if (loading.signal.aborted) return;
      this.sums.replaceChildren(make("p", "muted", `Cannot load the sums: ${error.message}`));
    }
  }

  showSums() {
    const { total } = this;
    const { day, segments } = this.shown;
    const isCut = segments.some((it) => it.startMs < startOf(day) || it.endMs >= endOf(day));
    // Without any speed, nothing is known about it.
    const isKnown = segments.some((it) => !isStop(it) && it.moving_s !== null);
    const known = (s) => (isKnown ? short(s) : "–");
    const facts = [
      ["Trips", count(total.trips)],
      ["Distance", distance(total.distance_m)],
      ["Duration", short(total.duration_s)],
      ["Moving", known(total.moving_s)],
      ["Idle", known(total.idle_s)],
      ["Stops", short(total.standing_s + total.parked_s)],
    ];
    const cells = facts.map(([name, value]) =>
      make("div", "", [make("dt", "", name), make("dd", "", value)]));
    const note = "Trips and stops over midnight count with their part of this day.";
    this.sums.replaceChildren(make("dl", "numbers", cells),
      ...(isCut ? [make("p", "muted note", note)] : []));
  }
}

/** A row for a time that no sample shows. */
function silence(before, after) {
  const text = `No samples for ${duration(after.startMs - before.endMs)}`;
  const cell = make("td", "", text, { colspan: COLUMNS.length });
  return make("tr", "silence", cell);
}
