// The fleet: all devices on a map and in a list, live. The first view of the page.

import { Devices } from "./devices.js";
import { FleetData } from "./fleet-data.js";
import { FleetDay } from "./fleet-day.js";
import { showHelp } from "./fleet-help.js";
import { Finder } from "./fleet-find.js";
import { FleetMap } from "./fleet-map.js";
import { stateOf } from "./fleet-states.js";
import { count, plural } from "./format.js";

/** Interval at which ages and states are shown again, ms. No request is sent for it. */
const TICK_MS = 5000;
/** Minimum time between two drawings of the map, ms: events come in bursts. */
const DRAW_MS = 250;
/** Delay before a filter moves the map, ms: while a text is typed. */
const REVEAL_MS = 300;
/** Interval of reads where there are no change events, ms. */
const POLL_MS = 30_000;

const get = (id) => document.getElementById(id);

export class Fleet {
  /** `onPick(device)`: a device was chosen; `onView(hash)`: the view has changed. */
  constructor({ onPick, onView }) {
    this.onView = onView;
    this.page = null;
    this.offset = 0;
    this.isShown = false;
    this.hasContent = false;
    this.polledAt = 0;
    /** What the list and the map need to know of the time. */
    const clock = {
      now: () => Date.now() + this.offset,
      state: (entry) => stateOf(entry, clock.now(), this.page?.max_gap_ms ?? Infinity),
    };
    this.day = new FleetDay({
      now: clock.now,
      onChange: () => {
        this.remember();
        this.refresh();
      },
    });
    clock.dayWords = () => this.day.words;
    this.clock = clock;
    this.data = new FleetData({ onChange: (entries) => this.changed(entries) });
    const onChange = () => this.filtered();
    const onPoint = (entry, isFollowed) => this.map.point(entry, isFollowed);
    this.map = new FleetMap({ onPick, onView: () => this.remember(), clock });
    this.list = new Devices(this.data, { onPick, onChange, onPoint, clock });
    const onFound = (entry) => this.map.point(entry, true);
    this.finder = new Finder(this.data, { onPick, onPoint: onFound, clock });
    get("fleet-fit").addEventListener("click", () => {
      this.map.view = "";
      this.map.fit();
      this.remember();
    });
    setInterval(() => this.tick(), TICK_MS);
    document.addEventListener("visibilitychange", () => this.tick());
  }

  /** Takes over the settings of the server, and the difference of its clock to this one, ms. */
  start(page, offset) {
    // After a logout or a restart, what was read before may be old.
    if (this.page) this.resume();
    Object.assign(this, { page, offset });
    const minutes = Math.round(page.max_gap_ms / 60_000);
    get("device-rule").textContent = `Silent: last seen moving, longer ago than ${
      minutes ? `${minutes} min` : `${page.max_gap_ms / 1000} s`}.`;
  }

  /** Loads what the view needs: all devices, or the first page for the list at the side. */
  async load() {
    await (this.isShown ? this.data.loadAll() : this.data.load());
    this.list.render();
    this.refresh();
  }

  /** Shows the view with these parameters of the URL. */
  show(parameters) {
    this.isShown = true;
    document.body.dataset.view = "fleet";
    document.title = "tstar";
    this.map.view = parameters.get("map") ?? "";
    this.list.search.value = parameters.get("q") ?? "";
    this.list.only = parameters.get("state");
    this.day.read(parameters.get("day"));
    const sort = parameters.get("sort") ?? "name";
    this.list.choose(null);
    this.list.order(sort.replace(/^-/, ""), sort.startsWith("-"));
    get("welcome").hidden = true;
    get("fleet").hidden = false;
    this.map.open(this.page);
    this.map.applyView();
    this.map.show(this.list.matches());
    if (!this.map.view) this.map.fit();
    this.refresh();
    return this.load();
  }

