// What lies under the trips: map tiles, or country outlines with a grid and the base map of the
// server.

import { draw, make, visible } from "./format.js";

const L = window.L;

/** Minimum distance of grid lines, px, and the possible steps, degrees. */
const GRID_PX = 90;
const GRID_DEGREES = [30, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001];
/** Space for a label, px. */
const LABEL_PX = 56;

/**
 * Lines of longitude and latitude, with their degrees at the top and right edges of the map. Drawn
 * for the whole map at once: tiles are scaled at half zooms, and cut the labels.
 */
export const Grid = L.Layer.extend({
  onAdd(map) {
    this.svg = draw("svg", { class: "grid-lines leaflet-zoom-hide" });
    this.labels = make("div", "", [], { "aria-hidden": "true" });
    this.getPane("grid").append(this.svg);
    map.getContainer().append(this.labels);
    this.update();
  },

  onRemove() {
    this.svg.remove();
    this.labels.remove();
  },

  getEvents() {
    return { move: this.update, zoomend: this.update, resize: this.update };
  },

  update() {
    const map = this._map;
    const { x: width, y: height } = map.getSize();
    L.DomUtil.setPosition(this.svg, map.containerPointToLayerPoint([0, 0]));
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    const perDegree = (256 * 2 ** map.getZoom()) / 360;
    const step = GRID_DEGREES.findLast((degrees) => degrees * perDegree >= GRID_PX) ?? 90;
    const digits = Math.max(0, Math.ceil(-Math.log10(step)));
    const [west, north] = corner(map, 0, 0);
    const [east, south] = corner(map, width, height);
    const lines = [];
    const labels = [];
    const add = (line, at, degrees) => {
      lines.push(draw("line", line));
      if (!at) return;
      const label = make("span", "grid-label", `${degrees.toFixed(digits)}°`);
      label.style.translate = `${Math.round(at[0])}px ${Math.round(at[1])}px`;
      labels.push(label);
    };
    for (let n = Math.ceil(west / step); n * step < east; n += 1) {
      const { x } = map.latLngToContainerPoint([0, n * step]);
      const hasRoom = x > LABEL_PX && x + LABEL_PX < width;
      // The map repeats itself: 190 degrees east are 170 degrees west.
      const degrees = ((((n * step + 180) % 360) + 360) % 360) - 180;
      add({ x1: x, x2: x, y1: 0, y2: height }, hasRoom && [x + 3, 0], degrees);
    }
    for (let n = Math.ceil(south / step); n * step < north; n += 1) {
      const { y } = map.latLngToContainerPoint([n * step, 0]);
      const hasRoom = y > 26 && y < height - 24;
      // At the right edge: the buttons are at the left one.
      add({ x1: 0, x2: width, y1: y, y2: y }, hasRoom && [width - LABEL_PX, y - 13], n * step);
    }
    this.svg.replaceChildren(...lines);
    this.labels.replaceChildren(...labels);
  },
});

/** Longitude and latitude of a point of the map, px. */
function corner(map, x, y) {
  const { lat, lng } = map.containerPointToLatLng([x, y]);
  return [lng, Math.min(Math.max(lat, -85), 85)];
}

let land = null;

/** The outlines of all countries, loaded once. */
export function world() {
  const load = async () => outlines(await (await fetch("/assets/world.json")).json());
  // Asked for again if it failed.
  land ??= load().catch((error) => {
    land = null;
    throw error;
  });
  return land;
}

/** Polygons of the countries in a TopoJSON, as [lat, lon], none of them across the whole map. */
export function outlines(world) {
  const { scale, translate } = world.transform;
  const arcs = world.arcs.map((arc) => {
    let [x, y] = [0, 0];
    return arc.map(([dx, dy]) => {
      x += dx;
      y += dy;
      return [y * scale[1] + translate[1], x * scale[0] + translate[0]];
    });
  });
  const lineRing = (indexes) =>
    indexes.flatMap((at) => (at < 0 ? arcs[~at].toReversed() : arcs[at]));
  return world.objects.countries.geometries.flatMap(({ type, arcs: shape }) =>
    (type === "Polygon" ? [shape] : shape).flatMap((rings) =>
      copies(rings.map((ring) => unwrapped(lineRing(ring))))),
  );
}

/**
 * A ring whose longitudes run on over the antimeridian, past 180 degrees. One around a pole ends
 * 360 degrees from where it starts: it is closed along the pole.
 */
function unwrapped(ring) {
  let turns = 0;
  const points = ring.map(([lat, lon], at) => {
    const step = at ? lon - ring[at - 1][1] : 0;
    if (Math.abs(step) > 180) turns -= Math.sign(step);
    return [lat, lon + 360 * turns];
  });
  if (Math.abs(points.at(-1)[1] - points[0][1]) < 180) return points;
  const pole = points[0][0] < 0 ? -90 : 90;
  return [...points, [pole, points.at(-1)[1]], [pole, points[0][1]]];
}

/** The polygon, and what of it lies past 180 degrees again on the other side of the map. */
function copies(rings) {
  const lons = rings[0].map(([, lon]) => lon);
  const [west, east] = [lons.reduce((a, b) => Math.min(a, b)), lons.reduce((a, b) => Math.max(a, b))];
  const moved = (by) => rings.map((ring) => ring.map(([lat, lon]) => [lat, lon + by]));
  return [rings, ...(east > 180 ? [moved(-360)] : []), ...(west < -180 ? [moved(360)] : [])];
}

/** The attribution of tiles: text, with links as [text](https://...). */
function credits(text) {
  const parts = text.split(/(\[[^\]]+\]\(https?:\/\/[^\s)]+\))/);
  return parts.map((part) => {
    const [, name, href] = /^\[(.+)\]\((.+)\)$/.exec(part) ?? [];
    return href ? make("a", "", name, { href, target: "_blank", rel: "noreferrer" }) : part;
  });
}

/** Shows who made the base layer. */
export const Credits = L.Control.extend({
  options: { position: "bottomright" },
  onAdd() {
    const { attribution } = this.options;
    const content = attribution ? ["Leaflet · ", ...credits(attribution)] : ["Leaflet"];
    return make("div", "leaflet-control-attribution", content);
  },
  /** Adds a name, as text. */
  append(text) {
    if (text) this.getContainer().append(` · ${visible(text)}`);
  },
});

/** Shows what of the base map cannot be read. */
const Note = L.Control.extend({
  options: { position: "bottomleft" },
  onAdd() {
    return make("p", "base-note", "", { role: "status" });
  },
  say(text) {
    if (this.getContainer().textContent !== text) this.getContainer().textContent = text;
  },
});

/** The layer of the server's base map; null, with the reason on the map, if it cannot be read. */
export async function loadVectors(map, credits) {
  const note = new Note().addTo(map);
  try {
    const { Vectors, openArchive } = await import("./basemap.js");
    const archive = await openArchive();
    // The map may have been closed meanwhile.
    if (note.getContainer().isConnected) credits.append(archive.attribution);
    return new Vectors(archive, note);
  } catch (error) {
    note.say(`The base map cannot be read: ${error.message}.`);
    return null;
  }
}
