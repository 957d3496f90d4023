// Details of a trip, or of a time that no trip covers.

import * as api from "./api.js";
import { chart } from "./chart.js";
import {
  count, dayOf, distance, duration, isoDay, make, minute, moment, plural, speed, visible, zone,
} from "./format.js";
import { history } from "./history.js";
import { markList, marksOf } from "./marks.js";
import { Replay } from "./replay.js";
import { withSettings } from "./settings.js";
import { Tags } from "./tags.js";

const MATCHES = {
  current: ["", "is the id of this trip."],
  retired: ["retired", "was retired by a merge. The trip now has the id below."],
  covers: ["covers", "is not the id of a trip, but this trip covers its time."],
};

/** Texts that other parts of the page show; other texts and numbers are facts by their names. */
const SHOWN = ["id", "device_id", "kind", "t_star", "start_time", "end_time", "requested_id",
  "match"];

/** The facts that come first. */
const FIRST = ["duration_s", "distance_m", "moving_s", "idle_s", "max_speed_mps", "avg_speed_mps",
  "driver"];

/** How values are shown, by the unit at the end of the name. */
const UNITS = { mps: speed, m: distance, s: (s) => duration(s * 1000) };

/** The label and the text of a field. */
function fact([name, value]) {
  const [, words, unit] = /^(.+?)(?:_(mps|m|s))?$/.exec(name);
  const label = words[0].toUpperCase() + words.slice(1).replaceAll("_", " ");
  if (unit) return [label, UNITS[unit](value)];
  return [label, typeof value === "number" ? count(value) : visible(String(value))];
}

/** A list of facts. */
function numbers(facts) {
  const cells = facts.map(([name, value]) =>
    make("div", "", [make("dt", "", name), make("dd", "", make("bdi", "", value))]));
  return make("dl", "numbers", cells);
}

const ident = (text) => make("bdi", "ident", visible(text));

function button(text, onClick, className = "button") {
  const el = make("button", className, text);
  el.type = "button";
  el.addEventListener("click", onClick);
  return el;
}

/** Copies a text, which `el` shows; where the browser refuses, selects it and returns false. */
async function copied(text, el) {
  try {
    // Missing over plain HTTP, except on this machine.
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(el);
    return document.execCommand("copy");
  }
}

export class Detail {
  onId; onTrip; onPoint; onReplay; onPlay; onTags;

  /**
   * `onId(id)`: looks up an id; `onTrip(trip)`: selects a trip; `onPoint(ms)`: marks a time;
   * `onReplay(ms)`: shows a time of the replay; `onPlay()`: it is about to run; `onTags()`: the
   * tags of the trip have changed.
   */
  constructor(callbacks) {
    Object.assign(this, callbacks);
    const get = (id) => document.getElementById(id);
    this.root = get("detail");
    this.day = get("day");
    this.bar = get("trip-bar");
    this.status = get("says");
    this.again = () => {};
    this.isHistoryOpen = false;
  }

  /** Shows the day in place of a trip. */
  hint() {
    this.forget();
    this.again = () => {};
    this.root.replaceChildren();
    this.root.hidden = this.bar.hidden = true;
    this.day.hidden = false;
  }

  /** Forgets the trip that was shown. */
  forget() {
    this.shown = null;
    this.replay?.stop();
    this.replay = null;
    this.shownPath = null;
  }

  loading(text) {
    this.root.setAttribute("aria-busy", "true");
    if (!this.root.childElementCount) this.root.append(make("p", "muted", text));
  }

  put(...content) {
    this.root.removeAttribute("aria-busy");
    this.root.replaceChildren(...content.filter(Boolean));
    this.root.hidden = this.bar.hidden = false;
    this.day.hidden = true;
  }

