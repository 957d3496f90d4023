// Details of a trip, or of a time that no trip covers.

import { chart } from "./chart.js";
import {
  count, dayOf, distance, duration, make, moment, plural, speed, visible,
} from "./format.js";

const MATCHES = {
  current: ["", "is the id of this trip."],
  retired: ["retired", "was retired by a merge. The trip now has the id below."],
  covers: ["covers", "is not the id of a trip, but this trip covers its time."],
};

/** Texts that other parts of the page show; other texts and numbers are facts by their names. */
const SHOWN = ["id", "device_id", "kind", "t_star", "start_time", "end_time"];

/** How values are shown, by the unit at the end of the name. */
const UNITS = { mps: speed, m: distance, s: (s) => duration(s * 1000) };

/** The label and the text of a field. */
function fact([name, value]) {
  const [, words, unit] = /^(.+?)(?:_(mps|m|s))?$/.exec(name);
  const label = words[0].toUpperCase() + words.slice(1).replaceAll("_", " ");
  if (unit) return [label, UNITS[unit](value)];
  return [label, typeof value === "number" ? count(value) : visible(String(value))];
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
  /** `onId(id)`: looks up an id; `onTrip(trip)`: selects a trip; `onPoint(ms)`: marks a time. */
  constructor({ onId, onTrip, onPoint }) {
    Object.assign(this, { onId, onTrip, onPoint });
    this.root = document.getElementById("detail");
    this.status = document.getElementById("says");
  }

  hint() {
    this.root.replaceChildren(
      make("p", "muted", "Click a time on a lane, or use the arrow keys there."),
    );
  }

  loading(text) {
    this.root.setAttribute("aria-busy", "true");
    if (!this.root.childElementCount) this.root.append(make("p", "muted", text));
  }

  put(...content) {
    this.root.removeAttribute("aria-busy");
    this.root.replaceChildren(...content.filter(Boolean));
  }

  /** Shows a trip and the lookup that found it: `{at}` in ms, or `requested_id` and `match`. */
  trip(trip, lookup = {}) {
    const isSame = this.shown === trip.id;
    const speeds = isSame ? this.root.querySelector(".speed") : null;
    this.shown = trip.id;
    const open = make("span", `badge ${trip.open ? "open" : ""}`, trip.open ? "open" : "closed");
    open.title = trip.open ? "May still grow at its end" : "Its end is final";
    const retired = trip.retired.length;
    const badges = make("p", "badges", [open]);
    if (retired) badges.append(make("span", "badge merged", `merged · ${plural(retired, "id")}`));
    this.chartBox = make("div", "chart-box", speeds ?? make("p", "muted", "Loading the speed…"));
    this.put(this.lookup(lookup), this.title(trip), badges, this.when(trip), this.chartBox,
      this.facts(trip), this.tags(trip), this.absorbed(trip), this.links(trip));
  }

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
    const name = make("h3", "trip-id ident", visible(trip.id));
    const copy = button("Copy", async () => {
      const isCopied = await copied(trip.id, name);
      copy.textContent = isCopied ? "Copied" : "Press Ctrl+C";
      this.status.textContent = isCopied ? "Id copied" : "The id is selected: press Ctrl+C";
      setTimeout(() => (copy.textContent = "Copy"), isCopied ? 1500 : 5000);
    }, "button small");
    copy.setAttribute("aria-label", "Copy the id");
    return make("div", "trip-title", [name, copy]);
  }

  when({ startMs, endMs, start_time, end_time }) {
    // To the second; the tooltip has the milliseconds.
    const [from, to] = [startMs, endMs].map((ms) => moment(Math.floor(ms / 1000) * 1000));
    const until = dayOf(startMs) === dayOf(endMs) ? to.slice(11) : to;
    return make("p", "when", [
      make("time", "", from, { datetime: start_time, title: start_time }),
      " → ",
      make("time", "", until, { datetime: end_time, title: end_time }),
      make("span", "muted", " UTC"),
    ]);
  }

  facts(trip) {
    const isFact = ([name, value]) =>
      ["string", "number"].includes(typeof value) && !SHOWN.includes(name);
    const rows = Object.entries(trip.fields).filter(isFact).map(fact);
    rows.push(["t*", moment(trip.starMs).slice(11)]);
    const cells = rows.map(([name, value]) =>
      make("div", "", [make("dt", "", name), make("dd", "", make("bdi", "", value))]));
    return make("dl", "numbers", cells);
  }

  tags({ tags }) {
    const all = Object.entries(tags ?? {});
    if (!all.length) return null;
    const rows = all.map(([key, value]) => make("div", "", [
      make("dt", "", make("bdi", "", visible(key))),
      make("dd", "", make("bdi", "", visible(value))),
    ]));
    return make("dl", "numbers tags", rows);
  }

  /** Draws the speed chart of a loaded path. */
  path(trip, path) {
    if (this.shown !== trip.id) return;
    this.chartBox.replaceChildren(chart(path, this.onPoint));
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
      make("a", "button", "Link", { href: `#trip=${encodeURIComponent(trip.id)}` }),
    ]);
  }

  /** Shows that no trip covers a time, the stop that does, and the trips before and after it. */
  none(ms, previous, next, stop) {
    this.shown = null;
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
    const facts = [
      duration(stop.endMs - stop.startMs),
      stop.parked_s > 0 ? "ignition off" : "ignition not off",
      `at ${lat.toFixed(5)}, ${lon.toFixed(5)}`,
      plural(stop.samples, "sample"),
    ];
    return make("p", "stands", ["It stands: ", this.when(stop), facts.join(" · ")]);
  }

  /** Shows an error, with an action that may help. */
  fault(title, text, action) {
    this.shown = null;
    const go = action ? button(action.text, action.run) : null;
    this.put(make("h3", "", title), make("p", "", visible(text)), go);
  }
}
