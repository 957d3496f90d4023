// Days of a device as a table: trips and stops in turn, the silences between them, and the sums.

import * as api from "./api.js";
import { Area } from "./area.js";
import { downloads } from "./downloads.js";
import {
  clock, count, dayName, dayOf, distance, duration, endOf, isoDay, make, plural, startOf, tokenOf,
  visible, zone,
} from "./format.js";
import { COLUMNS, Order, accepts, inWords, short, times } from "./rows.js";
import { isStop } from "./trips.js";

/** Minimum time between two reads of the sums of a day that changes, ms. */
const SUMS_DELAY_MS = 2000;

export class DayTable {
  onView; onMapDay; onDay; onPick;

  /**
   * `onPick(segment)`: the row of a trip or stop was chosen; `onDay(day)`: another day;
   * `onMapDay(day)`: the map has to show that day of the span alone, or with null all of them;
   * `onView()`: another filter or order.
   */
  constructor({ onPick, onDay, onMapDay, onView }) {
    Object.assign(this, { onPick, onDay, onMapDay, onView });
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
    this.onMap = get("day-map");
    this.shown = null;
    const changed = () => {
      this.render();
      this.onView();
    };
    this.order = new Order(get("day-head"), COLUMNS, changed);
    this.area = new Area(get("area-tools"), changed);
    for (const filter of [this.kind, this.driver, this.tag]) {
      filter.addEventListener("change", changed);
    }
    this.onMap.addEventListener("change", () =>
      this.onMapDay(this.onMap.value === "" ? null : Number(this.onMap.value)));
  }

  clear() {
    this.shown = this.total = this.days = null;
    this.loading?.abort();
    this.name.textContent = "";
    for (const el of [this.sums, this.body, this.links]) el.replaceChildren();
    this.state.textContent = "";
  }

  /** Takes over filter and order of a URL. */
  read(parameters) {
    const text = (name) => parameters.get(name) ?? "";
    this.kind.value = ["trip", "stop"].includes(text("kind")) ? text("kind") : "all";
    this.tag.value = text("tag");
    this.area.read(text("box"));
    this.order.read(text("sort"));
    this.showDrivers(text("driver"));
    this.render();
  }

  /** Filter and order as parameters of the URL. */
  parameters() {
    const { kind, driver, tag, bbox } = this.filter();
    const others = { sort: this.order.parameter, driver, tag, box: bbox };
    return { ...(kind === "all" ? {} : { kind }), ...others };
  }

  /** Lists the drivers of the rows, and the chosen one. */
  showDrivers(chosen) {
    const of = (this.shown?.segments ?? []).map((it) => it.driver);
    const drivers = [...new Set([...of, chosen].filter(Boolean))].sort();
    this.driver.replaceChildren(new Option("All drivers", ""),
      ...drivers.map((driver) => new Option(visible(driver), driver)));
    this.driver.value = chosen;
    this.driver.parentElement.hidden = !drivers.length;
  }

  /**
   * Shows days: `{device, first, last, onMap, segments, selected, maxGapMs, near, whatIf}`. Of days
   * without any, `near` are the days of the trips before and after, or null. `onMap` is the day
   * that the map shows alone, or null. `whatIf` has the sums of segments that are not stored.
   */
  show(shown) {
    const before = this.shown;
    const isSame = ["device", "first", "last"].every((name) => before?.[name] === shown[name]) &&
      !before?.whatIf && !shown.whatIf;
    const key = zone() + shown.segments.map(({ id, version }) => `${id} ${version}`).join();
    this.shown = shown;
    this.showDrivers(this.driver.value);
    this.showMapDays();
    if (!isSame) this.total = this.days = null;
    this.render();
    if (shown.whatIf) {
      this.loading?.abort();
      this.total = shown.whatIf.sums;
      this.showSums();
      return;
    }
    if (isSame && key === this.key) {
      if (this.total) this.showSums();
      return;
    }
    this.key = key;
    if (isSame) {
      this.sumsTimer ||= setTimeout(() => this.loadSums(), SUMS_DELAY_MS);
      return;
    }
    this.sums.replaceChildren(make("p", "muted", "Loading the sums…"));
    this.loadSums();
  }

  get isSpan() {
    return this.shown.last > this.shown.first;
  }

  /** The day of a span under which a row is. */
  dayOfRow(segment) {
    return Math.max(dayOf(segment.startMs), this.shown.first);
  }

  /** Lists the days of a span that the map can show alone. */
  showMapDays() {
    const { segments, onMap } = this.shown;
    this.onMap.parentElement.hidden = !this.isSpan;
    const days = [...new Set(segments.map((it) => this.dayOfRow(it)).concat(onMap ?? []))];
    this.onMap.replaceChildren(new Option("all days", ""),
      ...days.sort((a, b) => a - b).map((day) => new Option(dayName(day), day)));
    this.onMap.value = onMap ?? "";
  }

  /** What the table shows, as the API calls it. */
  filter() {
    const tag = this.tag.value.trim();
    const [driver, bbox] = [this.driver.value || null, this.area.bbox || null];
    return { kind: this.kind.value, driver, tag: tag || null, bbox };
  }

