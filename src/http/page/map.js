// The map: tiles or country outlines, the trips of a day, the path of the selected trip.

import * as api from "./api.js";
import { Credits, Grid, world } from "./base.js";

const L = window.L;

const MAX_ZOOM = 18;
/** The paths of the other trips are loaded on days with at most this many trips. */
const MAX_TRACED = 40;
/** Tolerance of those paths, m. */
const TRACE_METRES = 25;
/** Concurrent requests for those paths. */
const TRACE_REQUESTS = 3;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Metres per px. */
const metresPerPx = (zoom, lat) =>
  (40_075_016.7 * Math.cos((lat * Math.PI) / 180)) / (256 * 2 ** zoom);

/** Tolerance for paths at a zoom, m: a power of two; 0 when zoomed in. */
export function toleranceAt(zoom, lat) {
  const metres = metresPerPx(zoom, lat) * 0.75;
  return metres < 0.5 ? 0 : 2 ** Math.floor(Math.log2(metres));
}

export class TripMap {
  /** `onPick(id)`: a trip was clicked; `onPath(trip, path)`: the selected path was loaded. */
  constructor({ onPick, onPath }) {
    this.onPick = onPick;
    this.onPath = onPath;
    this.state = document.getElementById("map-state");
    this.canvas = L.canvas({ padding: 0.3, tolerance: 6 });
    this.map = L.map("map", {
      preferCanvas: true,
      renderer: this.canvas,
      maxZoom: MAX_ZOOM,
      worldCopyJump: true,
      attributionControl: false,
      zoomSnap: 0.5,
    }).setView([25, 10], 2);
    L.control.scale({ imperial: false }).addTo(this.map);
    this.map.createPane("grid").style.zIndex = 250;
    this.base = L.layerGroup().addTo(this.map);
    this.others = L.layerGroup().addTo(this.map);
    this.selected = L.layerGroup().addTo(this.map);
    this.trip = null;
    this.path = null;
    /** Points and version of the other trips of the day, by id. */
    this.traces = new Map();
    const container = this.map.getContainer();
    this.map.on("zoomend", () => {
      container.dataset.zoom = this.map.getZoom();
      this.refine();
    });
    new ResizeObserver(() => this.map.invalidateSize({ animate: false })).observe(
      this.map.getContainer(),
    );
  }

  /** Loads the base layer: tiles if the server has a tile URL, else country outlines. */
  async loadBase({ tiles, tiles_attribution: credits }) {
    this.tiles = tiles;
    this.map.getContainer().classList.toggle("has-tiles", Boolean(tiles));
    new Credits({ attribution: tiles ? credits : "Natural Earth" }).addTo(this.map);
    if (!tiles) {
      this.world = await world();
    }
    this.paint();
  }

  /** Draws everything in the colours of the theme. */
  paint() {
    this.base.clearLayers();
    if (this.tiles) {
      const isDark = css("color-scheme") === "dark";
      this.map.getContainer().classList.toggle("is-dark", isDark);
      // Tile servers may demand to know which page shows their tiles; the rest is private.
      const options = { maxZoom: MAX_ZOOM, referrerPolicy: "origin" };
      L.tileLayer(this.tiles, options).addTo(this.base);
    } else {
      if (this.world) {
        const style = { color: css("--map-border"), fillColor: css("--map-land"), fillOpacity: 1 };
        const shape = { ...style, weight: 1, interactive: false, pane: "tilePane" };
        const renderer = (this.landCanvas ??= L.canvas({ pane: "tilePane", padding: 0.3 }));
        L.polygon(this.world, { ...shape, renderer }).addTo(this.base);
      }
      new Grid({ pane: "grid" }).addTo(this.base);
    }
    if (this.dayTrips) this.drawDay();
    if (this.trip) this.drawSelected();
  }

  /** Shows the other trips of a day: first as straight lines, then by their paths. */
  showDay(trips) {
    this.dayTrips = trips;
    this.drawDay();
    this.tracing?.abort();
    this.tracing = new AbortController();
    if (trips.length <= MAX_TRACED) this.trace(trips, this.tracing.signal);
  }

  drawDay() {
    this.others.clearLayers();
    const style = { color: css("--other"), weight: 2, opacity: 0.7 };
    for (const trip of this.dayTrips) {
      if (trip.id === this.trip?.id) continue;
      const ends = [[trip.start.lat, trip.start.lon], [trip.end.lat, trip.end.lon]];
      const points = this.traces.get(trip.id)?.points;
      const line = L.polyline(points ?? ends, { ...style, dashArray: points ? null : "2 5" });
      const dot = L.circleMarker(ends[0], { ...style, radius: 4, fillOpacity: 0.6 });
      for (const layer of [line, dot]) layer.on("click", () => this.onPick(trip.id));
      this.others.addLayer(line).addLayer(dot);
    }
    this.selected.eachLayer((layer) => layer.bringToFront());
  }

