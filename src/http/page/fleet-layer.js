// Draws the devices on a canvas. Those that are near each other on the screen are one cluster.

import { titleOf } from "./fleet-data.js";
import { count, visible } from "./format.js";
import { STATES } from "./fleet-states.js";

const L = window.L;

/** Side of a cell whose devices are drawn together, px. */
const CELL = 56;
/** Canvas beyond each edge of the map, as a share of its size: a pan that leaves it draws. */
const PADDING = 0.25;
/** Names are drawn where at most this many devices are apart from others. */
const NAMED = 150;
const NAME_LENGTH = 22;
const DOT = 7;
/** Clusters are joined if their distance is less than this share of their radii. */
const OVERLAP = 0.9;
/** A cell and its neighbours. */
const AROUND = [-1, 0, 1].flatMap((x) => [-1, 0, 1].map((y) => [x, y]));
const FONT = "12px system-ui, sans-serif";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Radius of what is drawn for a number of devices, px. */
const radius = (number) => (number === 1 ? DOT : Math.min(12 + Math.log10(number) * 5, 28));

/** Groups devices by cells of the map at a zoom. */
export function clustersAt(entries, zoom, stateOf) {
  const scale = (256 * 2 ** zoom) / CELL;
  const cells = new Map();
  for (const entry of entries) {
    const key = Math.floor(entry.x * scale) * 1e7 + Math.floor(entry.y * scale);
    let cell = cells.get(key);
    if (!cell) cells.set(key, (cell = { x: 0, y: 0, entries: [], counts: {} }));
    cell.x += entry.x;
    cell.y += entry.y;
    cell.entries.push(entry);
    const state = stateOf(entry);
    cell.counts[state] = (cell.counts[state] ?? 0) + 1;
  }
  for (const cell of cells.values()) {
    cell.x /= cell.entries.length;
    cell.y /= cell.entries.length;
  }
  return joined([...cells.values()], scale);
}

/** Joins clusters that would cover each other: the smaller one into the larger. */
function joined(clusters, scale) {
  clusters.sort((a, b) => b.entries.length - a.entries.length);
  const keyAt = (x, y) => Math.floor(x) * 1e7 + Math.floor(y);
  const placed = new Map();
  for (const cluster of clusters) {
    const [x, y] = [cluster.x * scale, cluster.y * scale];
    const r = radius(cluster.entries.length);
    let near = null;
    for (const [dx, dy] of AROUND) {
      near ??= placed.get(keyAt(x + dx, y + dy))?.find((other) =>
        Math.hypot(other.x * scale - x, other.y * scale - y) * CELL <
          (r + radius(other.entries.length)) * OVERLAP);
    }
    if (near) {
      for (const entry of cluster.entries) near.entries.push(entry);
      for (const [state, number] of Object.entries(cluster.counts)) {
        near.counts[state] = (near.counts[state] ?? 0) + number;
      }
      continue;
    }
    const key = keyAt(x, y);
    if (placed.has(key)) placed.get(key).push(cluster);
    else placed.set(key, [cluster]);
  }
  return [...placed.values()].flat();
}

/** The path of the mark of a state: the shapes differ, not only the colours. */
function shape(context, state, x, y, r) {
  context.beginPath();
  if (state === "moving") {
    context.moveTo(x, y - r * 1.15);
    context.lineTo(x + r * 1.1, y + r * 0.85);
    context.lineTo(x - r * 1.1, y + r * 0.85);
    context.closePath();
  } else if (state === "standing") {
    context.rect(x - r * 0.85, y - r * 0.85, r * 1.7, r * 1.7);
  } else {
    context.arc(x, y, r * 0.85, 0, 2 * Math.PI);
  }
}

/** A name in the space that the map has for one; not cut inside a character. */
function shorten(text) {
  const start = [...text.slice(0, 2 * NAME_LENGTH)];
  return start.length > NAME_LENGTH ? `${start.slice(0, NAME_LENGTH - 1).join("")}…` : text;
}