  /** Shows a trip and the lookup that found it: `{at}` in ms, or `requested_id` and `match`. */
  trip(trip, lookup = {}) {
    const isSame = this.shown?.id === trip.id;
    const isUnchanged = isSame && this.shown.version === trip.version;
    if (isUnchanged && this.tags?.isEditing) return;
    if (!isSame) this.shownPath = null;
    if (!isUnchanged) {
      this.replay?.stop();
      this.replay = new Replay(trip, {
        onTime: (ms) => {
          this.speeds?.setReplay?.(ms);
          this.onReplay(ms);
        },
        onPlay: () => this.onPlay(),
      });
    }
    this.shown = trip;
    this.again = () => {
      this.speeds = null;
      this.shown = null;
      this.trip(trip, lookup);
      if (this.shownPath) this.path(trip, this.shownPath);
    };
    const speeds = isSame ? this.speeds : null;
    this.chartBox = make("div", "chart-box", speeds ?? make("p", "muted", "Loading the speed…"));
    this.tags = new Tags(trip, {
      what: "trip", url: api.tripUrl(trip.id), onChange: () => this.onTags(),
    });
    this.put(this.lookup(lookup), this.when(trip, "h3"), this.badges(trip), this.first(trip),
      this.tags.root, this.chartBox, this.replay.root, this.history(trip), this.ids(trip),
      this.links(trip));
    if (lookup.at !== undefined && lookup.at !== null && !isUnchanged) this.replay.ms = lookup.at;
    this.replay.show();
  }

  /** @param {{ at?: number, requested_id?: string, match?: string }} lookup */
  lookup({ at, requested_id: id, match }) {
    if (at !== undefined && at !== null) {
      return make("p", "asked", [make("b", "", moment(at)), " is covered by"]);
    }
    if (!id) return null;
    const [className, text] = MATCHES[match] ?? ["", "finds this trip."];
    const word = make("b", "match", match);
    const line = make("p", `asked ${className}`, [word, " ", ident(id), ` ${text}`]);
    line.dataset.match = match;
    return line;
  }

  title(trip) {
    const name = make("p", "trip-id ident", visible(trip.id));
    const copy = button("Copy", async () => {
      const isCopied = await copied(trip.id, name);
      copy.textContent = isCopied ? "Copied" : "Press Ctrl+C";
      this.status.textContent = isCopied ? "Id copied" : "The id is selected: press Ctrl+C";
      setTimeout(() => (copy.textContent = "Copy"), isCopied ? 1500 : 5000);
    }, "button small");
    copy.setAttribute("aria-label", "Copy the id");
    return make("div", "trip-title", [name, copy]);
  }

  badges({ open: isOpen, retired }) {
    const open = make("span", `badge ${isOpen ? "open" : ""}`, isOpen ? "open" : "closed");
    open.title = isOpen ? "May still grow at its end" : "Its end is final";
    const badges = make("p", "badges", [open]);
    const merged = `merged · ${plural(retired.length, "id")}`;
    if (retired.length) badges.append(make("span", "badge merged", merged));
    return badges;
  }

  /** From when to when; the tooltips have the milliseconds. */
  when({ startMs, endMs, start_time, end_time }, tag = "p") {
    const until = dayOf(startMs) === dayOf(endMs) ? "" : `${isoDay(dayOf(endMs))} `;
    return make(tag, "when", [
      make("span", "muted", `${isoDay(dayOf(startMs))} `),
      make("time", "", minute(startMs), { datetime: start_time, title: start_time }),
      " → ",
      make("span", "muted", until),
      make("time", "", minute(endMs), { datetime: end_time, title: end_time }),
      make("span", "muted", ` ${zone()}`),
    ]);
  }

  first({ fields }) {
    const known = FIRST.filter((name) => fields[name] !== null && fields[name] !== undefined);
    return numbers(known.map((name) => fact([name, fields[name]])));
  }

  /** Ids, versions and everything else that is known, folded. */
  ids(trip) {
    const isFact = ([name, value]) => ["string", "number"].includes(typeof value) &&
      !SHOWN.includes(name) && !FIRST.includes(name);
    const rows = Object.entries(trip.fields).filter(isFact).map(fact);
    rows.push(["t*", moment(trip.starMs)], ["First sample", moment(trip.startMs)],
      ["Last sample", moment(trip.endMs)]);
    return make("details", "ids", [make("summary", "", "Ids and versions"), this.title(trip),
      numbers(rows), this.absorbed(trip)].filter(Boolean));
  }

