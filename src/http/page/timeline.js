// Timeline of a device: one lane per day. A click or a key looks up a time.

import { DAY, clock, clockPosition, dayOf, draw, duration, startOf } from "./format.js";
import { Lane } from "./lane.js";
import { timeAtClock } from "./zone.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const STEPS_MIN = [1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360];
const LABEL_PX = 64;
const MIN_VIEW = 10 * MINUTE;
const MORE_DAYS = 14;

export class Timeline {
  onLookup; onDay; onEnter; trips; days; grid;

  /**
   * `onLookup(ms, isSettled)`: looks up a chosen time; `onDay(day)`: shows a day; `onEnter()`:
   * moves to the trip.
   */
  constructor({ onLookup, onDay, onEnter }) {
    /** @type {(id: string) => any} */
    const get = (id) => document.getElementById(id);
    Object.assign(this, { onLookup, onDay, onEnter });
    this.root = get("lanes");
    this.axis = get("axis");
    this.readout = get("pointer-time");
    this.lanes = new Map();
    this.view = { from: 0, to: DAY };
    this.shownDays = MORE_DAYS;
    this.cursorMs = null;
    this.selected = null;
    this.day = null;
    /** The chosen span of days, `{first, last, onMap}`; null: a day. */
    this.span = null;
    /** The trips and stops of a day under other rules, shown instead of the stored ones. */
    this.whatIf = null;
    this.marks = { jumps: [], late: [] };
    this.grid = draw("svg", { class: "grid", "aria-hidden": "true" });
    get("zoom-in").addEventListener("click", () => this.zoom(0.5));
    get("zoom-out").addEventListener("click", () => this.zoom(2));
    get("zoom-fit").addEventListener("click", () => this.zoom(Infinity));
    this.listen();
    new ResizeObserver(() => this.drawAxis()).observe(this.axis);
  }

  /** The day that the table and the map show. */
  get day() {
    return this.shownDay;
  }

  set day(day) {
    this.shownDay = day;
    /** A time of it, which is on the same day or a neighbour of it in another zone. */
    this.middleMs = day === null ? null : startOf(day) + DAY / 2;
  }

  /** The days that the table shows: the span if the chosen day is in it, else that day. */
  get tableDays() {
    const { day, span } = this;
    const isIn = span && day !== null && day >= span.first && day <= span.last;
    return isIn ? span : { first: day, last: day, onMap: null };
  }

  /** Removes the lanes, which `render` makes again: in another zone, days are others. */
  forgetLanes() {
    this.lanes.clear();
    this.root.replaceChildren(this.grid);
  }

  clear(trips) {
    this.trips = trips;
    this.forgetLanes();
    this.view = { from: 0, to: DAY };
    this.shownDays = MORE_DAYS;
    this.cursorMs = null;
    this.selected = null;
    this.day = this.span = this.whatIf = null;
  }

  /** What a day is under other rules, if that is shown. */
  whatIfOf(day) {
    return this.whatIf?.day === day ? this.whatIf : null;
  }

  /** The shown trip or stop that covers a time. */
  covering(ms) {
    const whatIf = this.whatIfOf(dayOf(ms));
    if (!whatIf) return this.trips.covering(ms);
    return whatIf.segments.find(({ startMs, endMs }) => startMs <= ms && ms <= endMs);
  }

  /** Number of loaded days that are not shown yet. */
  get hiddenDays() {
    return Math.max(0, this.days.size - this.shownDays);
  }

  showMore() {
    this.shownDays += MORE_DAYS;
    this.render();
  }

  /** Draws the loaded trips; `into`: see `Lane.show`. */
  render(into) {
    this.days = this.trips.days(this.day);
    const { first, last } = this.tableDays;
    const index = [...this.days.keys()].findLastIndex((day) => day >= first && day <= last);
    this.shownDays = Math.max(this.shownDays, index + 1);
    document.getElementById("zoom-fit").textContent = duration(this.view.to - this.view.from);
    const wanted = [...this.days].slice(0, this.shownDays);
    if (into?.size) this.animate();
    const els = [this.grid];
    for (const [day, trips] of wanted) {
      if (!this.lanes.has(day)) this.lanes.set(day, new Lane(day));
      const lane = this.lanes.get(day);
      const whatIf = this.whatIfOf(day);
      lane.show(whatIf?.segments ?? trips, this.view, this.selected, into);
      lane.el.classList.toggle("what-if", Boolean(whatIf));
      lane.setMarks(this.marks);
      const isChosen = day >= first && day <= last;
      lane.label.setAttribute("aria-current", isChosen ? "date" : "false");
      els.push(lane.el);
    }
    const shown = new Set(wanted.map(([day]) => day));
    for (const day of this.lanes.keys()) if (!shown.has(day)) this.lanes.delete(day);
    const isSame = els.length === this.root.children.length &&
      els.every((el, at) => el === this.root.children[at]);
    if (!isSame) this.root.replaceChildren(...els);
    this.drawAxis();
    this.setCursor(this.cursorMs);
  }

