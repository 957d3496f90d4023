// The time zone of the page, and its days: of 23 to 25 hours, by the browser's tables.

export const DAY = 86_400_000;
/** Clocks change at whole quarters of an hour. */
const QUARTER = 900_000;

const own = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

let name = own;
let formatter = null;
let offsets = new Map();
let changes = new Map();

/** The zone of the browser. */
export const ownZone = () => own;

/** The zone of all times on the page. */
export const zone = () => name;

/** Sets the zone, by its IANA name; false if the browser does not know it. */
export function setZone(wanted) {
  try {
    formatter = new Intl.DateTimeFormat("en", {
      timeZone: wanted, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric",
      hour: "numeric", minute: "numeric", second: "numeric",
    });
  } catch {
    return false;
  }
  name = wanted;
  offsets = new Map();
  changes = new Map();
  return true;
}
setZone(own);

/** Local time minus UTC at a time, ms. */
export function offsetAt(ms) {
  const quarter = Math.floor(ms / QUARTER);
  const known = offsets.get(quarter);
  if (known !== undefined) return known;
  const at = quarter * QUARTER;
  const parts = {};
  for (const { type, value } of formatter.formatToParts(at)) parts[type] = Number(value);
  const { year, month, day, hour, minute, second } = parts;
  const offset = Date.UTC(year, month - 1, day, hour, minute, second) - at;
  offsets.set(quarter, offset);
  return offset;
}

/** The time on the clocks of the zone, as if these were UTC. */
export const localTime = (ms) => ms + offsetAt(ms);

/** The first moment of a local day, ms; a day is the number of its date, days since 1970. */
export function startOf(day) {
  const [before, after] = [offsetAt((day - 1) * DAY), offsetAt((day + 1) * DAY)];
  if (before === after) return day * DAY - before;
  // Clocks change nearby, perhaps over midnight.
  const last = day * DAY - Math.min(before, after);
  for (let ms = day * DAY - Math.max(before, after); ms < last; ms += QUARTER) {
    if (localTime(ms) >= day * DAY) return ms;
  }
  return last;
}

/** The first moment after a local day, ms. */
export const endOf = (day) => startOf(day + 1);

/** The local day of a time. */
export function dayOf(ms) {
  if (!Number.isFinite(ms)) return ms;
  const day = Math.floor(localTime(ms) / DAY);
  // Clocks that are put back over midnight show the former date for a second time.
  return ms >= endOf(day) ? day + 1 : day;
}

/** The day after (`step` 1) or before (-1) a day; leaves out days that a zone has skipped. */
export function otherDay(day, step) {
  let next = day + step;
  while (startOf(next) === endOf(next)) next += step;
  return next;
}

/** How clocks change on a day: when, and to which time of the day from which; null: not at all. */
export function changeOf(day) {
  if (changes.has(day)) return changes.get(day);
  const [first, last] = [startOf(day), endOf(day) - 1];
  let found = null;
  if (offsetAt(first) !== offsetAt(last)) {
    let ms = Math.floor(first / QUARTER) * QUARTER;
    while (offsetAt(ms) === offsetAt(first)) ms += QUARTER;
    const from = ms + offsetAt(first) - day * DAY;
    found = { ms, from, to: ms + offsetAt(ms) - day * DAY };
  }
  changes.set(day, found);
  return found;
}

/** The offset of a time that the clocks of its day show twice, such as ` +02:00`; else nothing. */
export function offsetIfTwice(ms) {
  const change = changeOf(dayOf(ms));
  if (!change || change.to > change.from) return "";
  if (ms < change.ms - (change.from - change.to) || ms >= change.ms + change.from - change.to) {
    return "";
  }
  const minutes = offsetAt(ms) / 60_000;
  const two = (number) => String(Math.floor(Math.abs(number))).padStart(2, "0");
  return ` ${minutes < 0 ? "−" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
}

/**
 * Position of a time on the clock of its day, ms from 0 to 24 h. Hours that occur twice share the
 * space of one; a skipped hour stays empty.
 */
export function clockPosition(ms, day) {
  const change = changeOf(day);
  if (change && change.to < change.from) {
    const repeated = change.from - change.to;
    if (Math.abs(ms - change.ms) <= repeated) {
      return change.to + (ms - change.ms + repeated) / 2;
    }
  }
  if (ms >= endOf(day)) return DAY;
  return Math.min(Math.max(localTime(ms) - day * DAY, 0), DAY);
}

/** The time at a position on the clock of a day. */
export function timeAtClock(position, day) {
  const change = changeOf(day);
  if (!change) {
    const first = startOf(day);
    return Math.max(first, first + position - (localTime(first) - day * DAY));
  }
  const { ms, from, to } = change;
  if (to < from && position >= to && position <= from) {
    return ms - (from - to) + (position - to) * 2;
  }
  if (to > from && position >= from && position <= to) return ms;
  return position < from ? ms - (from - position) : ms + (position - to);
}
