// A day, or a span of days: chosen by date, by steps, as a range.

import { DAY, isoDay } from "./format.js";
import { otherDay } from "./zone.js";

/** Maximum days of a span: the API has no sums of more. */
const MAX_DAYS = 31;
/** The first moment of the year 9999, ms. */
const LAST_MS = 253_370_764_800_000;
/** Days of a range at first. */
const RANGE_DAYS = 7;

/** The number of a date, such as 2026-11-20, days since 1970; null if it is not valid. */
export function dayOfDate(text) {
  const day = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) / DAY : NaN;
  // The 31st of February is not the 2nd of March.
  return isTime(day * DAY) && isoDay(day) === text ? day : null;
}

/** A time of the URL, ms; NaN if it is not valid. */
export function timeOf(text) {
  const ms = Date.parse(text ?? "");
  return isTime(ms) ? ms : NaN;
}

/** Whether a time is one of those that samples may have: from 1970 up to the year 9999. */
const isTime = (ms) => ms >= DAY && ms < LAST_MS;

/** The span of two dates of the URL, at most `MAX_DAYS` long; null without a valid first one. */
export function spanOfDates(day, to) {
  const first = dayOfDate(day);
  if (first === null) return null;
  const last = dayOfDate(to) ?? first;
  return { first, last: Math.min(Math.max(last, first), first + MAX_DAYS - 1) };
}

export class Days {
  before; after; first; last; range; note; until;

  /**
   * `root` has the controls: `data-days` names them. `onChange(span)`: days were chosen; null: the
   * date was removed.
   */
  constructor(root, onChange) {
    const part = (name) => root.querySelector(`[data-days="${name}"]`);
    const parts = ["before", "first", "until", "last", "after", "range", "note"];
    Object.assign(this, Object.fromEntries(parts.map((name) => [name, part(name)])));
    this.onChange = onChange;
    this.span = null;
    this.before.addEventListener("click", () => this.step(-1));
    this.after.addEventListener("click", () => this.step(1));
    this.first.addEventListener("change", () => this.move("first"));
    this.last.addEventListener("change", () => this.move("last"));
    this.range.addEventListener("click", () => {
      const { first, last } = this.span;
      this.onChange(first === last ? { first: last - RANGE_DAYS + 1, last } : { first: last, last });
    });
  }

  /** Shows a span; null: none is chosen. */
  show(span) {
    const isSame = span?.first === this.span?.first && span?.last === this.span?.last;
    this.span = span;
    if (!isSame) this.note.textContent = "";
    const isRange = span !== null && span.last > span.first;
    for (const name of ["first", "last"]) {
      const field = this[name];
      // Who types a date is not interrupted.
      if (document.activeElement !== field || !isSame) {
        field.value = span ? isoDay(span[name]) : "";
      }
    }
    for (const el of [this.until, this.last]) el.hidden = !isRange;
    this.range.setAttribute("aria-pressed", String(isRange));
    for (const el of [this.before, this.after, this.range]) el.disabled = span === null;
    const what = isRange ? `${span.last - span.first + 1} days` : "day";
    this.before.setAttribute("aria-label", `Previous ${what}`);
    this.after.setAttribute("aria-label", `Next ${what}`);
  }

  /** The span of the same length before (-1) or after (1) this one. */
  step(by) {
    const { first, last } = this.span;
    const day = by < 0 ? otherDay(first, by) : otherDay(last, by);
    const more = last - first;
    this.onChange(by < 0 ? { first: day - more, last: day } : { first: day, last: day + more });
  }

  /** Takes over a date that was chosen; the other end follows where it has to. */
  move(name) {
    const day = dayOfDate(this[name].value);
    if (day === null) {
      this.onChange(null);
      return;
    }
    const { first, last } = this.span ?? { first: day, last: day };
    const more = last - first;
    const isFirst = name === "first";
    const length = more ? Math.min(isFirst ? last - day : day - first, MAX_DAYS - 1) : 0;
    const wanted = length < 0 ? more : length;
    this.onChange(isFirst ? { first: day, last: day + wanted } : { first: day - wanted, last: day });
    const isCut = more && (isFirst ? last - day : day - first) >= MAX_DAYS;
    if (!isCut) return;
    const other = isFirst ? `ends on ${isoDay(day + wanted)}` : `begins on ${isoDay(day - wanted)}`;
    this.note.textContent = `At most ${MAX_DAYS} days: the range now ${other}.`;
  }
}