  render() {
    if (!this.shown) return;
    const { first, last, segments, maxGapMs, whatIf } = this.shown;
    this.root.classList.toggle("what-if", Boolean(whatIf));
    this.name.replaceChildren(
      this.isSpan ? `${dayName(first)} to ${dayName(last)}` : dayName(first),
      ...(whatIf ? [make("b", "not-stored", "what if: not what is stored")] : []));
    this.order.show();
    // What is not stored has neither drivers nor tags.
    const filter = { ...this.filter(), ...(whatIf ? { driver: null, tag: null } : {}) };
    const found = segments.filter((it) => accepts(filter, it));
    const isTimeline = this.order.isByTime && found.length === segments.length;
    const focused = document.activeElement?.closest?.("tr")?.dataset.id;
    const rows = [];
    let [before, day] = [null, null];
    for (const it of this.order.sorted(found)) {
      const silent = before && it.startMs - before.endMs;
      if (isTimeline && silent > maxGapMs) rows.push(silence(before, it));
      before = it;
      if (this.isSpan && this.order.isByTime && day !== this.dayOfRow(it)) {
        day = this.dayOfRow(it);
        rows.push(this.heading(day));
      }
      rows.push(this.row(it, this.isSpan ? day : first));
    }
    this.body.replaceChildren(...rows);
    if (focused) [...this.body.rows].find((row) => row.dataset.id === focused)
      ?.querySelector("button")?.focus({ preventScroll: true });
    this.showState(found, inWords(filter));
    this.showLinks(found, filter);
  }

  /** Which rows are shown, if the filter leaves some out, and what to do where there are none. */
  showState(found, words) {
    const { segments } = this.shown;
    const which = this.isSpan ? "these days" : "this day";
    let text = [];
    if (!segments.length) text = [`No trips or stops on ${which}. `, ...this.neighbours()];
    else if (words.length) {
      const metres = found.reduce((sum, it) => sum + (isStop(it) ? 0 : it.distance_m), 0);
      const sum = metres ? `, ${distance(metres)}` : "";
      const all = `${count(found.length)} of ${plural(segments.length, "row")}${sum}`;
      text = [found.length ? `${all}: ` : `No trip or stop of ${which}: `, ...words, "."];
    }
    this.state.replaceChildren(...text);
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

  row(segment, day) {
    const choose = make("button", "link time", times(segment, day), { type: "button" });
    choose.title = `${clock(segment.startMs)} – ${clock(segment.endMs)} ${zone()}`;
    choose.addEventListener("click", () => this.onPick(segment));
    const cells = COLUMNS.slice(1).map(({ isNumber, text }) =>
      make("td", isNumber ? "number" : "", text(segment)));
    const row = make("tr", segment.kind, [make("th", "", choose, { scope: "row" }), ...cells]);
    row.dataset.id = segment.id;
    if (segment.id === this.shown.selected) row.setAttribute("aria-current", "true");
    return row;
  }

  /** The row above a day of a span: its sums, and a button that shows it on the map alone. */
  heading(day) {
    const sums = this.days?.get(isoDay(day));
    const isOnMap = this.shown.onMap === day;
    const show = make("button", "link", dayName(day), { type: "button",
      title: "Show this day alone on the map", "aria-pressed": String(isOnMap) });
    show.addEventListener("click", () => this.onMapDay(isOnMap ? null : day));
    const words = [sums ? ` ${plural(sums.trips, "trip")}, ${distance(sums.distance_m)}` : "",
      isOnMap ? " · on the map" : ""];
    const cell = make("th", "", [show, make("span", "muted", words)],
      { colspan: COLUMNS.length, scope: "rowgroup" });
    const row = make("tr", "date", cell);
    row.dataset.id = `day ${day}`;
    return row;
  }

  /** Links to what is shown, in the formats of the API. */
  showLinks(found, filter) {
    const { device, first, last, whatIf } = this.shown;
    this.links.hidden = Boolean(whatIf);
    if (whatIf) return;
    const span = { from: startOf(first), to: endOf(last) - 1 };
    const token = tokenOf(device);
    const [from, to] = [span.from, span.to].map((ms) => new Date(ms).toISOString());
    this.links.replaceChildren(...downloads(found, {
      url: (format, part) => api.listUrl(token, format, { ...span, ...filter, ...part }),
      name: [token, isoDay(first), ...(this.isSpan ? [isoDay(last)] : [])].join("-"),
      command: `tstar export --device ${quoted(visible(device))} --from ${from} --to ${to}`,
    }));
  }

  /** Reads the sums of the days, in which trips over midnight count with their part. */
  async loadSums() {
    clearTimeout(this.sumsTimer);
    this.sumsTimer = 0;
    this.loading?.abort();
    if (!this.shown) return;
    const loading = new AbortController();
    this.loading = loading;
    const { device, first, last, segments } = this.shown;
    if (!segments.length) {
      this.sums.replaceChildren();
      return;
    }
    const span = { from: startOf(first), to: endOf(last), tz: this.isSpan ? zone() : null };
    try {
      const { rows, total } = await api.sums(device, span, loading.signal);
      if (loading.signal.aborted) return;
      this.total = total;
      this.days = new Map(rows.map((row) => [row.key, row]));
      this.showSums();
      if (this.isSpan) this.render();
    } catch (error) {
      if (loading.signal.aborted) return;
      this.sums.replaceChildren(make("p", "muted", `Cannot load the sums: ${error.message}`));
    }
  }

  showSums() {
    const { total } = this;
    const { first, last, segments } = this.shown;
    const isCut = segments.some((it) => it.startMs < startOf(first) || it.endMs >= endOf(last));
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
    const note = "Trips and stops over midnight count with their part of " +
      (this.isSpan ? "these days." : "this day.");
    this.sums.replaceChildren(make("dl", "numbers", cells),
      ...(isCut ? [make("p", "muted note", note)] : []));
  }
}

/** A text as a word of a shell. */
const quoted = (text) => (/^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** A row for a time that no sample shows. */
function silence(before, after) {
  const text = `No samples for ${duration(after.startMs - before.endMs)}`;
  const cell = make("td", "", text, { colspan: COLUMNS.length });
  return make("tr", "silence", cell);
}
