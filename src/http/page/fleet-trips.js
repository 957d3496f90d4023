// The trips and stops of all devices on days, as a list that sorts, filters and pages. Loaded when
// it is first shown.

import * as api from "./api.js";
import { cursorAt, downloads } from "./downloads.js";
import { titleOf } from "./fleet-data.js";
import { FleetPaths, MAX_PATHS } from "./fleet-paths.js";
import { clock, count, distance, isoDay, make, plural, visible, zone } from "./format.js";
import { COLUMNS, Order, accepts, inWords, times } from "./rows.js";
import { isStop, timed } from "./trips.js";

/** Rows shown at first, and by each "Show more". */
const SHOWN = 100;
/** Answers that are read without being asked for. */
const PAGES = 5;
/** Minimum time between two drawings, ms: events come in bursts. */
const DRAW_MS = 500;

const [TIME, WHAT, ...OTHERS] = COLUMNS;

export class FleetTrips {
  root; data; area; onView; days; onDevice; onTrip;

  /**
   * `data`: the devices; `days`: the chosen days; `area`: that of the map; `onTrip(segment)` and
   * `onDevice(device)`: a row was chosen; `onView()`: another filter or order.
   */
  constructor(root, { data, days, area, map, onTrip, onDevice, onView }) {
    Object.assign(this, { root, data, days, area, onTrip, onDevice, onView });
    this.paths = new FleetPaths(map);
    this.byId = new Map();
    this.next = null;
    this.shown = SHOWN;
    this.fault = "";
    /** The button of a row that was chosen last, and whether the focus waits for it. */
    this.picked = { id: "", at: "device" };
    this.isWaiting = false;
    this.build();
    const title = (it) => titleOf(this.entry(it)).toLowerCase();
    this.columns = [{ key: "device", label: "Device", value: title }, TIME, ...OTHERS, WHAT];
    this.order = new Order(this.head, this.columns, () => this.filtered());
    this.kind.value = "trip";
  }

  build() {
    const field = (label, input, hidden) =>
      make("label", "", [make("span", "label", label), input, ...(hidden ?? [])]);
    const kinds = [["trip", "trips"], ["stop", "stops"], ["all", "all"]];
    this.kind = make("select", "", kinds.map(([value, text]) => new Option(text, value)));
    this.drivers = make("datalist", "", [], { id: "fleet-drivers" });
    const text = (id, placeholder) => make("input", "", [], {
      id, placeholder, type: "text", autocapitalize: "off", autocomplete: "off",
      spellcheck: "false",
    });
    this.driver = text("fleet-driver", "any");
    this.driver.setAttribute("list", this.drivers.id);
    this.tag = text("fleet-tag", "key or key=value");
    this.kind.id = "fleet-kind";
    const filter = make("p", "filter", [field("Show", this.kind),
      field("Driver", this.driver, [this.drivers]), field("Tag", this.tag)]);
    this.head = make("tr", "", [], { id: "fleet-trips-head" });
    this.body = make("tbody", "", [], { id: "fleet-trips-rows" });
    const table = make("table", "", [make("thead", "", this.head), this.body],
      { "aria-label": "Trips of all devices" });
    const rows = make("div", "rows", table,
      { tabindex: "0", role: "region", "aria-label": "Trips of all devices, which scroll" });
    this.state = make("p", "state", "", { id: "fleet-trips-state", role: "status" });
    this.more = make("button", "button wide", "Show more", { type: "button" });
    this.links = make("p", "links", [], { id: "fleet-trips-links" });
    this.root.replaceChildren(filter, this.state, rows, this.more, this.links);
    for (const input of [this.kind, this.driver, this.tag]) {
      input.addEventListener("change", () => this.filtered(true));
    }
    this.more.addEventListener("click", () => this.showMore());
    const point = ({ target }) => this.paths.point(target.closest?.("tr")?.dataset.id ?? null);
    for (const type of ["pointerover", "focusin"]) this.body.addEventListener(type, point);
    for (const type of ["pointerleave", "focusout"]) {
      this.body.addEventListener(type, () => this.paths.point(null));
    }
  }

  /** The device of a trip, as the list of devices has it. */
  entry({ device_id }) {
    return this.data.get(device_id) ?? { device_id, tags: {} };
  }

