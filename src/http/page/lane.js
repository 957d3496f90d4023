// One day of a device: a bar per trip, a thin one per stop, a dot at its t*, a circle at each
// retired id.

import {
  DAY, clock, clockPosition, dayName, draw, duration, endOf, make, plural, startOf, zone,
} from "./format.js";
import { isStop } from "./trips.js";
import { changeOf, timeAtClock } from "./zone.js";

/** Below this width per trip, px, the dots are hidden. */
const DENSE_PX = 9;
/** On bars below this width, px, the dot of the t* would hide the bar. */
const THIN_PX = 12;
const MERGE_MS = 1100;

export class Lane {
  constructor(day) {
    this.day = day;
    this.startMs = startOf(day);
    this.endMs = endOf(day);
    this.bars = new Map();
    this.countLabel = make("span", "lane-count");
    // Arrow keys on the tracks choose the day, too.
    this.label = make("button", "lane-label", [make("b", "", dayName(day)), this.countLabel],
      { type: "button", tabindex: "-1", "data-choose": day });
    this.skipped = draw("rect", { class: "skipped", y: 0, height: "100%" });
    this.barLayer = draw("g");
    this.markLayer = draw("g", { class: "marks" });
    this.pathLayer = draw("g");
    this.hover = draw("line", { class: "hover", y1: 0, y2: "100%", visibility: "hidden" });
    this.cursor = draw("line", { class: "cursor", y1: 0, y2: "100%", visibility: "hidden" });
    this.track = draw("svg", {
      class: "track",
      role: "slider",
      tabindex: "-1",
      "data-day": day,
      "aria-valuemin": 0,
      "aria-valuemax": (this.endMs - this.startMs) / 1000 - 1,
      "aria-orientation": "horizontal",
    });
    this.replay = draw("line", { class: "replayed", y1: 0, y2: "100%", visibility: "hidden" });
    this.track.append(this.skipped, this.barLayer, this.pathLayer, this.markLayer, this.hover, this.cursor,
      this.replay);
    this.el = make("div", "lane", [this.label, this.track]);
  }

  /** Position of a time in the view, percent. */
  at(ms, view) {
    return ((clockPosition(ms, this.day) - view.from) / (view.to - view.from)) * 100;
  }

  /**
   * Shows the trips and stops of the day. `into` maps ids that a merge has just retired to the
   * merged trip: their bars move into its bar before they disappear.
   */
  show(trips, view, selected, into = new Map()) {
    this.trips = trips;
    this.view = view;
    const count = trips.filter((trip) => !isStop(trip)).length;
    const hours = (this.endMs - this.startMs) / 3_600_000;
    const text = plural(count, "trip") + (hours === 24 ? "" : ` · ${hours} h`);
    this.countLabel.textContent = text;
    this.track.setAttribute("aria-label", `${dayName(this.day)} ${zone()}, ${text}`);
    this.showSkipped(view);
    const shown = new Set();
    for (const trip of trips) {
      shown.add(trip.id);
      const bar = this.bars.get(trip.id) ?? this.addBar(trip);
      this.position(bar, trip, view);
      bar.rect.classList.toggle("selected", trip.id === selected);
      bar.rect.classList.toggle("open", Boolean(trip.open));
      bar.marks.classList.toggle("selected", trip.id === selected);
    }
    for (const [id, bar] of this.bars) if (!shown.has(id)) this.drop(id, bar, into.get(id), view);
    const width = this.track.clientWidth || 800;
    const share = DAY / (view.to - view.from);
    const isDense = (width * share) / Math.max(count, 1) < DENSE_PX;
    this.track.classList.toggle("dense", isDense);
  }

  /** Marks the hour that the clocks skip. */
  showSkipped(view) {
    const { from, to } = changeOf(this.day) ?? { from: 0, to: 0 };
    const share = (position) => ((position - view.from) / (view.to - view.from)) * 100;
    this.skipped.setAttribute("x", `${share(from)}%`);
    this.skipped.setAttribute("width", `${Math.max(share(to) - share(from), 0)}%`);
  }

  addBar({ id, kind }) {
    const box = kind === "stop"
      ? { class: "stop", y: 20, height: 4 }
      : { class: "bar", y: 15, height: 14, rx: 3 };
    const rect = draw("rect", { ...box, "data-trip": id });
    const marks = draw("g");
    this.barLayer.append(rect);
    this.markLayer.append(marks);
    const bar = { rect, marks, key: "" };
    this.bars.set(id, bar);
    return bar;
  }