  /** Enables the transitions of the bars for a moment. */
  animate() {
    this.root.classList.add("moving");
    clearTimeout(this.animation);
    this.animation = setTimeout(() => this.root.classList.remove("moving"), 1200);
  }

  select(id) {
    this.selected = id;
    this.render();
  }

  /** Chooses a day, and the lane that Tab focuses. */
  chooseDay(day) {
    this.day = day;
    if (this.cursorMs !== null && dayOf(this.cursorMs) !== day) this.cursorMs = null;
    this.render();
    this.scrollTo(day);
  }

  /** Marks the jumps and late parts of the selected trip. */
  setMarks(marks) {
    this.marks = marks;
    for (const lane of this.lanes.values()) lane.setMarks(marks);
    document.getElementById("key-jump").hidden = !marks.jumps.length;
    document.getElementById("key-late").hidden = !marks.late.length;
  }

  /** Marks the time of the replay, or none with null. */
  setReplay(ms) {
    for (const lane of this.lanes.values()) lane.setReplay(ms);
  }

  /** Marks a time, and makes its lane the one that Tab focuses. */
  setCursor(ms) {
    this.cursorMs = ms;
    const text = ms === null ? "" : Lane.describe(this.covering(ms));
    const day = ms === null ? this.day : dayOf(ms);
    const focusable = this.lanes.has(day) ? day : this.lanes.keys().next().value;
    for (const lane of this.lanes.values()) {
      lane.setCursor(ms, text);
      lane.track.setAttribute("tabindex", lane.day === focusable ? "0" : "-1");
    }
  }

  /** Scrolls and zooms so that the chosen time is visible. */
  reveal() {
    if (this.cursorMs === null) return;
    const day = dayOf(this.cursorMs);
    const within = clockPosition(this.cursorMs, day);
    const { from, to } = this.view;
    if (within < from || within > to) this.zoom(1);
    this.scrollTo(day);
  }

  scrollTo(day) {
    const scroll = this.root.parentElement;
    const lane = this.lanes.get(day)?.el;
    if (!lane) return;
    const top = lane.offsetTop + this.root.offsetTop;
    const isVisible = top - 24 >= scroll.scrollTop &&
      top + lane.offsetHeight <= scroll.scrollTop + scroll.clientHeight;
    if (!isVisible) scroll.scrollTop = Math.max(0, top - scroll.clientHeight / 2);
  }

  /** Changes the visible part of the day by `factor`, around the chosen time. */
  zoom(factor, middle = this.cursorMs) {
    const { from, to } = this.view;
    const wide = Math.min(Math.max((to - from) * factor, MIN_VIEW), DAY);
    const centre = middle === null ? (from + to) / 2 : clockPosition(middle, dayOf(middle));
    // The chosen time keeps its position while it is visible.
    const isVisible = centre >= from && centre <= to && factor !== 1;
    const share = isVisible ? (centre - from) / (to - from) : 0.5;
    const start = Math.min(Math.max(centre - share * wide, 0), DAY - wide);
    this.view = { from: start, to: start + wide };
    this.render();
  }

  drawAxis() {
    const width = this.axis.clientWidth;
    if (!width) return;
    const { from, to } = this.view;
    const perMinute = (width * MINUTE) / (to - from);
    const step = (STEPS_MIN.find((min) => min * perMinute >= LABEL_PX) ?? 360) * MINUTE;
    const ticks = [];
    const lines = [];
    for (let ms = Math.ceil(from / step) * step; ms <= to; ms += step) {
      const share = (ms - from) / (to - from);
      const x = `${share * 100}%`;
      const anchor = share < 0.02 ? "start" : share > 0.98 ? "end" : "middle";
      const tick = draw("text", { x, y: 15, "text-anchor": anchor });
      tick.textContent = clockText(ms);
      ticks.push(tick);
      lines.push(draw("line", { x1: x, x2: x, y1: 0, y2: "100%" }));
    }
    this.axis.replaceChildren(...ticks);
    this.grid.replaceChildren(...lines);
  }