  /** Loads the paths that are missing; trips without one keep their straight lines. */
  async trace(trips, signal) {
    const wanted = trips.filter(
      ({ id, version }) => id !== this.trip?.id && this.traces.get(id)?.version !== version,
    );
    if (!wanted.length) return;
    const load = async () => {
      for (let trip = wanted.pop(); trip; trip = wanted.pop()) {
        const { path } = await api.path(trip.id, TRACE_METRES, signal);
        const points = path.coordinates.map(([lon, lat]) => [lat, lon]);
        this.traces.set(trip.id, { points, version: trip.version });
      }
    };
    await Promise.allSettled(Array.from({ length: TRACE_REQUESTS }, load));
    if (!signal.aborted) this.drawDay();
  }

  /** Removes all trips; keeps the view. */
  clear() {
    this.tracing?.abort();
    this.pointAt(null);
    this.showNone([]);
  }

  /** Shows all trips of a day; selects none. */
  showNone(trips) {
    this.trip = null;
    this.path = null;
    this.selected.clearLayers();
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

  /** Selects a trip and loads its path, simplified for the zoom. */
  async show(trip, trips) {
    const isSame = this.trip?.id === trip.id;
    this.trip = trip;
    if (!isSame) this.path = null;
    this.showDay(trips);
    const [w, s, e, n] = trip.bbox;
    const bounds = L.latLngBounds([s, w], [n, e]);
    // A growing trip does not move the view unless it leaves it.
    if (!isSame || !this.map.getBounds().contains(bounds)) this.fit(bounds);
    this.drawSelected();
    await this.load();
  }

  /** Loads a finer path if the zoom needs one. */
  refine() {
    if (!this.trip || !this.path) return;
    if (toleranceAt(this.map.getZoom(), this.trip.bbox[1]) < this.metres) this.load();
  }

  async load() {
    this.loading?.abort();
    const loading = new AbortController();
    this.loading = loading;
    const metres = toleranceAt(this.map.getZoom(), this.trip.bbox[1]);
    if (!this.path) this.state.textContent = "Loading the path…";
    try {
      const found = await api.path(this.trip.id, metres, loading.signal);
      if (loading.signal.aborted) return;
      this.path = found.path;
      this.times = found.path.times.map((time) => Date.parse(time));
      this.metres = metres;
      this.state.textContent = "";
      this.drawSelected();
      this.onPath(this.trip, this.path);
    } catch (error) {
      if (loading.signal.aborted) return;
      this.state.textContent = `Cannot load the path: ${error.message}`;
    }
  }

  drawSelected() {
    const { trip, path } = this;
    this.selected.clearLayers();
    const accent = css("--chosen");
    const surface = css("--surface");
    const points = path
      ? path.coordinates.map(([lon, lat]) => [lat, lon])
      : [[trip.start.lat, trip.start.lon], [trip.end.lat, trip.end.lon]];
    const dash = path ? {} : { dashArray: "2 6" };
    const weight = points.length > 5000 ? 2.5 : 4;
    L.polyline(points, { color: accent, weight, interactive: false, ...dash }).addTo(this.selected);
    const base = { color: accent, weight: 3, fillColor: surface, fillOpacity: 1, radius: 6 };
    const dot = (at, style, title) => {
      const marker = L.circleMarker(at, { ...base, ...style }).addTo(this.selected);
      marker.bindTooltip(title, { direction: "top", offset: [0, -6] });
    };
    dot(points[0], {}, "start");
    dot(points.at(-1), { fillColor: accent }, "end");
    if (!path) return;
    const thin = { radius: 5, weight: 2 };
    for (const { ms } of trip.retired) {
      dot(this.positionAt(ms), { ...thin, color: css("--retired") }, "t* of a retired id");
    }
    dot(this.positionAt(trip.starMs), { ...thin, color: surface, fillColor: css("--star") }, "t*");
  }

  /** Position of the trip at a time, interpolated between points of the path. */
  positionAt(ms) {
    const after = this.times.findIndex((time) => time >= ms);
    const at = after < 0 ? this.times.length - 1 : after;
    const before = Math.max(at - 1, 0);
    const length = this.times[at] - this.times[before];
    const share = length > 0 ? Math.min(Math.max((ms - this.times[before]) / length, 0), 1) : 1;
    const [a, b] = [this.path.coordinates[before], this.path.coordinates[at]];
    return [a[1] + (b[1] - a[1]) * share, a[0] + (b[0] - a[0]) * share];
  }

  /** Marks the position of the selected trip at a time; null removes the mark. */
  pointAt(ms) {
    this.pointer?.remove();
    if (ms === null || !this.path) return;
    const style = { radius: 7, weight: 3, color: css("--text"), fillColor: css("--surface") };
    const shown = { ...style, fillOpacity: 1, interactive: false };
    this.pointer = L.circleMarker(this.positionAt(ms), shown).addTo(this.map);
  }
}
