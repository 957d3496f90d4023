// The days whose sums the list of devices shows: today, unless others are chosen.

import { Days, spanOfDates } from "./days.js";
import { dayName, dayOf, distance, endOf, isoDay, plural, startOf } from "./format.js";

const get = (id) => document.getElementById(id);

export class FleetDay {
  now;

  /** `now()`: the time, ms; `onChange()`: other days were chosen. */
  constructor({ now, onChange }) {
    Object.assign(this, { now });
    /** The chosen days, `{first, last}`; null: today, whichever that is. */
    this.chosen = null;
    this.days = new Days(get("fleet-days"), (span) => {
      this.choose(span);
      onChange();
    });
  }

  /** The days, as days since 1970. */
  get shown() {
    const today = dayOf(this.now());
    return this.chosen ?? { first: today, last: today };
  }

  /** The days in a sentence. */
  get words() {
    if (!this.chosen) return "today";
    const { first, last } = this.chosen;
    return first === last ? `on ${dayName(first)}` : `from ${isoDay(first)} to ${isoDay(last)}`;
  }

  /** The days as parameters of the URL; empty: today. */
  get parameters() {
    if (!this.chosen) return {};
    const { first, last } = this.chosen;
    return { day: isoDay(first), to: last > first ? isoDay(last) : "" };
  }

  /** From their first moment up to the one after them, ms. */
  get span() {
    return [startOf(this.shown.first), endOf(this.shown.last)];
  }

  /** Takes over dates of the URL; anything else means today. */
  read(parameters) {
    this.choose(spanOfDates(parameters.get("day"), parameters.get("to")));
  }

  choose(span) {
    const today = dayOf(this.now());
    this.chosen = span?.first === today && span.last === today ? null : span;
  }

  /** Shows the days and their sums of all devices; null: not known. */
  show(total) {
    this.days.show(this.shown);
    const when = this.chosen ? "" : " today";
    const text = total
      ? `${distance(total.distance_m)} in ${plural(total.trips, "trip")}${when}`
      : "";
    // It is announced: only if it has changed.
    if (get("fleet-total").textContent !== text) get("fleet-total").textContent = text;
  }
}