  /** How the trip came to be: read when it is unfolded. */
  history(trip) {
    const joined = trip.retired.length + 1;
    const became = joined > 1 ? `: ${joined} trips became one` : "";
    const box = make("div", "history-box", make("p", "muted", "Loading…"));
    const summary = make("summary", "", `How it came to be${became}`);
    const details = make("details", "came", [summary, box]);
    details.addEventListener("toggle", async () => {
      this.isHistoryOpen = details.open;
      if (!details.open) return;
      try {
        const explained = await api.explanation(trip.id);
        box.replaceChildren(...history(explained, (id) => this.onId(id)));
      } catch (error) {
        box.replaceChildren(make("p", "fault", `Cannot read the history: ${error.message}`));
      }
    });
    details.open = this.isHistoryOpen;
    return details;
  }

  /** Draws the speed chart of a loaded path. */
  path(trip, path) {
    if (this.shown?.id !== trip.id) return;
    this.shownPath = path;
    this.speeds = chart(path, {
      onPoint: this.onPoint,
      onSeek: (ms) => this.replay?.seek(ms),
    });
    const marks = markList(marksOf(path), (ms) => this.replay?.seek(ms));
    this.chartBox.replaceChildren(...[this.speeds, marks].filter(Boolean));
    if (this.replay?.isActive) this.speeds.setReplay?.(this.replay.ms);
  }

  absorbed(trip) {
    if (!trip.retired.length) return null;
    const items = trip.retired.map(({ id }) => {
      const find = button(ident(id), () => this.onId(id), "link");
      find.title = "Look up this id: retired ids still find their trip";
      return make("li", "", find);
    });
    return make("section", "absorbed", [
      make("h4", "", "Retired ids (they still find this trip)"),
      make("ul", "", items),
    ]);
  }

  links(trip) {
    const to = `/v1/trips/${encodeURIComponent(trip.id)}`;
    const link = (suffix, text, attributes = {}) =>
      make("a", "button", text, { href: to + suffix, ...attributes });
    const name = (suffix) => ({ download: `${trip.id}${suffix}` });
    return make("p", "links", [
      link(".geojson", "GeoJSON", name(".geojson")),
      link(".gpx", "GPX", name(".gpx")),
      link("", "JSON"),
      make("a", "button", "Link",
        { href: withSettings(`#trip=${encodeURIComponent(trip.id)}`) }),
    ]);
  }

  /** Shows that no trip covers a time, the stop that does, and the trips before and after it. */
  none(ms, previous, next, stop) {
    this.forget();
    this.again = () => this.none(ms, previous, next, stop);
    const side = (trip, word, gap) => {
      if (!trip) return make("p", "muted", `No ${word} trip.`);
      const go = button([`${word === "previous" ? "← Previous" : "Next →"}: `, duration(gap),
        word === "previous" ? " earlier" : " later"], () => this.onTrip(trip));
      go.dataset.side = word;
      return go;
    };
    this.put(
      make("p", "asked none", [make("b", "", moment(ms)), " is not covered by a trip."]),
      stop && this.stands(stop),
      make("div", "sides", [
        side(previous, "previous", ms - (previous?.endMs ?? 0)),
        side(next, "next", (next?.startMs ?? 0) - ms),
      ]),
    );
  }

  /** A stop. Without samples that report the ignition, none is off. */
  stands(stop) {
    const { lat, lon } = stop.start;
    const off = stop.parked_s;
    const facts = [
      ["Duration", duration(stop.endMs - stop.startMs)],
      ["Ignition", off > 0 ? `off for ${duration(off * 1000)}` : "not off"],
      ["Idle", stop.idle_s === null ? "–" : duration(stop.idle_s * 1000)],
      ["Position", `${lat.toFixed(5)}, ${lon.toFixed(5)}`],
      ["Samples", count(stop.samples)],
    ];
    if (stop.driver) facts.push(["Driver", visible(stop.driver)]);
    return make("section", "stands", [make("h3", "", "The vehicle stands"), this.when(stop),
      numbers(facts)]);
  }

  /** Shows an error, with an action that may help. */
  fault(title, text, action) {
    this.forget();
    this.again = () => {};
    const go = action ? button(action.text, action.run) : null;
    this.put(make("h3", "", title), make("p", "", visible(text)), go);
  }
}
