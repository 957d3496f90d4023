// Suggests devices while a text is typed in the header, and shows them on the map of the fleet.

import { hasText, titleOf } from "./fleet-data.js";
import { brief } from "./fleet-states.js";
import { make, starOf, visible } from "./format.js";

const SUGGESTED = 8;
/** Maximum pages of devices that are loaded for a text. */
const PAGES = 20;

/** Whether a text is a trip id; a device may have such a name, but is not what is meant. */
const isTripId = (text) => !Number.isNaN(starOf(text)) || /^[0-9a-f-]{32,36}$/i.test(text);

export class Finder {
  data; onPick; onPoint; clock;

  /** `onPoint(entry)`: the device that Enter opens; null for none. */
  constructor(data, { onPick, onPoint, clock }) {
    Object.assign(this, { data, onPick, onPoint, clock });
    this.input = /** @type {HTMLInputElement} */ (document.getElementById("find-id"));
    this.list = document.getElementById("find-list");
    this.entries = [];
    this.at = -1;
    this.input.addEventListener("input", () => this.suggest());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("blur", () => this.close());
    // Before the field loses the focus, which closes the list.
    this.list.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      const at = [...this.list.children].indexOf(event.target.closest("li"));
      if (at >= 0) this.pick(this.entries[at]);
    });
  }

  /** The devices that a text finds: those that begin with it first. */
  matches(text) {
    const typed = text.toLowerCase();
    if (!typed) return [];
    const rank = (entry) => {
      const names = [entry.device_id, titleOf(entry)].map((name) => name.toLowerCase());
      if (names.includes(typed)) return 0;
      if (names.some((name) => name.startsWith(typed))) return 1;
      return hasText(entry, typed) ? 2 : 3;
    };
    const ranks = [[], [], [], []];
    for (const entry of this.data.all) ranks[rank(entry)].push(entry);
    return ranks.slice(0, 3).flat().slice(0, SUGGESTED);
  }

  suggest() {
    const text = this.input.value.trim();
    this.show(text);
    if (!text) return;
    const isEnough = () => this.matches(text).length === SUGGESTED;
    if (!this.data.next || isEnough()) return;
    this.data.read(PAGES, isEnough).then(() => {
      const isCurrent = this.input.value.trim() === text && document.activeElement === this.input;
      if (isCurrent) this.show(text);
    });
  }

  show(text) {
    this.entries = this.matches(text);
    const options = this.entries.map((entry, at) => make("li", "", [
      make("bdi", "ident", visible(titleOf(entry))),
      make("span", "muted", brief(entry, this.clock)),
    ], { role: "option", id: `find-${at}` }));
    this.list.replaceChildren(...options);
    this.list.hidden = !options.length;
    this.input.setAttribute("aria-expanded", String(options.length > 0));
    this.move(isTripId(text) || !options.length ? -1 : 0);
  }

  /** Makes an option the one that Enter opens; -1: what is typed is an id of a trip. */
  move(at) {
    this.at = at;
    [...this.list.children].forEach((option, nth) =>
      option.setAttribute("aria-selected", String(nth === at)));
    if (at < 0) this.input.removeAttribute("aria-activedescendant");
    else this.input.setAttribute("aria-activedescendant", `find-${at}`);
    this.onPoint(this.entries[at] ?? null);
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.entries.length) {
      const number = this.entries.length + 1;
      this.move(((this.at + 1 + step + number) % number) - 1);
    } else if (event.key === "Escape" && !this.list.hidden) {
      this.close();
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Opens the device that is suggested first or was chosen; false without one. */
  open() {
    const entry = this.list.hidden ? undefined : this.entries[this.at];
    if (entry) this.pick(entry);
    return Boolean(entry);
  }

  pick(entry) {
    this.input.value = "";
    this.close();
    this.onPick(entry.device_id);
  }

  close() {
    this.entries = [];
    this.show("");
  }
}