  /** Takes over filter and order of a URL. */
  read(parameters) {
    const text = (name) => parameters.get(name) ?? "";
    this.kind.value = ["stop", "all"].includes(text("kind")) ? text("kind") : "trip";
    this.driver.value = text("driver");
    this.tag.value = text("tag");
    this.order.read(text("sort"));
  }

  /** Filter and order as parameters of the URL. */
  parameters() {
    const { kind, driver, tag } = this.filter();
    return { sort: this.order.parameter, kind: kind === "trip" ? "" : kind, driver, tag };
  }

  /** What the list has, as the API calls it. */
  filter() {
    const [driver, tag] = [this.driver, this.tag].map((it) => it.value.trim() || null);
    return { kind: this.kind.value, driver, tag, bbox: this.area.bbox || null };
  }

  /** Another order, or another filter, which the server applies. */
  filtered(isOther = false) {
    this.onView();
    if (isOther) this.load();
    else this.render();
  }

  get span() {
    const [from, to] = this.days.span;
    return { from, to: to - 1 };
  }

  /** Reads the list from its start. */
  async load() {
    this.byId = new Map();
    this.next = null;
    this.shown = SHOWN;
    this.key = JSON.stringify(this.span);
    this.paths.clear();
    await this.readPages();
  }

  /** Reads more answers, at most `PAGES` of them. */
  async readPages() {
    this.loading?.abort();
    const loading = new AbortController();
    this.loading = loading;
    this.isLoading = true;
    this.fault = "";
    this.render();
    const options = { ...this.span, ...this.filter() };
    try {
      for (let page = 0; page < PAGES && (page === 0 || this.next); page += 1) {
        const found = await api.fleetTrips({ ...options, cursor: this.next }, loading.signal);
        if (loading.signal.aborted) return;
        for (const trip of found.trips) this.byId.set(trip.id, timed(trip));
        this.next = found.next;
        this.renderSoon();
      }
    } catch (error) {
      if (loading.signal.aborted) return;
      this.fault = error.message;
    }
    this.isLoading = false;
    this.render();
    this.paths.load(this.found, options);
  }

  /** Shows more rows; reads more trips first where there are any. */
  async showMore() {
    this.shown += SHOWN;
    if (this.next) await this.readPages();
    else this.render();
  }

  /** Reads the list again if its days are others: after a choice, or after midnight. */
  follow() {
    if (this.key !== JSON.stringify(this.span)) this.load();
  }

  /** Applies a change event: by the overlap rule, the highest version wins. */
  apply({ type, trip, id, key, value, device_id }) {
    if (type === "tagged" && id !== null) {
      const tagged = this.byId.get(id);
      if (!tagged) return;
      const { [key]: _, ...others } = tagged.tags;
      tagged.tags = value === null ? others : { ...others, [key]: value };
    } else if (type === "forgotten") {
      for (const [known, it] of this.byId) if (it.device_id === device_id) this.byId.delete(known);
      this.load();
      return;
    } else if (trip) {
      this.put(timed(trip));
    }
    this.renderSoon();
  }

  put(segment) {
    const { from, to } = this.span;
    // Change events have no tags.
    segment.tags ??= this.byId.get(segment.id)?.tags ?? {};
    const overlapping = [...this.byId.values()].filter((it) =>
      it.device_id === segment.device_id && it.startMs <= segment.endMs &&
      it.endMs >= segment.startMs);
    if (overlapping.some((it) => it.version > segment.version)) return;
    for (const it of overlapping) this.byId.delete(it.id);
    const isShown = segment.endMs >= from && segment.startMs <= to;
    if (isShown && accepts(this.filter(), segment)) this.byId.set(segment.id, segment);
  }

  renderSoon() {
    this.timer ??= setTimeout(() => this.render(), DRAW_MS);
  }

