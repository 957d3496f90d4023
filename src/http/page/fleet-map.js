// The map of all devices at their last positions.

import { Credits, Grid, loadVectors, world } from "./base.js";
import { describe } from "./devices.js";
import { titleOf } from "./fleet-data.js";
import { FleetLayer } from "./fleet-layer.js";
import { STATES, WORDS } from "./fleet-states.js";
import { count, make, visible } from "./format.js";
import { unit } from "./settings.js";

const L = window.L;

const MAX_ZOOM = 18;
/** Maximum zoom of a view of all devices. */
const FIT_ZOOM = 14;
/** Maximum devices of a cluster that a popup names. */
const LISTED = 30;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Bounds of devices. */
function boundsOf(entries) {
  const bounds = L.latLngBounds([]);
  for (const { lat, lon, lastMs } of entries) if (lastMs !== null) bounds.extend([lat, lon]);
  return bounds;
}

export class FleetMap {
  clock; onPaint; onView; onPick;

  /**
   * `onPick(device)`: a device was clicked; `onView()`: the user has moved the map; `onPaint()`:
   * the map is drawn, in the colours of the theme.
   */
  constructor({ onPick, onView, onPaint, clock }) {
    Object.assign(this, { onPick, onView, onPaint, clock });
    this.box = document.getElementById("fleet-map");
    this.tip = document.getElementById("fleet-tip");
    this.map = null;
    this.entries = [];
    /** The view that the user has chosen: `lat,lon,zoom`; empty: the map fits the devices. */
    this.view = "";
  }

  /** Creates the map, which exists only while it is shown: a hidden one has no size. */
  open({ tiles, tiles_attribution: makers, basemap }) {
    if (this.map) return;
    this.tiles = tiles;
    const map = L.map(this.box, {
      maxZoom: MAX_ZOOM, worldCopyJump: true, attributionControl: false, zoomSnap: 0.5,
    });
    this.map = map.setView([25, 10], 2);
    this.box.classList.toggle("has-tiles", Boolean(tiles));
    this.showUnits();
    map.createPane("grid").style.zIndex = 250;
    const credits = new Credits({ attribution: tiles ? makers : "Natural Earth" }).addTo(map);
    this.base = L.layerGroup().addTo(map);
    this.layer = new FleetLayer((entry) => this.clock.state(entry)).addTo(map);
    this.isMoving = false;
    this.number = 0;
    this.vectors = null;
    this.paint();
    if (!tiles) this.loadLand();
    if (basemap) this.loadVectors(credits);
    this.listen();
  }

  /** Shows lengths in the unit of the page. */
  showUnits() {
    if (!this.map) return;
    this.scale?.remove();
    const imperial = unit().name === "mi";
    this.scale = L.control.scale({ imperial, metric: !imperial }).addTo(this.map);
  }

  async loadLand() {
    const { map } = this;
    this.land = await world().catch(() => null);
    if (this.map === map) this.paint();
  }

  async loadVectors(credits) {
    const { map } = this;
    const vectors = await loadVectors(map, credits);
    if (this.map !== map) return;
    this.vectors = vectors;
    this.paint();
  }

  close() {
    this.sizes?.disconnect();
    this.map?.remove();
    this.map = this.scale = null;
    this.onPaint();
    this.tip.hidden = true;
  }

  listen() {
    const { map } = this;
    map.on("moveend", () => {
      if (this.isMoving) return;
      this.keepView();
      this.onView();
    });
    map.on("mousemove", ({ containerPoint }) => this.hover(containerPoint));
    map.on("mouseout movestart zoomstart", () => this.hover(null));
    map.on("click", ({ containerPoint }) => this.click(containerPoint));
    this.sizes = new ResizeObserver(() => {
      this.silently(() => map.invalidateSize({ animate: false }));
      // The first size is that of the layout before it has settled.
      if (!this.view) this.fit();
    });
    this.sizes.observe(this.box);
  }

  /** Stays with the view that the map has. */
  keepView() {
    const { lat, lng } = this.map.getCenter();
    this.view = `${lat.toFixed(5)},${lng.toFixed(5)},${this.map.getZoom()}`;
  }

  /** Moves the map to bounds that are not in view. */
  reach(bounds) {
    if (this.map.getBounds().intersects(bounds)) return;
    this.silently(() => this.map.panTo(bounds.getCenter(), { animate: false }));
  }

  /** Moves the map without taking that for the user's choice. */
  silently(move) {
    this.isMoving = true;
    move();
    this.isMoving = false;
  }

