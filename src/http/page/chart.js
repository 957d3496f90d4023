// Speed chart of a trip. Each bin of time shows its maximum, so that no peak is lost.

import { clock, draw, inUnit, make, speed } from "./format.js";
import { marksOf } from "./marks.js";
import { unit } from "./settings.js";

const WIDE = 320;
const HIGH = 88;

/** Speeds of a path, m/s: as reported, else computed from distance and time between points. */
export function speedsOf(path) {
  const times = path.times.map((time) => Date.parse(time));
  const isReported = path.speed_mps.some((mps) => mps !== null);
  if (isReported) return { times, mps: path.speed_mps, isReported };
  const mps = times.slice(1).map((ms, at) => {
    const metres = metresBetween(path.coordinates[at], path.coordinates[at + 1]);
    return (metres * 1000) / (ms - times[at]);
  });
  // That of a jump is not one.
  for (const [, to] of path.jumps) mps[indexAt(times, Date.parse(to)) - 1] = null;
  // The first point gets the speed of the second.
  return { times, mps: mps.length ? [mps[0], ...mps] : [null], isReported };
}

/** Approximate distance of two nearby points [lon, lat], m. */
export function metresBetween(
  /** @type {number[]} */ [lonA, latA], /** @type {number[]} */ [lonB, latB],
) {
  const rad = Math.PI / 180;
  const x = (lonB - lonA) * Math.cos(((latA + latB) / 2) * rad);
  return Math.hypot(x, latB - latA) * rad * 6_371_008.8;
}

/** Maximum speed in each of `WIDE / 2` bins of time; null without samples. */
function peaks(times, mps) {
  const bins = new Array(WIDE / 2).fill(null);
  const [first, last] = [times[0], times.at(-1)];
  times.forEach((ms, at) => {
    if (mps[at] === null) return;
    const bin = Math.floor(((ms - first) / Math.max(last - first, 1)) * (bins.length - 1));
    bins[bin] = Math.max(bins[bin] ?? 0, mps[at]);
  });
  return bins;
}

/**
 * The chart; `onPoint(ms | null)` gets the time under the pointer, `onSeek(ms)` one that was
 * chosen. Its property `setReplay(ms | null)` marks the time of the replay.
 */
export function chart(path, { onPoint, onSeek }) {
  const { times, mps, isReported } = speedsOf(path);
  const known = mps.filter((value) => value !== null);
  if (known.length < 2) return make("p", "muted", "Too few samples for a speed chart.");
  const top = Math.max(inUnit(known.reduce((a, b) => Math.max(a, b), 0)), 10);
  const scale = Math.ceil(top / 10) * 10;
  const x = (bin) => (bin / (WIDE / 2 - 1)) * WIDE;
  const y = (value) => HIGH - (inUnit(value) / scale) * (HIGH - 6);
  const points = peaks(times, mps)
    .map((value, bin) => (value === null ? null : [x(bin).toFixed(1), y(value).toFixed(1)]))
    .filter((point) => point !== null);
  const line = points.map((point) => point.join(",")).join(" L");
  const mean = known.reduce((a, b) => a + b, 0) / known.length;
  const svg = draw("svg", {
    viewBox: `0 0 ${WIDE} ${HIGH}`,
    preserveAspectRatio: "none",
    class: "chart",
    role: "img",
    "aria-label": `Speed over time: up to ${Math.round(top)} ${unit().speed}, ` +
      `${speed(mean)} on average`,
  });
  const half = HIGH - (HIGH - 6) / 2;
  svg.append(
    draw("line", { class: "rule", x1: 0, x2: WIDE, y1: half, y2: half }),
    draw("path", {
      class: "area",
      d: `M${points[0][0]},${HIGH} L${line} L${points.at(-1)[0]},${HIGH}Z`,
    }),
    draw("path", { class: "stroke", d: `M${line}` }),
  );
  const pointer = draw("line", { class: "pointer", y1: 0, y2: HIGH, visibility: "hidden" });
  const replayed = draw("line", { class: "replayed", y1: 0, y2: HIGH, visibility: "hidden" });
  svg.append(...drawMarks(marksOf(path), times), pointer, replayed);
  const label = make("span", "chart-now", isReported ? "as reported" : "from distances");
  listen(svg, pointer, { times, mps, label, idle: label.textContent, onPoint, onSeek });
  const scaleText = make("span", "", `0–${scale} ${unit().speed}`);
  const figure = make("figure", "speed", [make("figcaption", "", [scaleText, label]), svg,
    make("div", "chart-ends", [make("span", "", clock(times[0])),
      make("span", "", clock(times.at(-1)))])]);
  const long = Math.max(times.at(-1) - times[0], 1);
  figure.setReplay = (ms) => {
    replayed.setAttribute("visibility", ms === null ? "hidden" : "visible");
    if (ms === null) return;
    const at = ((ms - times[0]) / long) * WIDE;
    replayed.setAttribute("x1", at);
    replayed.setAttribute("x2", at);
  };
  return figure;
}

/** Late parts as hatched bars along the bottom, jumps as dashed lines from top to bottom. */
function drawMarks({ jumps, late }, times) {
  const long = Math.max(times.at(-1) - times[0], 1);
  const x = (ms) => ((ms - times[0]) / long) * WIDE;
  const named = (el, text) => {
    const title = draw("title");
    title.textContent = text;
    el.append(title);
    return el;
  };
  const bars = late.map(({ fromMs, toMs, text }) => {
    const wide = Math.max(x(toMs) - x(fromMs), 2);
    return named(draw("line", {
      class: "late", x1: x(fromMs), x2: x(fromMs) + wide, y1: HIGH - 3, y2: HIGH - 3,
    }), text);
  });
  const lines = jumps.map(({ fromMs, text }) =>
    named(draw("line", { class: "jump", x1: x(fromMs), x2: x(fromMs), y1: 0, y2: HIGH }), text));
  return [...bars, ...lines];
}

function listen(svg, pointer, { times, mps, label, idle, onPoint, onSeek }) {
  const timeAt = (event) => {
    const box = svg.getBoundingClientRect();
    const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    return times[0] + share * (times.at(-1) - times[0]);
  };
  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    svg.setPointerCapture(event.pointerId);
    onSeek(timeAt(event));
  });
  svg.addEventListener("pointermove", (event) => {
    const ms = timeAt(event);
    const x = ((ms - times[0]) / Math.max(times.at(-1) - times[0], 1)) * WIDE;
    pointer.setAttribute("visibility", "visible");
    pointer.setAttribute("x1", x);
    pointer.setAttribute("x2", x);
    label.textContent = `${clock(ms)} · ${speed(mps[indexAt(times, ms)] ?? null)}`;
    if (svg.hasPointerCapture(event.pointerId)) onSeek(ms);
    else onPoint(ms);
  });
  svg.addEventListener("pointerleave", () => {
    pointer.setAttribute("visibility", "hidden");
    label.textContent = idle;
    onPoint(null);
  });
}

/** Index of the first time at or after `ms`; that of the last time if there is none. */
export function indexAt(times, ms) {
  let [low, high] = [0, times.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] >= ms) high = middle;
    else low = middle + 1;
  }
  return low;
}
