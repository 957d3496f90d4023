// The list of devices: paged and searchable; any id can be typed.

import * as api from "./api.js";
import { count, make, plural, visible } from "./format.js";

const PAGE = 1000;
const SHOWN = 200;
/** Maximum pages loaded for one search; a button loads more. */
const PAGES_PER_SEARCH = 20;

/** Compares names as people count: truck-2 before truck-10. */
const { compare } = new Intl.Collator("en", { numeric: true });
const byName = (a, b) => compare(a.device_id, b.device_id);

export class Devices {
  constructor({ onPick }) {
    const get = (id) => document.getElementById(id);
    this.onPick = onPick;
    this.list = get("device-list");
    this.state = get("device-state");
    this.countLabel = get("device-count");
    this.search = get("device-search");
    this.more = get("device-more");
    this.all = [];
    this.known = new Set();
    this.next = null;
    this.shown = SHOWN;
    this.chosen = null;
    this.isLoading = false;
    this.listen();
  }

  listen() {
    this.search.addEventListener("input", () => {
      this.shown = SHOWN;
      this.render();
      this.loadMore();
    });
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") this.list.querySelector("button")?.focus();
      else if (event.key === "Enter" && this.search.value) this.openTyped();
      else return;
      event.preventDefault();
    });
    this.list.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const buttons = [...this.list.querySelectorAll("button")];
      const at = buttons.indexOf(document.activeElement) + step;
      (at < 0 ? this.search : buttons[at])?.focus();
    });
    this.more.addEventListener("click", async () => {
      this.shown += SHOWN;
      if (this.matches().length < this.shown) await this.loadMore(true);
      this.render();
    });
  }

  /** Loads the first page. */
  async load() {
    this.all = [];
    this.known.clear();
    this.next = null;
    this.state.textContent = "Loading…";
    this.list.setAttribute("aria-busy", "true");
    try {
      await this.page();
      this.render();
    } catch (error) {
      this.state.textContent = `Cannot load the devices: ${error.message}`;
    } finally {
      this.list.removeAttribute("aria-busy");
    }
  }

  async page() {
    const page = await api.devices(this.next, PAGE);
    this.next = page.next;
    for (const device of page.devices) {
      if (this.known.has(device.device_id)) continue;
      this.known.add(device.device_id);
      this.all.push(device);
    }
    this.all.sort(byName);
  }

  /** Loads pages until enough devices match; without a search only if `isForced`. */
  async loadMore(isForced = false) {
    if (this.isLoading || !this.next) return;
    const hasEnough = () => this.matches().length >= this.shown;
    if (!isForced && !this.search.value) return;
    this.isLoading = true;
    try {
      for (let page = 0; page < PAGES_PER_SEARCH && this.next && !hasEnough(); page += 1) {
        await this.page();
        this.render();
      }
    } catch (error) {
      this.state.textContent = error.message;
    } finally {
      this.isLoading = false;
    }
  }

  /** Adds a device from a change event, once all pages are loaded. */
  add(device) {
    if (this.next || this.known.has(device.device_id)) return;
    this.known.add(device.device_id);
    this.all.push(device);
    this.all.sort(byName);
    this.render();
  }

  matches() {
    const typed = this.search.value.toLowerCase();
    const has = ({ device_id, token }) =>
      device_id.toLowerCase().includes(typed) || token.toLowerCase().includes(typed);
    return typed ? this.all.filter(has) : this.all;
  }

  /** Opens the device with the typed id, else the only match, else the typed id as it is. */
  openTyped() {
    const typed = this.search.value;
    const found = this.matches();
    if (!this.known.has(typed) && found.length === 1) this.onPick(found[0].device_id);
    else this.onPick(typed);
  }

  choose(device) {
    this.chosen = device;
    for (const button of this.list.querySelectorAll("button")) {
      this.mark(button);
    }
  }

  mark(button) {
    if (button.device === this.chosen) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }

  render() {
    const found = this.matches();
    const focused = document.activeElement?.device;
    const rows = found.slice(0, this.shown).map(({ device_id }) => {
      const button = make("button", "device", make("bdi", "ident", visible(device_id)));
      button.type = "button";
      button.device = device_id;
      button.title = visible(device_id);
      button.addEventListener("click", () => this.onPick(device_id));
      this.mark(button);
      return make("li", "", button);
    });
    this.list.replaceChildren(...rows);
    if (focused !== undefined) {
      [...this.list.querySelectorAll("button")].find((b) => b.device === focused)?.focus();
    }
    const known = count(this.all.length) + (this.next ? "+" : "");
    this.countLabel.textContent = this.all.length ? known : "";
    this.more.hidden = found.length <= this.shown && !this.next;
    this.showStatus(found);
  }

  showStatus(found) {
    const typed = this.search.value;
    if (!this.all.length) {
      this.state.textContent = "No devices yet. Import samples: tstar ingest FILE --store URL";
    } else if (typed && !found.length) {
      this.state.textContent = `No match; press Enter to open ${visible(typed)} anyway.`;
    } else if (typed) {
      this.state.textContent = `${plural(found.length, "device")} found`;
    } else {
      this.state.textContent = "";
    }
  }
}