  position(bar, trip, view) {
    const key = `${trip.startMs} ${trip.endMs} ${trip.retired.length} ${view.from} ${view.to}`;
    if (bar.key === key) return;
    bar.key = key;
    const from = Math.max(trip.startMs, this.startMs);
    const to = Math.min(trip.endMs, this.endMs);
    span(bar.rect, this.at(from, view), this.at(to, view));
    bar.rect.classList.toggle("merged", trip.retired.length > 0);
    const wide = ((to - from) / (view.to - view.from)) * (this.track.clientWidth || 800);
    bar.marks.classList.toggle("thin", wide < THIN_PX);
    if (isStop(trip)) return;
    // Retired ids are drawn above the bar, so that many of them do not hide it.
    const dots = [...trip.retired.map(({ ms }) => [ms, "retired", 8]), [trip.starMs, "star", 22]];
    const inside = dots.filter(([ms]) => ms >= this.startMs && ms < this.endMs);
    bar.marks.replaceChildren(
      ...inside.map(([ms, kind, cy]) =>
        draw("circle", { class: kind, cx: `${this.at(ms, view)}%`, cy, r: 3.5 }),
      ),
    );
  }

  drop(id, bar, trip, view) {
    this.bars.delete(id);
    bar.marks.remove();
    if (!trip) {
      bar.rect.remove();
      return;
    }
    // A visible merge: the bar moves into the bar of the merged trip, then disappears.
    bar.rect.classList.add("retiring");
    delete bar.rect.dataset.trip;
    span(bar.rect, this.at(Math.max(trip.startMs, this.startMs), view),
      this.at(Math.min(trip.endMs, this.endMs), view));
    const winner = this.bars.get(trip.id)?.rect;
    winner?.classList.add("joined");
    setTimeout(() => {
      bar.rect.remove();
      winner?.classList.remove("joined");
    }, MERGE_MS);
  }

  /** Marks the jumps of a path, across its bar, and its late parts, below. */
  setMarks({ jumps, late }) {
    const x = (ms) => this.at(Math.min(Math.max(ms, this.startMs), this.endMs), this.view);
    const isHere = ({ fromMs, toMs }) => toMs >= this.startMs && fromMs < this.endMs;
    const line = (kind, from, to, y1, y2) =>
      draw("line", { class: kind, x1: `${from}%`, x2: `${to}%`, y1, y2 });
    // A part of one sample is seen as well.
    const bars = late.filter(isHere).map(({ fromMs, toMs }) =>
      line("late", x(fromMs), Math.max(x(toMs), x(fromMs) + 0.4), 32.5, 32.5));
    const ticks = jumps.filter(isHere).map(({ fromMs }) =>
      line("jump", x(fromMs), x(fromMs), 12, 32));
    this.pathLayer.replaceChildren(...bars, ...ticks);
  }

  has(ms) {
    return ms >= this.startMs && ms < this.endMs;
  }

  /** Marks the time of the replay, or none with null. */
  setReplay(ms) {
    mark(this.replay, ms !== null && this.has(ms) ? this.at(ms, this.view) : null);
  }

  /** Marks a time, or none with null; `text` describes it. */
  setCursor(ms, text) {
    const isHere = ms !== null && this.has(ms);
    mark(this.cursor, isHere ? this.at(ms, this.view) : null);
    const value = isHere ? Math.floor((ms - this.startMs) / 1000) : 0;
    this.track.setAttribute("aria-valuenow", value);
    this.track.setAttribute("aria-valuetext", isHere ? `${clock(ms)}, ${text}` : "no time chosen");
    this.track.classList.toggle("has-cursor", isHere);
  }

  /** Marks a position on the clock, ms; none with null. */
  setHover(position) {
    const { from, to } = this.view;
    mark(this.hover, position === null ? null : ((position - from) / (to - from)) * 100);
  }

  /** The time at a screen position; on a bar that is wider than its trip, a time of the trip. */
  timeAt(x, target) {
    const box = this.track.getBoundingClientRect();
    const share = Math.min(Math.max((x - box.left) / box.width, 0), 1);
    const within = this.view.from + share * (this.view.to - this.view.from);
    const rounded = timeAtClock(Math.round(within / 1000) * 1000, this.day);
    const ms = Math.min(rounded, this.endMs - 1000);
    const hit = target?.dataset?.trip;
    const trip = hit && this.trips.find((other) => other.id === hit);
    return trip ? Math.min(Math.max(ms, trip.startMs), trip.endMs) : ms;
  }

  /** A short description of a trip or stop. */
  static describe(trip) {
    if (!trip) return "no trip";
    const long = duration(trip.endMs - trip.startMs);
    const name = isStop(trip) ? "stop" : "trip";
    return `${name} ${clock(trip.startMs)} to ${clock(trip.endMs)}, ${long}`;
  }
}

/** Places a bar, in percent, at least 3 px wide. Uses CSS, so that it can be animated. */
function span(rect, from, to) {
  rect.style.setProperty("x", `${from.toFixed(4)}%`);
  rect.style.setProperty("width", `max(3px, ${(to - from).toFixed(4)}%)`);
}

function mark(line, percent) {
  line.setAttribute("visibility", percent === null ? "hidden" : "visible");
  if (percent === null) return;
  line.setAttribute("x1", `${percent}%`);
  line.setAttribute("x2", `${percent}%`);
}
