// The base map that the server has: vector tiles of a PMTiles archive, drawn on canvases.

import { Painter, colours, namesOf } from "./basemap-style.js";
import { make, visible } from "./format.js";
import { Archive, ChangedError, layersOf } from "./pmtiles.js";

const L = window.L;

/** Side of a tile on the map, px: twice that of pictures, as vector tiles have more detail. */
const SIDE = 512;
/** Pixels of a canvas for each of the map: sharp at half zooms and on fine screens. */
const RATIO = 2;
/** Maximum number of tiles in memory. */
const TILES = 64;
/** Maximum number of names on the map, and their size, px. */
const NAMES = 80;
const [LETTER_PX, LINE_PX] = [7, 18];

let opening = null;

/** The archive of the server, opened once for all maps. */
export function openArchive() {
  opening ??= new Archive("/v1/basemap").open();
  // Opened again if it failed.
  opening.catch(() => (opening = null));
  return opening;
}

/** The layer of the base map. `note` shows in words what cannot be read. */
export const Vectors = L.GridLayer.extend({
  // Over the outlines of the countries, whose canvas has 100.
  options: { tileSize: SIDE, keepBuffer: 1, updateWhenZooming: false, zIndex: 101 },

  initialize(archive, note) {
    Object.assign(this, { archive, note });
    /** The layers of tiles, by number. */
    this.tiles = new Map();
    this.on("load", this.showNames, this);
  },

  onAdd(map) {
    this.palette = colours();
    const pane = map.getPane("names") ?? map.createPane("names");
    pane.style.zIndex = 300;
    pane.style.pointerEvents = "none";
    this.names = make("div", "leaflet-zoom-hide", [], { "aria-hidden": "true" });
    pane.append(this.names);
    L.GridLayer.prototype.onAdd.call(this, map);
  },

  onRemove(map) {
    this.names.remove();
    L.GridLayer.prototype.onRemove.call(this, map);
  },

  getEvents() {
    const again = () => {
      // What could not be read may be there now.
      if (this.hasFailed) this.redraw();
      this.hasFailed = false;
      this.showNames();
    };
    return { ...L.GridLayer.prototype.getEvents.call(this), moveend: again };
  },

  createTile(coords, done) {
    const canvas = make("canvas");
    canvas.width = canvas.height = 1;
    this.paint(canvas, coords).then(() => done(null, canvas), (error) => {
      this.fail(error);
      done(error, canvas);
    });
    return canvas;
  },

  /** Draws a tile, or the part of one of the greatest zoom of the archive. */
  async paint(canvas, { x, y, z }) {
    const { minZoom, maxZoom } = this.archive;
    const zoom = Math.min(z - 1, maxZoom);
    const parts = 2 ** (z - 1 - zoom);
    const layers = zoom < minZoom ? null
      : await this.read(zoom, Math.floor(x / parts), Math.floor(y / parts));
    if (!layers) return;
    canvas.width = canvas.height = SIDE * RATIO;
    const side = SIDE * RATIO * parts;
    const [left, top] = [x % parts, y % parts].map((at) => -at * SIDE * RATIO);
    const painter = new Painter(canvas, this.palette, (extent) => {
      painter.context.setTransform(side / extent, 0, 0, side / extent, left, top);
      return (RATIO * extent) / side;
    });
    painter.draw(layers, z);
    const span = 2 ** zoom;
    const origin = [Math.floor(x / parts), Math.floor(y / parts)];
    canvas.names = namesOf(layers, z).map(({ text, rank, x: east, y: south }) =>
      ({ text, rank, at: place((origin[0] + east) / span, (origin[1] + south) / span) }));
  },

  /** The layers of a tile; null where the archive has none. */
  read(z, x, y) {
    const key = `${z}/${x}/${y}`;
    const load = async () => {
      const bytes = await this.archive.tile(z, x, y);
      this.note.say("");
      return bytes && layersOf(bytes);
    };
    const layers = this.tiles.get(key) ?? load();
    this.tiles.delete(key);
    this.tiles.set(key, layers);
    if (this.tiles.size > TILES) this.tiles.delete(this.tiles.keys().next().value);
    layers.catch(() => this.tiles.delete(key));
    return layers;
  },

  fail(error) {
    if (error instanceof ChangedError) {
      this.reopen();
      return;
    }
    this.hasFailed = true;
    this.note.say(`A part of the base map cannot be read: ${error.message}.`);
  },

  /** Draws the new version of the file. */
  async reopen() {
    if (this.isOpening) return;
    this.isOpening = true;
    try {
      opening = null;
      this.archive = await openArchive();
      this.tiles.clear();
      if (this._map) this.redraw();
    } catch (error) {
      this.fail(error);
    }
    this.isOpening = false;
  },

  /** Names that do not overlap, the most important first. They are not parts of tiles, whose edges
   * would cut them. */
  showNames() {
    const map = this._map;
    if (!map) return;
    const shown = map.getBounds();
    const all = Object.values(this._tiles ?? {}).filter((tile) => tile.current)
      .flatMap((tile) => tile.el.names ?? []);
    const boxes = [];
    const labels = [];
    const texts = new Set();
    for (const { text, rank, at } of all.sort((a, b) => a.rank - b.rank)) {
      if (labels.length >= NAMES || texts.has(text) || !shown.contains(at)) continue;
      const point = map.latLngToLayerPoint(at);
      const half = (text.length * LETTER_PX) / 2;
      const isFree = boxes.every((box) => Math.abs(box.point.x - point.x) > box.half + half ||
        Math.abs(box.point.y - point.y) > LINE_PX);
      if (!isFree) continue;
      boxes.push({ point, half });
      texts.add(text);
      const label = make("bdi", rank < 6 ? "place-name big" : "place-name", visible(text));
      label.style.translate = `calc(${Math.round(point.x)}px - 50%) ${Math.round(point.y)}px`;
      labels.push(label);
    }
    this.names.replaceChildren(...labels);
  },
});

/** Latitude and longitude of a place, in shares of the world from its north-west. */
function place(east, south) {
  const angle = Math.PI * (1 - 2 * south);
  return [(Math.atan(Math.sinh(angle)) * 180) / Math.PI, east * 360 - 180];
}
