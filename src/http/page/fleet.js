// The fleet: all devices on a map and in a list, live. The first view of the page.

import { Area } from "./area.js";
import { Devices } from "./devices.js";
import { FleetData } from "./fleet-data.js";
import { FleetDay } from "./fleet-day.js";
import { showHelp } from "./fleet-help.js";
import { Finder } from "./fleet-find.js";
import { FleetMap } from "./fleet-map.js";
import { FleetNews } from "./fleet-news.js";
import { STATES, stateOf } from "./fleet-states.js";
import { count, plural } from "./format.js";
import { loadPart } from "./frame.js";
import { hashOf } from "./state.js";

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
  onTrip; onPick; onView;

  /**
   * `onPick(device)`: a device was chosen; `onTrip(segment)`: a trip or stop; `onFind(id)`: a trip
   * by its id; `onView(hash)`: the view has changed.
   */
  constructor({ onPick, onTrip, onFind, onView }) {
    Object.assign(this, { onPick, onTrip, onView });
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
        if (this.hasTrips) this.trips?.follow();
      },
    });
    clock.dayWords = () => this.day.words;
    this.clock = clock;
    this.data = new FleetData({ onChange: (entries) => this.changed(entries) });
    const onChange = () => this.filtered();
    const onPoint = (entry, isFollowed) => this.map.point(entry, isFollowed);
    this.area = new Area(get("fleet-area"), () => this.inArea());
    this.map = new FleetMap({
      onPick, clock, onView: () => this.remember(), onPaint: () => this.paint(),
    });
    this.list = new Devices(this.data, { onPick, onChange, onPoint, clock });
    const onFound = (entry) => this.map.point(entry, true);
    this.news = new FleetNews(this.data, onFind);
    /** The list of trips, once it was shown, and whether it is shown instead of the devices. */
    this.trips = null;
    this.hasTrips = false;
    get("list-devices").addEventListener("click", () => this.choose(false));
    get("list-trips").addEventListener("click", () => this.choose(true));
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
    this.list.only = STATES.find((state) => state === parameters.get("state")) ?? null;
    this.day.read(parameters);
    this.area.read(parameters.get("box"));
    const hasTrips = parameters.get("list") === "trips";
    const sort = (hasTrips ? null : parameters.get("sort")) ?? "name";
    this.list.choose(null);
    this.list.order(sort.replace(/^-/, ""), sort.startsWith("-"));
    get("welcome").hidden = true;
    get("fleet").hidden = false;
    this.map.open(this.page);
    this.map.applyView();
    this.showList(hasTrips, parameters);
    this.map.show(this.mapped());
    if (!this.map.view) this.map.fit();
    this.refresh();
    return this.load();
  }

  /** Shows the list of trips, or that of devices, which a button has chosen. */
  async choose(hasTrips) {
    await this.showList(hasTrips);
    this.remember();
  }

  /** Moves the focus to a device in the list, or to the trip that was chosen in it. */
  focus(device) {
    if (this.hasTrips) this.trips.focus();
    else this.list.focus(device);
  }

  /** The devices on the map: those in the list of devices, else all. */
  mapped() {
    return this.hasTrips ? this.data.all : this.list.matches();
  }

  /** Shows the list of trips, with these parameters of the URL if there are any, or of devices. */
  async showList(hasTrips, parameters = null) {
    this.hasTrips = hasTrips;
    this.list.isIn = hasTrips ? null : this.area.contains;
    this.list.render();
    this.drawSoon();
    document.body.dataset.list = hasTrips ? "trips" : "devices";
    get("list-trips").setAttribute("aria-pressed", String(hasTrips));
    get("list-devices").setAttribute("aria-pressed", String(!hasTrips));
    get("fleet-trips").hidden = !hasTrips;
    if (!hasTrips) {
      this.trips?.paths.clear();
      return;
    }
    const part = await loadPart("the list of trips", () => import("./fleet-trips.js"));
    if (!part) return;
    this.trips ??= new part.FleetTrips(get("fleet-trips"), {
      data: this.data, days: this.day, area: this.area, map: this.map, onTrip: this.onTrip,
      onDevice: this.onPick, onView: () => this.remember(),
    });
    if (parameters) this.trips.read(parameters);
    await this.trips.load();
  }

  /** Another area, which filters both lists. */
  inArea() {
    this.map.keepView();
    this.list.isIn = this.hasTrips ? null : this.area.contains;
    this.list.filtered();
    if (this.hasTrips) this.trips.load();
  }

  /** Draws what lies on the map, which was opened, closed or drawn in other colours. */
  paint() {
    this.area.attach(this.map.map);
    this.trips?.paths.draw();
  }

  /** Leaves only the list of devices, at the side of a device. */
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
    return hashOf({
      ...(this.hasTrips
        ? { list: "trips", ...this.trips?.parameters() }
        : { sort: isDefault ? "" : (isDown ? "-" : "") + sort, q: search.value, state: only ?? "" }),
      ...this.day.parameters,
      box: this.area.bbox,
      map: this.map.view,
    });
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
    const shown = this.mapped();
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
    if (this.isShown && this.hasTrips) this.trips?.follow();
  }

  /** Shows everything in the zone and the units that were just chosen. */
  redraw() {
    this.list.render();
    this.map.showUnits();
    this.drawSoon();
    this.refresh();
    if (!this.isShown || !this.hasTrips) return;
    this.trips?.renderSoon();
    this.trips?.follow();
  }

  /** Reads the sums of the day if they are missing, or old and something has changed. */
  refresh() {
    if (!this.isShown || !this.page || !this.data.isLoaded || document.hidden) return;
    this.day.show(this.data.total);
    this.data.loadSums(...this.day.span).catch(() => {});
  }

  apply(event) {
    this.data.apply(event);
    if (this.isShown && this.hasTrips) this.trips?.apply(event);
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
    if (!isMissed && (!this.isShown || now - this.polledAt < POLL_MS)) return;
    this.polledAt = now;
    await this.data.reload();
    if (this.isShown && this.hasTrips) await this.trips?.load();
  }
}