  /** Leaves only the list, at the side of a device. */
  hide(device) {
    this.list.choose(device);
    this.isShown = false;
    document.body.dataset.view = "device";
    this.map.close();
    for (const id of ["fleet", "welcome"]) get(id).hidden = true;
  }

  /** The view as a fragment of a URL. */
  hash() {
    const { sort, isDown, search, only } = this.list;
    const isDefault = sort === "name" && !isDown;
    const values = {
      sort: isDefault ? "" : (isDown ? "-" : "") + sort,
      q: search.value,
      state: only ?? "",
      day: this.day.parameter,
      map: this.map.view,
    };
    const pairs = Object.entries(values).filter(([, value]) => value);
    const text = ([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%2C", ",")}`;
    return pairs.map(text).join("&");
  }

  remember() {
    if (this.isShown) this.onView(this.hash());
  }

  /** Another filter or order. */
  filtered() {
    this.remember();
    if (!this.isShown) return;
    this.drawSoon();
    clearTimeout(this.revealing);
    const { search, only } = this.list;
    if (!search.value && !only) return;
    this.revealing = setTimeout(() => this.map.reveal(this.list.found), REVEAL_MS);
  }

  changed(entries) {
    if (this.hasContent) {
      this.list.renderSoon();
      this.drawSoon();
    } else if (this.data.isLoaded) {
      // The first content, without delay.
      this.hasContent = true;
      this.list.render();
      this.draw();
    }
    // A name that is not in order any more needs a new order; else the rows are written alone.
    if (entries === null) this.refresh();
  }

  drawSoon() {
    if (this.isShown) this.drawing ??= setTimeout(() => this.draw(), DRAW_MS);
  }

  draw() {
    clearTimeout(this.drawing);
    this.drawing = undefined;
    if (!this.isShown) return;
    const { all, isLoaded, next, total } = this.data;
    this.day.show(total);
    const shown = this.list.matches();
    this.map.show(shown);
    const isEmpty = isLoaded && !all.length;
    get("fleet").hidden = isEmpty;
    get("welcome").hidden = !isEmpty;
    if (isEmpty) showHelp(this.page);
    const lost = shown.filter((entry) => entry.lastMs === null).length;
    const known = count(all.length) + (next ? "+" : "");
    const facts = [shown.length < all.length
      ? `${plural(shown.length, "device")} of ${known}`
      : next ? `${known} devices` : plural(shown.length, "device")];
    if (lost) facts.push(`${lost} without a position`);
    const text = isLoaded ? facts.join(" · ") : "Loading the devices…";
    // It is announced: only if it has changed.
    if (get("fleet-facts").textContent !== text) get("fleet-facts").textContent = text;
  }

  /** Shows ages and states as they are now. */
  tick() {
    if (document.hidden || !this.page) return;
    this.list.tick();
    if (this.list.only) this.list.renderSoon();
    this.drawSoon();
    this.refresh();
  }

  /** Shows everything in the zone and the units that were just chosen. */
  redraw() {
    this.list.render();
    this.map.showUnits();
    this.drawSoon();
    this.refresh();
  }

  /** Reads the sums of the day if they are missing, or old and something has changed. */
  refresh() {
    if (!this.isShown || !this.page || !this.data.isLoaded || document.hidden) return;
    this.day.show(this.data.total);
    this.data.loadSums(...this.day.span).catch(() => {});
  }

  apply(event) {
    this.data.apply(event);
  }

  /** Reads the devices again after a time without events. */
  resume() {
    this.data.sumsKey = "";
    return this.poll(true).catch(() => {});
  }

  /** Reads the devices again where there are no events: now and then, or at once. */
  async poll(isMissed = false) {
    if (!this.data.isLoaded) {
      await this.load();
      return;
    }
    const now = performance.now();
    if (!this.isShown || (!isMissed && now - this.polledAt < POLL_MS)) return;
    this.polledAt = now;
    await this.data.reload();
  }
}