export const FleetLayer = L.Layer.extend({
  /** `state(entry)`: the state of a device now. */
  initialize(state) {
    this.stateOf = state;
    this.entries = [];
    this.pointed = null;
    this.drawn = [];
  },

  onAdd(map) {
    this.canvas = L.DomUtil.create("canvas", "fleet-canvas leaflet-zoom-hide");
    this.canvas.setAttribute("aria-hidden", "true");
    this.getPane("overlayPane").append(this.canvas);
    this.context = this.canvas.getContext("2d");
    this.colours();
    map.on("zoomend viewreset", this.cluster, this);
    this.cluster();
  },

  onRemove(map) {
    map.off("zoomend viewreset", this.cluster, this);
    this.canvas.remove();
  },

  getEvents() {
    return { move: this.moved, moveend: this.draw, resize: this.draw };
  },

  colours() {
    const names = { text: "--text", surface: "--surface", chosen: "--chosen" };
    this.colour = Object.fromEntries(Object.entries(names).map(([key, name]) => [key, css(name)]));
    for (const state of STATES) this.colour[state] = css(`--${state}`);
  },

  /** Shows these devices. */
  show(entries) {
    this.entries = entries.filter((entry) => entry.lastMs !== null);
    this.cluster();
  },

  /** Marks a device; null for none. */
  point(entry) {
    if (this.pointed === entry) return;
    this.pointed = entry;
    this.draw();
  },

  cluster() {
    if (!this._map) return;
    this.clusters = clustersAt(this.entries, this._map.getZoom(), this.stateOf);
    this.draw();
  },

  /** Draws during a pan only where the canvas does not reach. */
  moved() {
    const at = this._map.containerPointToLayerPoint([0, 0]).subtract(this.origin);
    const { x, y } = this._map.getSize();
    const isInside = at.x >= 0 && at.y >= 0 && at.x <= 2 * PADDING * x && at.y <= 2 * PADDING * y;
    if (!isInside) this.draw();
  },

  draw() {
    const map = this._map;
    if (!map || !this.clusters) return;
    const size = map.getSize();
    const pad = size.multiplyBy(PADDING).round();
    const [width, height] = [size.x + 2 * pad.x, size.y + 2 * pad.y];
    this.width = width;
    this.origin = map.containerPointToLayerPoint(pad.multiplyBy(-1));
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const { canvas, context } = this;
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    L.DomUtil.setPosition(canvas, this.origin);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = FONT;
    context.textBaseline = "middle";
    context.lineJoin = "round";
    this.visit(map, width, height);
    for (const item of this.drawn) if (item.cluster.entries.length > 1) this.drawCluster(item);
    const single = this.drawn.filter((item) => item.cluster.entries.length === 1);
    for (const { cluster, x, y } of single) this.drawDot(cluster.entries[0], x, y);
    const isInView = ({ x, y }) =>
      x >= pad.x && y >= pad.y && x <= pad.x + size.x && y <= pad.y + size.y;
    if (single.filter(isInView).length <= NAMED) this.drawNames(single);
    if (this.pointed?.lastMs != null) this.drawPointed(map);
  },

  /** Position on the canvas; the map repeats itself, and the nearest copy is drawn. */
  place(map, { x, y }) {
    const world = 256 * 2 ** map.getZoom();
    const { x: left, y: top } = map.getPixelOrigin();
    const middle = this.origin.x + this.width / 2;
    let px = x * world - left;
    px += Math.round((middle - px) / world) * world;
    return [px - this.origin.x, y * world - top - this.origin.y];
  },

  visit(map, width, height) {
    this.drawn = [];
    for (const cluster of this.clusters) {
      const [x, y] = this.place(map, cluster);
      if (x < -CELL || y < -CELL || x > width + CELL || y > height + CELL) continue;
      this.drawn.push({ cluster, x, y, r: radius(cluster.entries.length) });
    }
  },

  drawCluster({ cluster, x, y, r }) {
    const { context, colour } = this;
    const number = cluster.entries.length;
    context.beginPath();
    context.arc(x, y, r, 0, 2 * Math.PI);
    context.fillStyle = colour.surface;
    context.fill();
    // The share of each state around the number.
    context.lineWidth = 4;
    let from = -Math.PI / 2;
    for (const state of STATES) {
      const share = (cluster.counts[state] ?? 0) / number;
      if (!share) continue;
      const to = from + share * 2 * Math.PI;
      context.beginPath();
      context.arc(x, y, r - 2, from, to);
      context.strokeStyle = colour[state];
      context.stroke();
      from = to;
    }
    context.fillStyle = colour.text;
    context.textAlign = "center";
    context.fillText(number < 10_000 ? count(number) : `${Math.round(number / 1000)}k`, x, y + 0.5);
  },

  drawDot(entry, x, y, r = DOT) {
    const { context, colour } = this;
    const state = this.stateOf(entry);
    shape(context, state, x, y, r);
    // A silent device is hollow.
    const isHollow = state === "silent";
    context.lineWidth = isHollow ? 5 : 3;
    context.strokeStyle = colour.surface;
    context.stroke();
    context.fillStyle = isHollow ? colour.surface : colour[state];
    context.fill();
    if (!isHollow) return;
    context.lineWidth = 2.5;
    context.strokeStyle = colour[state];
    context.stroke();
  },

  drawName(text, x, y) {
    const { context, colour } = this;
    context.textAlign = "left";
    context.direction = "ltr";
    context.lineWidth = 3;
    context.strokeStyle = colour.surface;
    context.strokeText(text, x, y);
    context.fillStyle = colour.text;
    context.fillText(text, x, y);
  },

  /** Draws names that cover neither each other nor what else is drawn. */
  drawNames(items) {
    const boxes = this.drawn.map(({ x, y, r }) => ({ x: x - r, y: y - 8, right: x + r }));
    for (const { cluster, x, y } of items) {
      const [entry] = cluster.entries;
      if (entry === this.pointed) continue;
      const text = shorten(visible(titleOf(entry)));
      const box = { x: x + 12, y: y - 8, right: x + 12 + this.context.measureText(text).width };
      const isFree = boxes.every((other) => Math.abs(other.y - box.y) > 16 ||
        other.x > box.right || other.right < box.x);
      if (!isFree) continue;
      boxes.push(box);
      this.drawName(text, x + 12, y + 0.5);
    }
  },

  drawPointed(map) {
    const { context, colour, pointed } = this;
    const [x, y] = this.place(map, pointed);
    context.beginPath();
    context.arc(x, y, DOT + 8, 0, 2 * Math.PI);
    context.lineWidth = 7;
    context.strokeStyle = colour.surface;
    context.stroke();
    context.lineWidth = 4;
    context.strokeStyle = colour.chosen;
    context.stroke();
    this.drawDot(pointed, x, y, DOT + 1);
    this.drawName(shorten(visible(titleOf(pointed))), x + 20, y + 0.5);
  },

  /** What is drawn at a point of the map's container, in px: a device or a cluster. */
  at({ x, y }) {
    const { x: left, y: top } = this._map.layerPointToContainerPoint(this.origin);
    let best = null;
    for (const item of this.drawn) {
      const apart = Math.hypot(item.x + left - x, item.y + top - y);
      if (apart <= item.r + 6 && (!best || apart < best.apart)) best = { ...item, apart };
    }
    return best && { cluster: best.cluster, x: best.x + left, y: best.y + top, r: best.r };
  },
});
