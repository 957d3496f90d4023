// The list of devices: a table that sorts, filters and pages. Any id can be typed.

import { hasText } from "./fleet-data.js";
import { count, distance, make, moment, plural, visible } from "./format.js";
import { STATES, WORDS, ago, sentence } from "./fleet-states.js";

const SHOWN = 200;
/** Maximum pages loaded for one search; a button loads more. */
const PAGES_PER_SEARCH = 20;
/** Minimum time between two drawings, ms: events come in bursts. */
const DRAW_MS = 200;

/**
 * Columns by the key in the URL: what devices are ordered by, and whether downwards at first. The
 * devices come in the order of their names.
 */
const COLUMNS = {
  name: {},
  last: { value: (entry) => entry.lastMs, isDown: true },
  km: { value: (entry) => entry.metres, isDown: true },
  trips: { value: (entry) => entry.trips, isDown: true },
};

export class Devices {
  data; onPick; onPoint; onChange; clock;

  /** `onPick(device)`; `onChange()`: another order or filter; `onPoint(entry)`: null for none. */
  constructor(data, { onPick, onChange, onPoint, clock }) {
    const get = (id) => document.getElementById(id);
    Object.assign(this, { data, onPick, onChange, onPoint, clock });
    this.list = get("device-list");
    this.table = get("device-table");
    this.state = get("device-state");
    this.countLabel = get("device-count");
    this.search = get("device-search");
    this.more = get("device-more");
    this.chips = get("device-states");
    this.rows = new Map();
    this.shown = SHOWN;
    this.chosen = null;
    this.sort = "name";
    this.isDown = false;
    this.only = null;
    /** Whether a device is in the area of the map; null: there is none. */
    this.isIn = null;
    /** The order that a pointer or the focus in the list holds. */
    this.held = null;
    this.found = [];
    this.makeChips();
    this.listen();
  }

  makeChips() {
    this.counts = {};
    for (const state of STATES) {
      const number = (this.counts[state] = make("b"));
      const mark = make("i", `mark ${state}`, [], { "aria-hidden": "true" });
      const chip = make("button", "chip", [mark, `${WORDS[state]} `, number],
        { type: "button", "aria-pressed": "false", "data-state": state });
      chip.addEventListener("click", () => {
        this.only = this.only === state ? null : state;
        this.filtered();
      });
      this.chips.append(chip);
    }
  }

