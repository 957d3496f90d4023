// The day whose sums the list of devices shows: today, unless another one is chosen.

import * as api from "./api.js";
import { DAY, dayName, dayOf, distance, endOf, isoDay, plural, startOf } from "./format.js";
import { otherDay } from "./zone.js";

const get = (id) => document.getElementById(id);

/** Maximum trips of a list over HTTP: a download of more would be a part only. */
const LISTED = 1000;

export class FleetDay {
  /** `now()`: the time, ms; `onChange()`: another day was chosen. */
  constructor({ now, onChange }) {
    Object.assign(this, { now, onChange });
    /** The chosen day; null: today, whichever that is. */
    this.chosen = null;
    get("fleet-before").addEventListener("click", () => this.step(-1));
    get("fleet-after").addEventListener("click", () => this.step(1));
    get("fleet-date").addEventListener("change", () => this.choose(get("fleet-date").value));
  }

  /** The day, as days since 1970. */
  get day() {
    return this.chosen ?? dayOf(this.now());
  }

  /** The day in a sentence. */
  get words() {
    return this.chosen === null ? "today" : `on ${dayName(this.chosen)}`;
  }

  /** The day as a parameter of the URL; empty: today. */
  get parameter() {
    return this.chosen === null ? "" : isoDay(this.chosen);
  }

  /** First and last moment, ms. */
  get span() {
    return [startOf(this.day), endOf(this.day)];
  }

  /** Takes over a date of the URL; anything else means today. */
  read(text) {
    const day = Date.parse(`${text ?? ""}T00:00:00Z`) / DAY;
    this.chosen = Number.isInteger(day) && day !== dayOf(this.now()) ? day : null;
  }

  choose(text) {
    this.read(text);
    this.onChange();
  }

  step(by) {
    this.choose(isoDay(otherDay(this.day, by)));
  }

  /** Shows the day and its sums of all devices; null: not known. */
  show(total) {
    const date = get("fleet-date");
    if (document.activeElement !== date) date.value = isoDay(this.day);
    const when = this.chosen === null ? " today" : "";
    const text = total
      ? `${distance(total.distance_m)} in ${plural(total.trips, "trip")}${when}`
      : "";
    // It is announced: only if it has changed.
    if (get("fleet-total").textContent !== text) get("fleet-total").textContent = text;
    const [from, to] = this.span;
    const csv = get("fleet-csv");
    csv.hidden = !total?.trips || total.trips > LISTED;
    csv.href = api.fleetUrl("csv", { from, to: to - 1 });
  }
}
