// How a trip came to be: a picture and a list, from its explanation.

import { clock, count, draw, make, starOf, visible } from "./format.js";

const WIDE = 320;
const ROW = 22;
const EDGE = 20;

/** Where a record is in the log. */
function record({ partition, offset, epoch }) {
  if (offset === null) return "a record of an earlier log";
  if (epoch === null && partition === null) return `record ${count(offset)} of the files`;
  return partition === null
    ? `offset ${count(offset)}`
    : `partition ${partition}, offset ${count(offset)}`;
}

/** `the sample of 08:06:00 (record 4 of the files)`. */
function sample(/** @type {any} */ { time, ...position }) {
  const which = time ? `the sample of ${clock(Date.parse(time))}` : "a sample";
  return `${which} (${record(position)})`;
}

/** What an event did, as a word and a sentence. */
function words(event, isOwn) {
  const ms = starOf(event.id);
  const other = `the trip that began as ${clock(ms)}`;
  if (event.event === "retired") {
    return ["Joined", `${sample(event)} joined ${other} to this one. Its id was retired, and ` +
      "still finds this trip."];
  }
  if (event.event === "revived") {
    return ["Split", `${sample(event)} divided the trip, and ${clock(ms)} names its part again.`];
  }
  const isFirst = event.time !== null && Date.parse(event.time) === ms;
  if (!isFirst) return ["Split", `${sample(event)} divided a trip, and this part got an id.`];
  return ["Minted", `${sample(event)} arrived first and named ${isOwn ? "this trip" : "a trip"}.`];
}

/** What happened, in the order of the log. */
function stepsOf(explained) {
  const { id, history: events, last_change: last, samples } = explained;
  const steps = events.map((event) => {
    const [word, text] = words(event, event.id === id);
    return { ...event, word, text, star: starOf(event.id) };
  });
  if (!events.some(({ version }) => version === last.version)) {
    const text = `${record(last)} is the last change so far: ${count(samples)} samples.`;
    steps.push({ event: "changed", word: "Grown", text, id, star: NaN, time: null });
  }
  return steps;
}

/** The picture: device time to the right, the order of the log downwards. */
function picture(explained, steps) {
  const [from, to] = [Date.parse(explained.start_time), Date.parse(explained.end_time)];
  const x = (ms) => EDGE + ((ms - from) / Math.max(to - from, 1)) * (WIDE - 2 * EDGE);
  const end = steps.length * ROW;
  const svg = draw("svg", {
    viewBox: `0 0 ${WIDE} ${end + 10}`, class: "history", role: "img",
    "aria-label": `How the trip came to be, in ${steps.length} steps; the list below has each`,
  });
  const own = x(starOf(explained.id));
  const alive = new Map();
  const live = (id, until) => {
    if (!alive.has(id)) return;
    const kind = id === explained.id ? "life" : "life old";
    const at = x(starOf(id));
    svg.append(draw("line", { class: kind, x1: at, x2: at, y1: alive.get(id), y2: until }));
    alive.delete(id);
  };
  const marks = [];
  steps.forEach(({ event, id, star, time }, at) => {
    const y = at * ROW + 11;
    const number = draw("text", { class: "step", x: 0, y: y + 4 });
    number.textContent = at + 1;
    marks.push(number);
    if (event === "changed") return;
    if (event === "retired") {
      live(id, y);
      svg.append(draw("line", { class: "joins", x1: x(star), x2: own, y1: y, y2: y }));
    } else {
      alive.set(id, y);
    }
    const kind = event === "retired" ? "old-end" : id === explained.id ? "own" : "old";
    marks.push(draw("circle", { class: kind, cx: x(star), cy: y, r: 4 }));
    // The sample that did it, where it is not the one that named the trip.
    if (!time || Date.parse(time) === star) return;
    const cause = x(Date.parse(time));
    marks.push(draw("path", { class: "cause", d: `M${cause},${y - 5}l4,5l-4,5l-4,-5z` }));
  });
  for (const id of [...alive.keys()]) live(id, end);
  const bar = { class: "bar", x: EDGE, width: WIDE - 2 * EDGE, y: end, height: 7, rx: 3 };
  svg.append(draw("rect", bar), ...marks);
  return svg;
}

/** The picture and its words; `onId(id)` looks up a retired id. */
export function history(explained, onId) {
  const steps = stepsOf(explained);
  const items = steps.map(({ event, word, text, id }) => {
    const content = [make("b", "", `${word}. `), text[0].toUpperCase() + text.slice(1)];
    if (event === "retired") {
      const find = make("button", "link", make("bdi", "ident", visible(id)), { type: "button" });
      find.addEventListener("click", () => onId(id));
      content.push(" ", find);
    }
    return make("li", "", content);
  });
  const ends = [explained.start_time, explained.end_time].map((time) =>
    make("span", "", clock(Date.parse(time))));
  return [
    make("p", "muted", "Device time to the right, the order of arrival downwards. A diamond is " +
      "the late sample that joined or divided trips."),
    picture(explained, steps),
    make("div", "chart-ends", ends),
    make("ol", "steps", items),
  ];
}