  /** Draws the base in the colours of the theme. */
  paint() {
    if (!this.map) return;
    this.base.clearLayers();
    if (this.tiles) {
      this.box.classList.toggle("is-dark", css("color-scheme") === "dark");
      const options = { maxZoom: MAX_ZOOM, referrerPolicy: "origin" };
      L.tileLayer(this.tiles, options).addTo(this.base);
    } else {
      if (this.land) {
        const renderer = L.canvas({ pane: "tilePane", padding: 0.3 });
        const style = { color: css("--map-border"), fillColor: css("--map-land"), fillOpacity: 1 };
        const shape = { ...style, weight: 1, interactive: false, pane: "tilePane", renderer };
        L.polygon(this.land, shape).addTo(this.base);
      }
      this.vectors?.addTo(this.base);
      new Grid({ pane: "grid" }).addTo(this.base);
    }
    this.layer.colours();
    this.layer.draw();
    this.onPaint();
  }

  /**
   * Shows these devices. Unless the user has chosen a view, fits other ones, and those that have
   * left the view: a fleet that drives within it does not move the map.
   */
  show(entries) {
    // The list of all devices is the same one, however long.
    const isOther = entries.length !== this.number;
    this.number = entries.length;
    this.entries = entries;
    if (!this.map) return;
    this.layer.show(entries);
    if (this.view) return;
    const bounds = boundsOf(entries);
    const isLost = bounds.isValid() && !this.map.getBounds().contains(bounds);
    if (isOther || isLost) this.fit();
  }

  fit() {
    const bounds = boundsOf(this.entries);
    if (!this.map || !bounds.isValid()) return;
    const options = {
      paddingTopLeft: [56, 56], paddingBottomRight: [56, 40], maxZoom: FIT_ZOOM, animate: false,
    };
    this.silently(() => this.map.fitBounds(bounds, options));
  }

  /** Fits the devices if none of them is in view. */
  reveal(entries) {
    if (!this.map) return;
    const shown = this.map.getBounds();
    const isShown = ({ lat, lon, lastMs }) => lastMs !== null && shown.contains([lat, lon]);
    if (!entries.some(isShown)) this.fit();
  }

  applyView() {
    const [lat, lon, zoom] = this.view.split(",").map(Number);
    // Far outside of the world, the base map would look for tiles without end.
    const isValid = Number.isFinite(zoom) && Math.abs(lat) <= 90 && Math.abs(lon) <= 540;
    if (!isValid) this.view = "";
    else this.silently(() => this.map.setView([lat, lon], zoom, { animate: false }));
  }

  /** Marks a device; `isFollowed`: moves the map to it if it is not in view. */
  point(entry, isFollowed = false) {
    if (!this.map) return;
    this.layer.point(entry);
    if (!isFollowed || entry?.lastMs == null) return;
    const at = [entry.lat, entry.lon];
    if (this.map.getBounds().pad(-0.05).contains(at)) return;
    this.silently(() => this.map.panTo(at, { animate: false }));
  }

  hover(point) {
    const hit = point && this.layer.at(point);
    this.box.classList.toggle("is-hit", Boolean(hit));
    this.tip.hidden = !hit;
    if (!hit) return;
    this.tip.replaceChildren(...this.words(hit.cluster));
    const [x, y] = [Math.round(hit.x), Math.round(hit.y + hit.r + 8)];
    this.tip.style.translate = `calc(${x}px - 50%) ${y}px`;
  }

  /** A device or a cluster in words. */
  words({ entries, counts }) {
    if (entries.length === 1) {
      const [entry] = entries;
      return [make("b", "", make("bdi", "", visible(titleOf(entry)))),
        make("span", "", describe(entry, this.clock))];
    }
    const states = STATES.filter((state) => counts[state]);
    const text = states.map((state) => `${count(counts[state])} ${WORDS[state].toLowerCase()}`);
    return [make("b", "", `${count(entries.length)} devices`), make("span", "", text.join(", "))];
  }

  click(point) {
    const hit = this.layer.at(point);
    if (!hit) return;
    const { entries } = hit.cluster;
    if (entries.length === 1) {
      this.onPick(entries[0].device_id);
      return;
    }
    const bounds = boundsOf(entries);
    const zoom = this.map.getBoundsZoom(bounds, false, L.point(60, 60));
    const isApart = zoom > this.map.getZoom() && bounds.getSouthWest().distanceTo(
      bounds.getNorthEast()) > 5;
    if (isApart) this.map.fitBounds(bounds, { padding: [60, 60], maxZoom: MAX_ZOOM });
    else this.list(entries, bounds.getCenter());
  }

  /** Names devices at one place, which no zoom separates. */
  list(entries, at) {
    const items = entries.slice(0, LISTED).map((entry) => {
      const button = make("button", "link ident", make("bdi", "", visible(titleOf(entry))));
      button.type = "button";
      button.addEventListener("click", () => this.onPick(entry.device_id));
      return make("li", "", [button, ` ${WORDS[this.clock.state(entry)].toLowerCase()}`]);
    });
    const rest = entries.length - items.length;
    if (rest > 0) items.push(make("li", "muted", `and ${count(rest)} more: zoom in, or search`));
    L.popup({ maxHeight: 240 }).setLatLng(at).setContent(make("ul", "at-place", items))
      .openOn(this.map);
  }
}
