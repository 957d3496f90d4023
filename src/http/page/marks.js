// What stands out on the path of a trip: jumps, and parts that arrived late.

import { clock, distance, duration, make, plural } from "./format.js";

/** At most as many of a kind are listed, and drawn with a sign; more have their lines alone. */
export const MAX_LISTED = 50;

const NO_MARKS = { jumps: [], late: [] };

/** `08:00:00 to 08:06:00`, or one time. */
const spanText = (fromMs, toMs) =>
  fromMs === toMs ? clock(fromMs) : `${clock(fromMs)} to ${clock(toMs)}`;

/** The jumps and late parts of a path, each with its times, ms, and what it is in words. */
export function marksOf(path) {
  if (!path) return NO_MARKS;
  const times = path.jumps.length ? path.times : [];
  const places = new Map(times.map((time, at) => [time, path.coordinates[at]]));
  const jumps = path.jumps.map(([from, to]) => {
    const [fromMs, toMs] = [from, to].map((time) => Date.parse(time));
    const [a, b] = [from, to].map((time) => window.L.latLng(places.get(time).toReversed()));
    const far = distance(window.L.CRS.Earth.distance(a, b));
    return { fromMs, toMs, text: `Jump at ${clock(fromMs)}: ${far} in ${duration(toMs - fromMs)}` };
  });
  const late = path.late.map((span) => {
    const [fromMs, toMs] = span.map((time) => Date.parse(time));
    return { fromMs, toMs, text: `Arrived late: ${spanText(fromMs, toMs)}` };
  });
  return { jumps, late };
}

const key = (kind) => make("i", `key mark-${kind}`, [], { "aria-hidden": "true" });

/** `1 jump`, `2 late parts`, each with its sign; only what there is. */
export function markCounts({ jumps, late }) {
  const counts = [["jump", jumps, "jump"], ["late", late, "late part"]];
  return counts.filter(([, marks]) => marks.length).map(([kind, marks, word]) =>
    [key(kind), plural(marks.length, word)]);
}

/** The list of all marks, folded; `onSeek(ms)` gets the start of one. Null without any. */
export function markList(marks, onSeek) {
  const counts = markCounts(marks);
  if (!counts.length) return null;
  const item = (kind) => (mark) => {
    const go = make("button", "link", mark.text, { type: "button" });
    go.addEventListener("click", () => onSeek(mark.fromMs));
    return make("li", "", [key(kind), go]);
  };
  const shown = [
    ...marks.jumps.slice(0, MAX_LISTED).map(item("jump")),
    ...marks.late.slice(0, MAX_LISTED).map(item("late")),
  ];
  const rest = marks.jumps.length + marks.late.length - shown.length;
  if (rest) shown.push(make("li", "muted", `and ${rest} more`));
  const summary = make("summary", "", counts.map((content) => make("span", "", content)));
  return make("details", "path-marks", [summary,
    make("p", "muted", "A jump is too fast to be true, and does not count. A late part arrived " +
      "after later samples of the trip."),
    make("ul", "", shown)]);
}