  laneOf(target) {
    const track = target.closest?.(".track");
    return track ? this.lanes.get(Number(track.dataset.day)) : undefined;
  }

  listen() {
    const { root } = this;
    let dragged = null;
    const point = (event, lane, target) => {
      const ms = lane.timeAt(event.clientX, target);
      const position = clockPosition(ms, lane.day);
      for (const other of this.lanes.values()) other.setHover(position);
      this.readout.hidden = false;
      this.readout.value = clock(ms);
      const { left } = this.axis.parentElement.getBoundingClientRect();
      this.readout.style.left = `${event.clientX - left}px`;
      return ms;
    };
    root.addEventListener("click", (event) => {
      const label = event.target.closest?.("[data-choose]");
      if (label) this.onDay(Number(label.dataset.choose));
    });
    root.addEventListener("pointerdown", (event) => {
      const lane = this.laneOf(event.target);
      if (!lane || event.button !== 0) return;
      dragged = lane;
      lane.track.setPointerCapture(event.pointerId);
      lane.track.focus({ preventScroll: true });
      this.choose(point(event, lane, event.target), false);
    });
    root.addEventListener("pointermove", (event) => {
      const lane = dragged ?? this.laneOf(event.target);
      if (!lane) return;
      const ms = point(event, lane, dragged ? null : event.target);
      // Ignores moves of 0 px, which are not a drag.
      if (dragged && Math.abs(event.movementX) > 0) this.choose(ms, false);
    });
    root.addEventListener("pointerup", () => {
      if (dragged) this.onLookup(this.cursorMs, true);
      dragged = null;
    });
    root.addEventListener("pointercancel", () => (dragged = null));
    root.addEventListener("pointerleave", () => {
      if (dragged) return;
      this.readout.hidden = true;
      for (const lane of this.lanes.values()) lane.setHover(null);
    });
    root.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    root.addEventListener("keydown", (event) => this.key(event));
  }

  wheel(event) {
    const lane = this.laneOf(event.target);
    if (!lane || !event.ctrlKey) return;
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? 1.25 : 0.8, lane.timeAt(event.clientX));
  }

  choose(ms, isSettled) {
    this.setCursor(ms);
    this.onLookup(ms, isSettled);
  }

  key(event) {
    const lane = this.laneOf(event.target);
    if (!lane || event.altKey || event.metaKey || event.ctrlKey) return;
    const last = lane.trips.at(-1);
    const isHere = this.cursorMs !== null && lane.has(this.cursorMs);
    const now = isHere ? this.cursorMs : Math.max(last?.startMs ?? 0, lane.startMs);
    const step = event.shiftKey ? 10 * MINUTE : MINUTE;
    const times = {
      ArrowLeft: () => now - step,
      ArrowRight: () => now + step,
      PageUp: () => now - HOUR,
      PageDown: () => now + HOUR,
      Home: () => lane.startMs,
      End: () => lane.endMs - 1000,
      n: () => this.trips.next(now, 1)?.startMs,
      p: () => this.trips.next(now, -1)?.startMs,
      ArrowUp: () => this.otherDay(now, -1),
      ArrowDown: () => this.otherDay(now, 1),
    };
    if (event.key === "Enter") this.onEnter();
    else if (event.key === "+") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (times[event.key]) this.go(times[event.key](), now);
    else return;
    event.preventDefault();
  }

  /** The same time on the lane above or below. */
  otherDay(now, step) {
    const days = [...this.lanes.keys()].sort((a, b) => b - a);
    const day = days[days.indexOf(dayOf(now)) + step];
    return day === undefined ? undefined : timeAtClock(clockPosition(now, dayOf(now)), day);
  }

  go(ms, now) {
    if (ms === undefined) return;
    const { startMs, endMs } = this.lanes.get(dayOf(now));
    // Without a lane for that day: stays on this one.
    const isShown = this.lanes.has(dayOf(ms));
    const target = isShown ? ms : Math.min(Math.max(ms, startMs), endMs - 1000);
    this.setCursor(target);
    this.reveal();
    this.lanes.get(dayOf(target))?.track.focus({ preventScroll: true });
    this.onLookup(target, false);
  }
}

/** `06:00`, also for the end of a day. */
function clockText(position) {
  const minutes = Math.round(position / MINUTE);
  const text = (number) => String(number).padStart(2, "0");
  return `${text(Math.floor(minutes / 60))}:${text(minutes % 60)}`;
}
