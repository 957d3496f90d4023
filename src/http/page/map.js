// The map: tiles or country outlines, the trips of a day, the path of the selected trip.

import * as api from "./api.js";
import { Credits, Grid, loadVectors, world } from "./base.js";
import { clock, distance, draw, duration, make, tokenOf } from "./format.js";
import { metresBetween } from "./chart.js";
import { markCounts } from "./marks.js";
import { bySpeed, colourBySpeed, settings, unit } from "./settings.js";
import { Track, classNames, css, pin, stopPin } from "./track.js";
import { isStop } from "./trips.js";

const L = window.L;

const MAX_ZOOM = 18;
/** The paths of the other trips are loaded where there are at most this many. */
const MAX_TRACED = 300;
/** Tolerance of those paths, m; of more than `MANY` trips. */
const TRACE_METRES = 25;
const ROUGH_METRES = 50;
const MANY = 40;

/** Silences that lead less far than this are not drawn, m. */
const SILENCE_METRES = 100;

/** Metres per px. */
const metresPerPx = (zoom, lat) =>
  (40_075_016.7 * Math.cos((lat * Math.PI) / 180)) / (256 * 2 ** zoom);

/** Tolerance for paths at a zoom, m: a power of two; 0 when zoomed in. */
export function toleranceAt(zoom, lat) {
  const metres = metresPerPx(zoom, lat) * 0.75;
  return metres < 0.5 ? 0 : 2 ** Math.floor(Math.log2(metres));
}

export class TripMap {
  tiles; landCanvas; onMarks; onPick; maxGapMs; onPath; onSeek; hasBase;

  /**
   * `onPick(id)`: a trip or stop was clicked; `onPath(trip, path)`: the selected path was loaded;
   * `onSeek(ms)`: a time of the selected trip was clicked; `onMarks(marks)`: what stands out on
   * the path that is shown.
   */
  constructor(callbacks) {
    Object.assign(this, callbacks);
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
    this.showScale();
    this.map.createPane("grid").style.zIndex = 250;
    this.base = L.layerGroup().addTo(this.map);
    this.others = L.layerGroup().addTo(this.map);
    this.silences = L.layerGroup().addTo(this.map);
    this.track = new Track(this.map);
    this.trip = null;
    this.path = null;
    this.dayTrips = [];
    /** Whether trips have lines; of very many, only their starts are drawn. */
    this.hasLines = true;
    /** Points and version of the other trips of the day, by id. */
    this.traces = new Map();
    const container = this.map.getContainer();
    this.map.on("zoomend", () => {
      container.dataset.zoom = this.map.getZoom();
      this.refine();
    });
    document.getElementById("by-speed").addEventListener("click", () => colourBySpeed(!bySpeed()));
    settings.addEventListener("colour", () => {
      this.drawSelected();
      this.showLegend();
    });
    new ResizeObserver(() => this.map.invalidateSize({ animate: false })).observe(
      this.map.getContainer(),
    );
  }

  /** Loads the base layer: tiles if the server has a tile URL, else country outlines. */
  async loadBase({ tiles, tiles_attribution: makers, basemap, max_gap_ms: maxGapMs }) {
    Object.assign(this, { tiles, maxGapMs });
    this.map.getContainer().classList.toggle("has-tiles", Boolean(tiles));
    const credits = new Credits({ attribution: tiles ? makers : "Natural Earth" });
    credits.addTo(this.map);
    if (basemap) this.loadVectors(credits);
    if (!tiles) this.world = await world();
    this.paint();
  }