  render() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.order.show();
    const all = [...this.byId.values()];
    this.found = this.order.sorted(all);
    const { activeElement } = document;
    const focused = this.body.contains(activeElement) && {
      id: activeElement.closest("tr").dataset.id, at: activeElement.dataset.at,
    };
    this.body.replaceChildren(...this.found.slice(0, this.shown).map((it) => this.row(it)));
    if (focused) this.focusOn(focused);
    else if (this.isWaiting && this.focusOn(this.picked)) this.isWaiting = false;
    const drivers = [...new Set(all.map((it) => it.driver).filter(Boolean))].sort();
    this.drivers.replaceChildren(...drivers.map((driver) => new Option(driver)));
    this.more.hidden = this.isLoading || (this.found.length <= this.shown && !this.next);
    this.more.textContent = this.next ? "Load more trips" : "Show more";
    this.showState(all);
    this.showLinks(all);
  }

  /** Moves the focus to the row that was chosen last, once it is here. */
  focus() {
    this.isWaiting = true;
    this.kind.focus({ preventScroll: true });
  }

  /** Moves the focus to a button of a row; false if it is not here. */
  focusOn({ id, at }) {
    const row = [...this.body.rows].find((it) => it.dataset.id === id);
    row?.querySelector(`[data-at="${at}"]`).focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest" });
    return Boolean(row);
  }

  row(segment) {
    const button = (at, content, run) => {
      const el = make("button", "link", content, { type: "button", "data-at": at });
      el.addEventListener("click", () => {
        this.picked = { id: segment.id, at };
        run();
      });
      return el;
    };
    const entry = this.entry(segment);
    const name = make("bdi", "", visible(titleOf(entry)));
    const device = button("device", name, () => this.onDevice(segment.device_id));
    device.title = visible(segment.device_id);
    const { first, last } = this.days.shown;
    const time = button("time", times(segment, first === last ? first : null),
      () => this.onTrip(segment));
    time.classList.add("time");
    time.title = `${clock(segment.startMs)} – ${clock(segment.endMs)} ${zone()}`;
    const cells = [...OTHERS, WHAT].map(({ isNumber, text }) =>
      make("td", isNumber ? "number" : "", text(segment)));
    const row = make("tr", segment.kind, [make("th", "name", device, { scope: "row" }),
      make("td", "", time), ...cells]);
    row.dataset.id = segment.id;
    return row;
  }

  /** How many there are, what they add up to, and what is missing. */
  showState(all) {
    const trips = all.filter((it) => !isStop(it));
    const metres = trips.reduce((sum, it) => sum + it.distance_m, 0);
    const devices = new Set(all.map((it) => it.device_id)).size;
    const { from, to } = this.span;
    const isCut = all.some((it) => it.startMs < from || it.endMs > to);
    const parts = [];
    if (trips.length) parts.push(plural(trips.length, "trip"));
    if (all.length > trips.length) parts.push(plural(all.length - trips.length, "stop"));
    let text = `${parts.join(" and ")} of ${plural(devices, "device")}`;
    if (metres) text += `, ${distance(metres)}`;
    if (isCut) text += ", those over midnight in full";
    if (!all.length) text = `No trip or stop ${this.days.words}`;
    const words = inWords({ ...this.filter(), kind: "all" });
    let rest = "";
    if (this.next) {
      text = `The first ${text}, in the order of devices`;
      rest = " There are more: choose fewer days, filter, or load more.";
    } else if (trips.length > MAX_PATHS) {
      rest = ` The map draws paths of up to ${MAX_PATHS} trips.`;
    }
    let content = [text, ...(words.length ? [": ", ...words] : []), ".", rest];
    if (this.isLoading) content = ["Loading the trips…"];
    if (this.fault) content = [`Cannot load the trips: ${this.fault}`];
    const next = make("p", "", content);
    // It is announced: only if it has changed.
    if (this.state.textContent !== next.textContent) this.state.replaceChildren(...next.childNodes);
  }

  /** Links to the list, in the formats of the API. */
  showLinks(all) {
    this.links.replaceChildren();
    if (this.isLoading || this.fault) return;
    const [span, filter] = [this.span, this.filter()];
    const { first, last } = this.days.shown;
    const [from, to] = [span.from, span.to].map((ms) => new Date(ms).toISOString());
    // The order of the API; change events bring others later.
    const keys = new Map(all.map((it) => [it, cursorAt(it.device_id, it.startMs)]));
    const inOrder = all.toSorted((a, b) => (keys.get(a) < keys.get(b) ? -1 : 1));
    const links = downloads(inOrder, {
      url: (format, part) => api.fleetUrl(format, { ...span, ...filter, ...part }),
      name: ["trips", isoDay(first), ...(last > first ? [isoDay(last)] : [])].join("-"),
      command: `tstar export --from ${from} --to ${to}`,
    });
    const rest = this.next && links.length
      ? [make("span", "muted", `(the ${count(all.length)} that are loaded)`)]
      : [];
    this.links.replaceChildren(...links, ...rest);
  }
}
