// The selected trip on the map: its path, direction, start and end, colours, and its replay.

import { indexAt, speedsOf } from "./chart.js";
import { clock, draw, inUnit } from "./format.js";
import { MAX_LISTED, marksOf } from "./marks.js";
import { bySpeed, unit } from "./settings.js";

const L = window.L;

/** Distance of the arrows of direction, px, and their maximum number. */
const ARROW_PX = 90;
const MAX_ARROWS = 150;

/** Upper ends of the classes of speed, by unit; the last class has none. */
const CLASSES = { "km/h": [10, 30, 50, 80], mph: [5, 20, 30, 50] };

export const css = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A marker that is drawn, with a name for screen readers. */
export function pin(at, kind, title, shapes) {
  const box = { viewBox: "-12 -12 24 24", class: `pin ${kind}` };
  const svg = draw("svg", { ...box, "aria-hidden": "true" });
  svg.append(...shapes);
  const icon = L.divIcon({ html: svg, className: "pin-box", iconSize: [24, 24] });
  const marker = L.marker(at, { icon, keyboard: false, title });
  marker.on("add", () => {
    marker.getElement().setAttribute("role", "img");
    marker.getElement().setAttribute("aria-label", title);
  });
  return marker;
}

function lettered(at, letter, kind, title) {
  const shape = kind === "start"
    ? draw("circle", { r: 9 })
    : draw("rect", { x: -9, y: -9, width: 18, height: 18 });
  const text = draw("text", { y: 4.5, "text-anchor": "middle" });
  text.textContent = letter;
  const marker = pin(at, kind, title, [shape, text]);
  // Above the stops at its ends.
  marker.options.zIndexOffset = 500;
  return marker;
}

/** A stop of the day: a square with a P. */
export function stopPin(segment, title, isChosen) {
  const text = draw("text", { y: 3.5, "text-anchor": "middle" });
  text.textContent = "P";
  const kind = `parking${isChosen ? " chosen" : ""}`;
  const shape = draw("rect", { x: -7, y: -7, width: 14, height: 14, rx: 3 });
  const marker = pin([segment.start.lat, segment.start.lon], kind, title, [shape, text]);
  if (isChosen) marker.options.zIndexOffset = 400;
  return marker;
}

/** Class of a speed, from 0; null if it is unknown. */
function classOf(mps) {
  if (mps === null || mps === undefined || Number.isNaN(mps)) return null;
  const value = inUnit(mps);
  const found = CLASSES[unit().speed].findIndex((end) => value < end);
  return found < 0 ? CLASSES[unit().speed].length : found;
}

/** Names of the classes, such as `10–30 km/h`. */
export function classNames() {
  const ends = CLASSES[unit().speed];
  const names = ends.map((end, at) => (at ? `${ends[at - 1]}–${end}` : `below ${end}`));
  return [...names, `${ends.at(-1)} and more`].map((name) => `${name} ${unit().speed}`);
}

export class Track {
  onPick;

  constructor(map) {
    this.map = map;
    this.layer = L.layerGroup().addTo(map);
    this.arrows = L.layerGroup().addTo(map);
    this.trip = null;
    this.path = null;
    this.marks = marksOf(null);
    map.on("zoomend", () => this.drawArrows());
  }

  /** Shows a trip, along its path if that is loaded: `{coordinates, times, speed_mps}`. */
  show(trip, path, onPick) {
    Object.assign(this, { trip, path, onPick });
    this.times = path?.times.map((time) => Date.parse(time)) ?? null;
    this.marks = marksOf(path);
    this.jumpEnds = new Set(this.marks.jumps.map(({ toMs }) => toMs));
    this.draw();
  }

  clear() {
    this.trip = this.path = this.times = null;
    this.marks = marksOf(null);
    this.layer.clearLayers();
    this.arrows.clearLayers();
  }

  draw() {
    const { trip, path, layer } = this;
    layer.clearLayers();
    this.arrows.clearLayers();
    if (!trip) return;
    this.points = path
      ? path.coordinates.map(([lon, lat]) => [lat, lon])
      : [[trip.start.lat, trip.start.lon], [trip.end.lat, trip.end.lon]];
    this.drawLine();
    if (path) this.drawMarks();
    const ends = [this.points[0], this.points.at(-1)];
    lettered(ends[1], "B", "end", `End, ${clock(trip.endMs)}`).addTo(layer);
    lettered(ends[0], "A", "start", `Start, ${clock(trip.startMs)}`).addTo(layer);
    if (!path) return;
    const dot = (ms, style, title) => {
      const base = { weight: 2, fillColor: css("--surface"), fillOpacity: 1, radius: 5, ...style };
      const marker = L.circleMarker(this.positionAt(ms), base).addTo(layer);
      marker.bindTooltip(title, { direction: "top", offset: [0, -6] });
    };
    for (const { ms } of trip.retired) dot(ms, { color: css("--retired") }, "t* of a retired id");
    dot(trip.starMs, { color: css("--surface"), fillColor: css("--star") }, "t*");
    this.drawArrows();
  }

  drawLine() {
    const { points, path, layer } = this;
    const weight = points.length > 5000 ? 2.5 : 4;
    const style = { color: css("--chosen"), weight, ...(path ? {} : { dashArray: "2 6" }) };
    const isColoured = bySpeed() && path;
    const line = isColoured
      ? L.featureGroup(this.coloured(weight))
      : L.polyline(path ? this.lines(this.times[0], this.times.at(-1)) : points, style);
    line.on("click", ({ latlng }) => this.onPick(this.timeNear(latlng)));
    line.addTo(layer);
  }