  async loadVectors(credits) {
    this.vectors = await loadVectors(this.map, credits);
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
      this.vectors?.addTo(this.base);
      new Grid({ pane: "grid" }).addTo(this.base);
    }
    this.drawDay();
    if (this.trip) this.drawSelected();
  }

  showScale() {
    this.scale?.remove();
    const imperial = unit().name === "mi";
    this.scale = L.control.scale({ imperial, metric: !imperial }).addTo(this.map);
  }

  /** Shows lengths in the unit of the page. */
  showUnits() {
    this.showScale();
    if (this.trip) this.drawSelected();
    if (this.dayTrips) this.drawDay();
    this.showLegend();
  }

  showLegend() {
    const legend = document.getElementById("speed-legend");
    const button = document.getElementById("by-speed");
    button.hidden = !this.trip;
    button.setAttribute("aria-pressed", bySpeed());
    legend.hidden = !this.trip || !bySpeed();
    const items = classNames().map((name, at) =>
      make("li", "", [make("i", `key speed-${at}`, [], { "aria-hidden": "true" }), name]));
    legend.replaceChildren(...items);
    const marks = document.getElementById("mark-legend");
    const counts = markCounts(this.track.marks);
    marks.hidden = !counts.length;
    marks.replaceChildren(...counts.map((content) => make("li", "", content)));
    this.onMarks(this.track.marks);
  }

  /** Shows the other trips and the stops of days; trips first as straight lines. */
  showDay(segments) {
    const trips = segments.filter((segment) => !isStop(segment));
    this.dayTrips = segments;
    // Of more trips, straight lines would be a tangle.
    this.hasLines = trips.length <= MAX_TRACED;
    this.drawDay();
    this.tracing?.abort();
    this.tracing = new AbortController();
    if (this.hasLines) this.trace(trips, this.tracing.signal);
    else this.state.textContent = `No paths for more than ${MAX_TRACED} trips: choose a day`;
  }

  drawDay() {
    this.others.clearLayers();
    this.silences.clearLayers();
    const style = { color: css("--other"), weight: 2, opacity: 0.7 };
    let before = null;
    for (const segment of this.dayTrips) {
      if (before && this.hasLines) this.drawSilence(before, segment);
      before = segment;
      if (isStop(segment)) {
        this.drawStop(segment);
        continue;
      }
      if (segment.id === this.trip?.id) continue;
      const ends = [segment.start, segment.end].map(({ lat, lon }) => [lat, lon]);
      const points = this.traces.get(segment.id)?.points;
      const dot = L.circleMarker(ends[0], { ...style, radius: 4, fillOpacity: 0.6 });
      const layers = [dot];
      if (points || this.hasLines) {
        layers.push(L.polyline(points ?? ends, { ...style, dashArray: points ? null : "2 5" }));
      }
      for (const layer of layers) {
        layer.bindTooltip(`Trip ${clock(segment.startMs)} to ${clock(segment.endMs)}, ` +
          distance(segment.distance_m), { sticky: true });
        layer.on("click", () => this.onPick(segment.id));
        this.others.addLayer(layer);
      }
    }
    this.track.layer.eachLayer((layer) => layer.bringToFront?.());
  }

  drawStop(stop) {
    const title = `Stop ${clock(stop.startMs)} to ${clock(stop.endMs)}, ` +
      duration(stop.endMs - stop.startMs);
    const marker = stopPin(stop, title, stop.id === this.stop?.id);
    marker.on("click", () => this.onPick(stop.id));
    this.others.addLayer(marker);
  }

  /** A dashed line for a way that no sample shows. */
  drawSilence(before, after) {
    const [a, b] = [before.end, after.start].map(({ lat, lon }) => [lat, lon]);
    const metres = metresBetween(a.toReversed(), b.toReversed());
    if (metres < SILENCE_METRES) return;
    const text = `No samples: ${duration(after.startMs - before.endMs)}, ${distance(metres)}`;
    const isNear = [before.id, after.id].includes(this.trip?.id) &&
      after.startMs - before.endMs > this.maxGapMs;
    const label = { permanent: true, direction: "right", offset: [10, 0] };
    L.polyline([a, b], { color: css("--muted"), weight: 2, dashArray: "7 7" })
      .bindTooltip(text, isNear ? label : { sticky: true })
      .addTo(this.silences);
  }

  /** Loads the paths that are missing; trips without one keep their straight lines. */
  async trace(trips, signal) {
    const wanted = trips.filter(
      ({ id, version }) => id !== this.trip?.id && this.traces.get(id)?.version !== version,
    );
    if (!wanted.length) return;
    const options = {
      from: wanted[0].startMs, to: wanted.at(-1).startMs, limit: MAX_TRACED,
      metres: trips.length > MANY ? ROUGH_METRES : TRACE_METRES,
    };
    try {
      let cursor = null;
      do {
        const found = await api.paths(tokenOf(wanted[0].device_id), { ...options, cursor }, signal);
        for (const { id, version, path } of found.trips) {
          const points = path.coordinates.map(([lon, lat]) => [lat, lon]);
          this.traces.set(id, { points, version });
        }
        cursor = found.next;
      } while (cursor);
    } catch {
      return;
    }
    if (!signal.aborted) this.drawDay();
  }

  /** Removes all trips; keeps the view. */
  clear() {
    this.tracing?.abort();
    this.pointAt(null);
    this.showNone([]);
  }

  /** Shows all trips and stops of a day; selects none, or a stop. */
  showNone(segments, stop = null) {
    this.trip = null;
    this.path = null;
    this.stop = stop;
    this.track.clear();
    this.loading?.abort();
    this.pointAt(null);
    this.replayAt(null);
    this.full = this.fullOf = null;
    this.state.textContent = "";
    this.showLegend();
    this.showDay(segments);
    const shown = stop ? [stop] : segments;
    if (!shown.length) return;
    const boxes = shown.map(({ bbox: [w, s, e, n] }) => L.latLngBounds([s, w], [n, e]));
    this.fit(boxes.reduce((all, box) => all.extend(box)));
  }

  fit(bounds) {
    this.map.fitBounds(bounds, { padding: [32, 32], maxZoom: 15, animate: false });
  }

  /** Selects a trip and loads its path, simplified for the zoom. */
  async show(trip, trips) {
    const isSame = this.trip?.id === trip.id;
    if (!isSame) this.path = null;
    if (!isSame || this.trip.version !== trip.version) {
      this.replayAt(null);
      this.full = this.fullOf = null;
    }
    this.trip = trip;
    this.stop = null;
    this.showLegend();
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
    this.track.show(this.trip, this.path, (ms) => this.onSeek(ms));
    this.showLegend();
  }

  /** Marks the position of the selected trip at a time; null removes the mark. */
  pointAt(ms) {
    this.pointer?.remove();
    this.pointer = null;
    if (ms === null || !this.path) return;
    this.pointer = pin(this.track.positionAt(ms), "pointer", "", [draw("circle", { r: 7 })]);
    this.pointer.addTo(this.map);
  }

  /** Loads every sample of the selected trip, for its replay; a very long path stays simplified. */
  loadFull() {
    if (this.fullOf === this.trip) return this.isFull;
    const { trip } = this;
    this.fullOf = trip;
    this.isFull = this.readFull(trip);
    return this.isFull;
  }

  async readFull(trip) {
    const { path } = this.metres ? await api.path(trip.id, 0).catch(() => this) : this;
    if (this.trip !== trip || !path) return;
    const times = path.times.map((time) => Date.parse(time));
    this.full = { times, coordinates: path.coordinates };
  }

  /** Moves the marker of the replay to a time; null removes it. */
  replayAt(ms) {
    if (ms === null || !this.path) {
      this.replayed?.remove();
      this.replayed = null;
      return;
    }
    if (!this.full) this.loadFull();
    const { times, coordinates } = this.full ?? { times: undefined, coordinates: undefined };
    const position = this.track.positionAt(ms, times, coordinates);
    if (this.replayed) {
      this.replayed.setLatLng(position);
    } else {
      const shapes = [draw("circle", { r: 9 }), draw("circle", { class: "core", r: 4 })];
      this.replayed = pin(position, "replayed", "Replay", shapes);
      this.replayed.options.zIndexOffset = 1000;
      this.replayed.addTo(this.map);
    }
    // Follows the vehicle out of the view.
    if (!this.map.getBounds().contains(position)) this.map.panTo(position, { animate: false });
  }
}
