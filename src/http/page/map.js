// The map: the world's outline or tiles, the trips of a day, the path of the chosen one.

import * as api from "./api.js";

const L = window.L;

/** Width in px that a line of the grid keeps from the next, and the steps to choose from. */
const GRID_PX = 90;
const GRID_DEGREES = [30, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001];
const DEEPEST = 18;
/** The ways of so many other trips of a day are asked for, so coarse, so many at once. */
const TRACED = 40;
const TRACE_METRES = 25;
const AT_ONCE = 3;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Metres that one px shows. */
const metresAPx = (zoom, lat) =>
  (40_075_016.7 * Math.cos((lat * Math.PI) / 180)) / (256 * 2 ** zoom);

/** How far a path may be simplified at a zoom, metres: a power of two; 0 close up. */
export function fineness(zoom, lat) {
  const metres = metresAPx(zoom, lat) * 0.75;
  return metres < 0.5 ? 0 : 2 ** Math.floor(Math.log2(metres));
}

/** Lines of longitude and latitude, so that a map without tiles has a scale. */
const Grid = L.GridLayer.extend({
  createTile({ x, y, z }) {
    const tile = document.createElement("canvas");
    const ratio = window.devicePixelRatio || 1;
    tile.width = tile.height = 256 * ratio;
    const context = tile.getContext("2d");
    context.scale(ratio, ratio);
    context.strokeStyle = css("--map-grid");
    context.fillStyle = css("--map-text");
    context.font = "10px system-ui, sans-serif";
    const perDegree = (256 * 2 ** z) / 360;
    const step = GRID_DEGREES.findLast((degrees) => degrees * perDegree >= GRID_PX) ?? 90;
    const digits = Math.max(0, Math.ceil(-Math.log10(step)));
    const corner = this._map.unproject([x * 256, y * 256], z);
    const end = this._map.unproject([x * 256 + 256, y * 256 + 256], z);
    const line = (points, text, at) => {
      context.beginPath();
      context.moveTo(...points[0]);
      context.lineTo(...points[1]);
      context.stroke();
      // No text over the edge of the tile, where it would be cut.
      if (at[0] + context.measureText(text).width < 256) context.fillText(text, ...at);
    };
    for (let n = Math.ceil(corner.lng / step); n * step < end.lng; n += 1) {
      const px = (n * step - corner.lng) * perDegree;
      line([[px, 0], [px, 256]], `${(n * step).toFixed(digits)}°`, [px + 3, 11]);
    }
    for (let n = Math.ceil(end.lat / step); n * step < corner.lat; n += 1) {
      const py = this._map.project([n * step, corner.lng], z).y - y * 256;
      line([[0, py], [256, py]], `${(n * step).toFixed(digits)}°`, [3, py - 3]);
    }
    return tile;
  },
});

/** Rings of a TopoJSON of countries, as [lat, lon]. */
function outlines(world) {
  const { scale, translate } = world.transform;
  const arcs = world.arcs.map((arc) => {
    let [x, y] = [0, 0];
    return arc.map(([dx, dy]) => {
      x += dx;
      y += dy;
      return [y * scale[1] + translate[1], x * scale[0] + translate[0]];
    });
  });
  const ring = (indexes) =>
    indexes.flatMap((at) => (at < 0 ? arcs[~at].toReversed() : arcs[at]));
  return world.objects.countries.geometries.flatMap(({ type, arcs: shape }) =>
    (type === "Polygon" ? [shape] : shape).map((rings) => rings.map(ring)),
  );
}