  /** The path between two times, as lines that end where it jumps. */
  lines(fromMs, toMs) {
    const lines = [[this.positionAt(fromMs)]];
    for (let at = indexAt(this.times, fromMs); this.times[at] <= toMs; at += 1) {
      if (this.jumpEnds.has(this.times[at])) lines.push([]);
      lines.at(-1).push(this.points[at]);
    }
    lines.at(-1).push(this.positionAt(toMs));
    return lines;
  }

  /** Jumps: a dotted line with a triangle. Late parts: dashes along the line, with rings at ends. */
  drawMarks() {
    const { jumps, late } = this.marks;
    const dotted = { color: css("--text"), weight: 2, dashArray: "1 6", lineCap: "round" };
    jumps.forEach(({ fromMs, toMs, text }, nth) => {
      const ends = [this.positionAt(fromMs), this.positionAt(toMs)];
      L.polyline(ends, dotted).bindTooltip(text, { sticky: true }).addTo(this.layer);
      if (nth >= MAX_LISTED) return;
      const middle = L.latLngBounds(ends).getCenter();
      const sign = draw("text", { y: 6, "text-anchor": "middle" });
      sign.textContent = "!";
      const marker = pin(middle, "jump", text, [draw("path", { d: "M0-10 10 8H-10Z" }), sign]);
      marker.options.zIndexOffset = 450;
      marker.addTo(this.layer);
    });
    const dashes = { color: css("--surface"), weight: 2, dashArray: "2 6", lineCap: "butt" };
    const ring = { color: css("--text"), fillColor: css("--surface"), fillOpacity: 1, weight: 1.5 };
    late.forEach(({ fromMs, toMs, text }, nth) => {
      const lines = this.lines(fromMs, toMs);
      const shapes = [L.polyline(lines, dashes)];
      if (nth < MAX_LISTED) {
        for (const end of [lines[0][0], lines.at(-1).at(-1)]) {
          shapes.push(L.circleMarker(end, { ...ring, radius: 3.5 }));
        }
      }
      for (const shape of shapes) shape.bindTooltip(text, { sticky: true }).addTo(this.layer);
    });
  }

  /** A line for each class of speed; the speed of a piece is that at its end. */
  coloured(weight) {
    const { mps } = speedsOf(this.path);
    const lines = new Map();
    let before = NaN;
    this.points.forEach((point, at) => {
      if (!at) return;
      if (this.jumpEnds.has(this.times[at])) {
        before = NaN;
        return;
      }
      const name = classOf(mps[at]) ?? "unknown";
      if (!lines.has(name)) lines.set(name, []);
      const pieces = lines.get(name);
      if (name === before) pieces.at(-1).push(point);
      else pieces.push([this.points[at - 1], point]);
      before = name;
    });
    return [...lines].map(([name, pieces]) => {
      const color = name === "unknown" ? css("--other") : css(`--speed-${name}`);
      // Faster is wider as well: not by colour alone.
      const width = name === "unknown" ? weight : weight - 1 + name;
      return L.polyline(pieces, { color, weight: width });
    });
  }

  /** Draws arrows in the direction of travel. */
  drawArrows() {
    this.arrows.clearLayers();
    if (!this.path) return;
    const zoom = this.map.getZoom();
    const pixels = this.points.map((point) => this.map.project(point, zoom));
    const style = { color: css("--text"), weight: 2, interactive: false };
    // The way from the start of a piece to its next arrow.
    let next = ARROW_PX / 2;
    const lines = [];
    for (let at = 1; at < pixels.length && lines.length < MAX_ARROWS; at += 1) {
      if (this.jumpEnds.has(this.times[at])) continue;
      const [a, b] = [pixels[at - 1], pixels[at]];
      const long = a.distanceTo(b);
      const ahead = b.subtract(a).divideBy(long || 1);
      for (; next < long && lines.length < MAX_ARROWS; next += ARROW_PX) {
        lines.push(arrow(a.add(ahead.multiplyBy(next)), ahead));
      }
      next -= long;
    }
    const back = lines.map((line) => line.map((pixel) => this.map.unproject(pixel, zoom)));
    L.polyline(back, style).addTo(this.arrows);
  }

  /** Position of the trip at a time, interpolated between points of a path. */
  positionAt(ms, times = this.times, coordinates = this.path.coordinates) {
    const at = indexAt(times, ms);
    const before = Math.max(at - 1, 0);
    const length = times[at] - times[before];
    const share = length > 0 ? Math.min(Math.max((ms - times[before]) / length, 0), 1) : 1;
    const [a, b] = [coordinates[before], coordinates[at]];
    return [a[1] + (b[1] - a[1]) * share, a[0] + (b[0] - a[0]) * share];
  }

  /** The time of the point of the path that is nearest to a position. */
  timeNear(position) {
    if (!this.times) return this.trip.startMs;
    const scale = Math.cos((position.lat * Math.PI) / 180);
    const far = ([lon, lat]) => Math.hypot((lon - position.lng) * scale, lat - position.lat);
    let [nearest, least] = [0, Infinity];
    this.path.coordinates.forEach((point, at) => {
      const distance = far(point);
      if (distance < least) [nearest, least] = [at, distance];
    });
    return this.times[nearest];
  }
}

/** An arrow head at a tip, in a direction of length 1: three points, px. */
function arrow(tip, { x, y }) {
  const side = (turn) => L.point(tip.x - 7 * x - turn * 5 * y, tip.y - 7 * y + turn * 5 * x);
  return [side(1), tip, side(-1)];
}
