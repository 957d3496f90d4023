// The paths of the trips in the list of all devices, on the map of the fleet.

import * as api from "./api.js";
import { toast } from "./frame.js";
import { isStop } from "./trips.js";

const L = window.L;

/** Paths of more trips would cover each other, and the answer would be large. */
export const MAX_PATHS = 300;
/** Tolerance of the paths, m. */
const METRES = 50;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class FleetPaths {
  /** `map`: the map of the fleet, which exists only while it is shown. */
  constructor(map) {
    this.map = map;
    this.points = new Map();
    this.lines = new Map();
    this.pointed = null;
  }

  clear() {
    this.loading?.abort();
    this.points = new Map();
    this.draw();
  }

  /** Loads the paths of trips, if these are few, with the parameters of their list. */
  async load(segments, options) {
    this.loading?.abort();
    const trips = segments.filter((it) => !isStop(it));
    if (!trips.length || trips.length > MAX_PATHS) return;
    const loading = new AbortController();
    this.loading = loading;
    const wanted = { fields: "id,path", path: true, simplify: METRES, kind: "trip" };
    let cursor = null;
    try {
      do {
        const found = await api.fleetTrips({ ...options, ...wanted, cursor }, loading.signal);
        if (loading.signal.aborted) return;
        for (const { id, path } of found.trips) {
          this.points.set(id, path.coordinates.map(([lon, lat]) => [lat, lon]));
        }
        cursor = found.next;
      } while (cursor);
    } catch {
      if (!loading.signal.aborted) {
        toast("The map lacks the paths of trips: the server cannot be reached.", {
          text: "Try again",
          run: () => this.load(segments, options),
        });
      }
    }
    if (!loading.signal.aborted) this.draw();
  }

  /** Draws the paths under the devices, in the colours of the theme. */
  draw() {
    const { map } = this.map;
    this.layer?.remove();
    this.lines = new Map();
    if (!map) return;
    const pane = "paths";
    if (!map.getPane(pane)) {
      Object.assign(map.createPane(pane).style, { zIndex: 350, pointerEvents: "none" });
    }
    const renderer = L.canvas({ pane, padding: 0.3 });
    this.layer = L.layerGroup();
    for (const [id, points] of this.points) {
      const style = { color: css("--other"), weight: 2.5, opacity: 0.8, interactive: false };
      const line = L.polyline(points, { ...style, pane, renderer });
      this.lines.set(id, line);
      this.layer.addLayer(line);
    }
    this.layer.addTo(map);
  }

  /** Marks the path of a trip, and moves the map where it is out of view; null: none. */
  point(id) {
    if (id === this.pointed) return;
    this.lines.get(this.pointed)?.setStyle({ color: css("--other"), weight: 2.5 });
    this.pointed = id;
    const line = this.lines.get(id);
    if (!line) return;
    line.setStyle({ color: css("--chosen"), weight: 5 }).bringToFront();
    this.map.reach(line.getBounds());
  }
}