export class TripMap {
  /** `onPick(id)`: a trip was clicked; `onPath(path)`: that of the chosen trip has come. */
  constructor({ onPick, onPath }) {
    this.onPick = onPick;
    this.onPath = onPath;
    this.state = document.getElementById("map-state");
    this.canvas = L.canvas({ padding: 0.3, tolerance: 6 });
    this.map = L.map("map", {
      preferCanvas: true,
      renderer: this.canvas,
      maxZoom: DEEPEST,
      worldCopyJump: true,
      attributionControl: false,
      zoomSnap: 0.5,
    }).setView([25, 10], 2);
    L.control.scale({ imperial: false }).addTo(this.map);
    this.map.createPane("grid").style.zIndex = 250;
    this.base = L.layerGroup().addTo(this.map);
    this.others = L.layerGroup().addTo(this.map);
    this.own = L.layerGroup().addTo(this.map);
    this.trip = null;
    this.path = null;
    /** Id to the way of another trip of the day, and its version. */
    this.ways = new Map();
    this.map.on("zoomend", () => this.refine());
    new ResizeObserver(() => this.map.invalidateSize({ animate: false })).observe(
      this.map.getContainer(),
    );
  }

  /** What lies beneath: tiles where the server names some, else the outline of the countries. */
  async ground(tiles) {
    this.tiles = tiles;
    const note = L.control.attribution({ prefix: false });
    note.addAttribution(tiles ? "Leaflet" : "Leaflet · Natural Earth").addTo(this.map);
    if (!tiles) {
      const answer = await fetch("/assets/world.json");
      this.world = outlines(await answer.json());
    }
    this.paint();
  }

  /** Everything in the colours of the theme. */
  paint() {
    this.base.clearLayers();
    if (this.tiles) {
      L.tileLayer(this.tiles, { maxZoom: DEEPEST }).addTo(this.base);
    } else {
      if (this.world) {
        const style = { color: css("--map-border"), fillColor: css("--map-land"), fillOpacity: 1 };
        const shape = { ...style, weight: 1, interactive: false, pane: "tilePane" };
        const renderer = (this.landCanvas ??= L.canvas({ pane: "tilePane", padding: 0.3 }));
        L.polygon(this.world, { ...shape, renderer }).addTo(this.base);
      }
      new Grid({ pane: "grid", maxZoom: DEEPEST }).addTo(this.base);
    }
    if (this.dayTrips) this.drawDay();
    if (this.trip) this.drawOwn();
  }

  /** The other trips of a day: each from where it began to where it ended, soon by its way. */
  showDay(trips) {
    this.dayTrips = trips;
    this.drawDay();
    this.tracing?.abort();
    this.tracing = new AbortController();
    if (trips.length <= TRACED) this.trace(trips, this.tracing.signal);
  }

  drawDay() {
    this.others.clearLayers();
    const style = { color: css("--other"), weight: 2, opacity: 0.7 };
    for (const trip of this.dayTrips) {
      if (trip.id === this.trip?.id) continue;
      const ends = [[trip.start.lat, trip.start.lon], [trip.end.lat, trip.end.lon]];
      const way = this.ways.get(trip.id)?.points;
      const line = L.polyline(way ?? ends, { ...style, dashArray: way ? null : "2 5" });
      const dot = L.circleMarker(ends[0], { ...style, radius: 4, fillOpacity: 0.6 });
      for (const layer of [line, dot]) layer.on("click", () => this.onPick(trip.id));
      this.others.addLayer(line).addLayer(dot);
    }
    this.own.eachLayer((layer) => layer.bringToFront());
  }

  /** Asks for the ways that are not known yet; without them the straight lines stay. */
  async trace(trips, signal) {
    const wanted = trips.filter(
      ({ id, version }) => id !== this.trip?.id && this.ways.get(id)?.version !== version,
    );
    if (!wanted.length) return;
    const ask = async () => {
      for (let trip = wanted.pop(); trip; trip = wanted.pop()) {
        const { path } = await api.path(trip.id, TRACE_METRES, signal);
        const points = path.coordinates.map(([lon, lat]) => [lat, lon]);
        this.ways.set(trip.id, { points, version: trip.version });
      }
    };
    await Promise.allSettled(Array.from({ length: AT_ONCE }, ask));
    if (!signal.aborted) this.drawDay();
  }

  /** Shows no trip, but the whole of a day. */
  showNone(trips) {
    this.trip = null;
    this.path = null;
    this.own.clearLayers();
    this.loading?.abort();
    this.state.textContent = "";
    this.showDay(trips);
    if (!trips.length) return;
    const boxes = trips.map(({ bbox: [w, s, e, n] }) => L.latLngBounds([s, w], [n, e]));
    this.fit(boxes.reduce((all, box) => all.extend(box)));
  }