  listen() {
    this.search.addEventListener("input", () => this.filtered());
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") this.list.querySelector("button")?.focus();
      else if (event.key === "Enter" && this.search.value) this.openTyped();
      else if (event.key === "Escape" && this.search.value) this.filter("", this.only);
      else return;
      event.preventDefault();
    });
    this.list.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      /** @type {any[]} */
      const buttons = [...this.list.querySelectorAll("button")];
      const at = buttons.indexOf(document.activeElement) + step;
      (at < 0 ? this.search : buttons[at])?.focus();
    });
    const entryAt = ({ target }) => this.data.get(target.closest?.("tr")?.device);
    this.list.addEventListener("click", (event) => {
      const entry = entryAt(event);
      if (entry) this.onPick(entry.device_id);
    });
    // Who points at a row or has the focus in one would miss it if the rows moved.
    const hold = (event) => {
      this.held ??= new Map(this.found.map((entry, at) => [entry, at]));
      this.onPoint(entryAt(event), event.type === "focusin");
    };
    const release = () => {
      if (this.list.matches(":hover, :focus-within")) return;
      this.held = null;
      this.onPoint(null);
      this.renderSoon();
    };
    for (const type of ["pointerover", "focusin"]) this.list.addEventListener(type, hold);
    this.list.addEventListener("pointerleave", release);
    this.list.addEventListener("focusout", () => setTimeout(release));
    for (const header of this.table.querySelectorAll("th[data-sort]")) {
      const { sort } = header.dataset;
      header.querySelector("button")?.addEventListener("click", () => {
        const isDown = sort === this.sort ? !this.isDown : Boolean(COLUMNS[sort].isDown);
        this.order(sort, isDown);
        this.onChange();
      });
    }
    this.more.addEventListener("click", async () => {
      this.shown += SHOWN;
      if (this.found.length < this.shown) await this.loadMore();
      this.render();
    });
  }

  /** Orders by a column. */
  order(sort, isDown) {
    this.sort = Object.hasOwn(COLUMNS, sort) ? sort : "name";
    this.isDown = isDown;
    this.held = null;
    this.render();
  }

  /** Shows the devices with a text in their ids and in a state only. */
  filter(text, only) {
    this.search.value = text;
    this.only = STATES.includes(only) ? only : null;
    this.filtered();
  }

  filtered() {
    this.shown = SHOWN;
    this.held = null;
    this.render();
    this.onChange();
    if (this.search.value) this.loadMore();
  }

  /** Loads pages until enough devices match. */
  async loadMore() {
    await this.data.read(PAGES_PER_SEARCH, () => this.matches().length >= this.shown);
  }

  /** The devices that the filter leaves. */
  matches() {
    const typed = this.search.value.toLowerCase();
    const { only } = this;
    if (!typed && !only && !this.isIn) return this.data.all;
    const has = (entry) => hasText(entry, typed);
    return this.data.all.filter((entry) => (!only || this.clock.state(entry) === only) &&
      (!typed || has(entry)) && (!this.isIn || this.isIn(entry)));
  }

  sorted() {
    const { held, isDown } = this;
    this.data.order();
    const { value } = COLUMNS[this.sort];
    const found = this.matches();
    const sign = isDown ? -1 : 1;
    const unknown = (entry) => Number(value(entry) === null);
    // What is not known comes last, either way; `all` is ordered by name.
    const by = (a, b) => unknown(a) - unknown(b) || sign * (value(a) - value(b));
    let sorted = found;
    if (value) sorted = found.toSorted(by);
    else if (isDown) sorted = found.toReversed();
    if (!held) return sorted;
    const at = (entry) => held.get(entry) ?? Infinity;
    return sorted.toSorted((a, b) => (at(a) === at(b) ? 0 : at(a) - at(b)));
  }

  /** Opens the device with the typed id, else the only match, else the typed id as it is. */
  openTyped() {
    const typed = this.search.value;
    const found = this.matches();
    if (!this.data.get(typed) && found.length === 1) this.onPick(found[0].device_id);
    else this.onPick(typed);
  }

  choose(device) {
    this.chosen = device;
    for (const row of this.rows.values()) this.mark(row);
  }

  /** Moves the focus to a device, else to the search. */
  focus(device) {
    const button = this.rows.get(device)?.button ?? this.search;
    button.focus({ preventScroll: true });
    button.scrollIntoView({ block: "nearest" });
  }

  mark({ button }) {
    if (button.device === this.chosen) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }

  row(entry) {
    const { device_id } = entry;
    const known = this.rows.get(device_id);
    if (known) return known;
    const button = make("button", "device", [], { type: "button" });
    button.title = visible(device_id);
    button.device = device_id;
    const cells = ["doing", "last", "number", "number trips"].map((name) => make("td", name));
    const tr = make("tr", "", [make("th", "", button, { scope: "row" }), ...cells]);
    tr.device = device_id;
    const mark = make("i", "", [], { "aria-hidden": "true" });
    const word = make("span");
    cells[0].append(mark, word);
    const row = { tr, button, mark, word, cells, texts: [] };
    this.rows.set(device_id, row);
    this.mark(row);
    return row;
  }

  /** Writes what has changed of a row. */
  write(row, entry) {
    const { name, group } = entry.tags;
    const called = `${name ?? ""}\n${group ?? ""}`;
    if (called !== row.called) {
      row.called = called;
      const id = make("bdi", "ident", visible(entry.device_id));
      const text = (className, it) => make("bdi", className, visible(it));
      row.button.replaceChildren(...(name ? [text("", name), " ", id] : [id]),
        ...(group ? [" ", text("muted", group)] : []));
    }
    const state = this.clock.state(entry);
    const now = this.clock.now();
    const texts = [
      WORDS[state],
      entry.lastMs === null ? "–" : ago(entry.lastMs, now),
      entry.metres === null ? "–" : distance(entry.metres),
      entry.trips === null ? "–" : count(entry.trips),
    ];
    const { cells, texts: old } = row;
    if (texts[0] !== old[0]) {
      row.mark.className = `mark ${state}`;
      row.word.textContent = texts[0];
      cells[0].title = state === "silent" ? "Silent, last seen moving" : texts[0];
    }
    for (const at of [1, 2, 3]) if (texts[at] !== old[at]) cells[at].textContent = texts[at];
    const when = entry.lastMs === null ? "" : moment(entry.lastMs);
    if (when !== row.when) {
      row.when = cells[1].title = when;
    }
    row.texts = texts;
  }

  /** Updates ages and states of the rows, and the numbers of the states. */
  tick() {
    for (const entry of this.found.slice(0, this.shown)) this.write(this.row(entry), entry);
    const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
    for (const entry of this.data.all) counts[this.clock.state(entry)] += 1;
    for (const chip of this.chips.children) {
      const { state } = chip.dataset;
      this.counts[state].textContent = count(counts[state]);
      chip.setAttribute("aria-pressed", String(this.only === state));
      chip.hidden = state === "none" && !counts.none && this.only !== "none";
    }
  }

  renderSoon() {
    this.timer ??= setTimeout(() => this.render(), DRAW_MS);
  }

  render() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.found = this.sorted();
    const focused = document.activeElement?.device;
    const wanted = this.found.slice(0, this.shown).map((entry) => this.row(entry).tr);
    const { children } = this.list;
    const isSame = wanted.length === children.length &&
      wanted.every((tr, at) => tr === children[at]);
    if (!isSame) {
      this.list.replaceChildren(...wanted);
      const shown = new Set(wanted);
      for (const [device, row] of this.rows) if (!shown.has(row.tr)) this.rows.delete(device);
      if (focused !== undefined) this.rows.get(focused)?.button.focus();
    }
    this.tick();
    for (const header of this.table.querySelectorAll("th[data-sort]")) {
      const isSorted = header.dataset.sort === this.sort;
      if (isSorted) header.setAttribute("aria-sort", this.isDown ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
    }
    const known = count(this.data.all.length) + (this.data.next ? "+" : "");
    this.countLabel.textContent = this.data.all.length ? known : "";
    this.table.hidden = !this.data.all.length;
    this.list.setAttribute("aria-busy", String(this.data.isLoading));
    this.more.hidden = this.found.length <= this.shown && !this.data.next;
    this.showStatus();
  }

  showStatus() {
    const { data, found } = this;
    const typed = this.search.value;
    let text = "";
    if (data.fault) text = `Cannot load the devices: ${data.fault}`;
    else if (data.isLoading && !data.all.length) text = "Loading…";
    else if (!data.all.length) text = "No devices yet.";
    else if (typed && !found.length) {
      text = `No match; press Enter to open ${visible(typed)} anyway.`;
    } else if (this.only && !found.length) text = "No device is in this state.";
    else if (typed || this.only || this.isIn) {
      const where = this.isIn ? "last seen in the area on the map" : "found";
      text = `${plural(found.length, "device")} ${where}`;
    } else if (data.sumsFault) {
      text = `Kilometres and trips are not known: ${data.sumsFault}`;
    }
    if (this.state.textContent !== text) this.state.textContent = text;
  }
}

/** A device in words, for the map: name, state and what it did on the day. */
export function describe(entry, clock) {
  const parts = [sentence(entry, clock.state(entry), clock.now())];
  if (entry.metres !== null) {
    parts.push(`${distance(entry.metres)} in ${plural(entry.trips, "trip")} ${clock.dayWords()}`);
  }
  return parts.join(" · ");
}