  fit(bounds) {
    this.map.fitBounds(bounds, { padding: [32, 32], maxZoom: 15, animate: false });
  }

  /** Shows a trip, and asks for its path as fine as the zoom needs it. */
  async show(trip, trips) {
    const isSame = this.trip?.id === trip.id;
    this.trip = trip;
    if (!isSame) this.path = null;
    this.showDay(trips);
    const [w, s, e, n] = trip.bbox;
    const bounds = L.latLngBounds([s, w], [n, e]);
    // A trip that grows while one looks around must not take the view along.
    if (!isSame || !this.map.getBounds().contains(bounds)) this.fit(bounds);
    this.drawOwn();
    await this.load();
  }

  /** Asks again where the zoom now shows more than the path has. */
  refine() {
    if (!this.trip || !this.path) return;
    if (fineness(this.map.getZoom(), this.trip.bbox[1]) < this.metres) this.load();
  }

  async load() {
    this.loading?.abort();
    const loading = new AbortController();
    this.loading = loading;
    const metres = fineness(this.map.getZoom(), this.trip.bbox[1]);
    if (!this.path) this.state.textContent = "Loading the path…";
    try {
      const found = await api.path(this.trip.id, metres, loading.signal);
      if (loading.signal.aborted) return;
      this.path = found.path;
      this.times = found.path.times.map((time) => Date.parse(time));
      this.metres = metres;
      this.state.textContent = "";
      this.drawOwn();
      this.onPath(this.trip, this.path);
    } catch (refused) {
      if (!loading.signal.aborted) this.state.textContent = `No path: ${refused.message}`;
    }
  }

  drawOwn() {
    const { trip, path } = this;
    this.own.clearLayers();
    const accent = css("--chosen");
    const surface = css("--surface");
    const points = path
      ? path.coordinates.map(([lon, lat]) => [lat, lon])
      : [[trip.start.lat, trip.start.lon], [trip.end.lat, trip.end.lon]];
    const dash = path ? {} : { dashArray: "2 6" };
    const weight = points.length > 5000 ? 2.5 : 4;
    L.polyline(points, { color: accent, weight, interactive: false, ...dash }).addTo(this.own);
    const ring = { color: accent, weight: 3, fillColor: surface, fillOpacity: 1, radius: 6 };
    const dot = (at, style, title) => {
      const marker = L.circleMarker(at, { ...ring, ...style }).addTo(this.own);
      marker.bindTooltip(title, { direction: "top", offset: [0, -6] });
    };
    dot(points[0], {}, "start");
    dot(points.at(-1), { fillColor: accent }, "end");
    if (!path) return;
    const thin = { radius: 5, weight: 2 };
    for (const { ms } of trip.retired) {
      dot(this.placeAt(ms), { ...thin, color: css("--retired") }, "t* of a retired id");
    }
    dot(this.placeAt(trip.starMs), { ...thin, color: surface, fillColor: css("--star") }, "t*");
  }

  /** Where the trip was at a time, between the points that the path has. */
  placeAt(ms) {
    const after = this.times.findIndex((time) => time >= ms);
    const at = after < 0 ? this.times.length - 1 : after;
    const before = Math.max(at - 1, 0);
    const long = this.times[at] - this.times[before];
    const share = long > 0 ? Math.min(Math.max((ms - this.times[before]) / long, 0), 1) : 1;
    const [a, b] = [this.path.coordinates[before], this.path.coordinates[at]];
    return [a[1] + (b[1] - a[1]) * share, a[0] + (b[0] - a[0]) * share];
  }

  /** Marks where the chosen trip was at a time; null: no mark. */
  pointAt(ms) {
    this.pointer?.remove();
    if (ms === null || !this.path) return;
    const style = { radius: 7, weight: 3, color: css("--text"), fillColor: css("--surface") };
    const shown = { ...style, fillOpacity: 1, interactive: false };
    this.pointer = L.circleMarker(this.placeAt(ms), shown).addTo(this.map);
  }
}
