// How the features of a vector tile are drawn. Layers and classes are those of the schemas of
// Protomaps, OpenMapTiles and Shortbread; others are left out.

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Colours that the page has no variables for. */
const LIGHT = {
  green: "#e4ecd9", building: "#e7e3da", river: "#c3d5e6", rail: "#c4bfb4", casing: "#d3cdbf",
  path: "#d8d2c4", roads: ["#f2d49b", "#f9e8bf", "#ffffff", "#ffffff", "#d8d2c4"],
};
const DARK = {
  green: "#1b2e2c", building: "#243042", river: "#1a2c42", rail: "#3a4658", casing: "#3a475a",
  path: "#334052", roads: ["#6d5c38", "#4c566a", "#3f4b5e", "#36424f", "#334052"],
};

/** The colours of the theme. */
export function colours() {
  const [land, sea, border] = ["--map-land", "--map-sea", "--map-border"].map(css);
  return { ...(css("color-scheme") === "dark" ? DARK : LIGHT), land, sea, border };
}

const setOf = (words) => new Set(words.split(" "));
const EARTH = setOf("earth");
const GREENS = setOf("landcover landuse park land sites");
const WATERS = setOf("water ocean water_polygons");
const RIVERS = setOf("waterway water water_lines physical_line");
const BUILDINGS = setOf("buildings building");
const ROADS = setOf("roads transportation streets");
const BORDERS = setOf("boundaries boundary");
const PLACES = setOf("places place place_labels");
const STREET_NAMES = setOf("roads transportation_name streets street_labels");

const GREEN = setOf("park forest wood grass grassland meadow nature_reserve garden cemetery " +
  "golf_course pitch recreation_ground scrub orchard national_park village_green");

/** Classes of roads, the widest first; rails and ferries are none. */
const CLASSES = [
  setOf("highway motorway trunk"),
  setOf("major_road primary secondary"),
  setOf("medium_road tertiary"),
  setOf("minor_road minor residential unclassified service living_street other"),
  setOf("path track footway cycleway pedestrian steps bridleway"),
];
/** Widths at zoom 14, px. */
const WIDTHS = [4.5, 3.6, 2.8, 2, 1.1];
/** Width from which a road has an outline, px. */
const OUTLINED = 2.4;

/** The kind of a feature. */
const kindOf = ({ tags }) => String(tags.kind ?? tags.class ?? "");

/** The path of shapes on a canvas. */
function trace(context, shapes) {
  for (const shape of shapes) {
    context.moveTo(shape[0], shape[1]);
    for (let at = 2; at < shape.length; at += 2) context.lineTo(shape[at], shape[at + 1]);
  }
}

/** The features of layers with these names, of a type, each with its layer. */
function select(layers, names, type, test = (_it) => true) {
  return layers.filter(({ name }) => names.has(name)).flatMap((layer) =>
    layer.features.filter((it) => it.type === type && test(it)).map((it) => ({ layer, it })));
}

/** Draws on a canvas: `place(extent)` sets the transform, and returns the units of a pixel. */
export class Painter {
  canvas; palette; place;

  constructor(canvas, palette, place) {
    this.context = canvas.getContext("2d");
    Object.assign(this, { canvas, palette, place });
  }

  fill(features, colour) {
    this.context.fillStyle = colour;
    for (const { layer, it } of features) {
      this.place(layer.extent);
      this.context.beginPath();
      trace(this.context, it.shapes);
      this.context.fill("evenodd");
    }
  }

  stroke(features, colour, pixels, dash = []) {
    const { context } = this;
    Object.assign(context, { strokeStyle: colour, lineCap: "round", lineJoin: "round" });
    for (const { layer, it } of features) {
      const unit = this.place(layer.extent);
      context.lineWidth = pixels * unit;
      context.setLineDash(dash.map((length) => length * unit));
      context.beginPath();
      trace(context, it.shapes);
      context.stroke();
    }
  }

  /** Draws the layers of a tile at a zoom of the map. */
  draw(layers, zoom) {
    const { palette } = this;
    const has = (names) => layers.some(({ name }) => names.has(name));
    // A tile without land or water lies over the outlines of the countries.
    if (has(EARTH) || has(WATERS)) {
      this.context.fillStyle = has(EARTH) ? palette.sea : palette.land;
      this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    }
    this.fill(select(layers, EARTH, 3), palette.land);
    this.fill(select(layers, GREENS, 3, (it) => GREEN.has(kindOf(it))), palette.green);
    this.fill(select(layers, WATERS, 3), palette.sea);
    this.stroke(select(layers, RIVERS, 2), palette.river, width(1.4, zoom));
    if (zoom >= 14) this.fill(select(layers, BUILDINGS, 3), palette.building);
    this.stroke(select(layers, BORDERS, 2), palette.border, 1.2, [5, 4]);
    const rails = select(layers, ROADS, 2, (it) => /^(rail|transit)$/.test(kindOf(it)));
    if (zoom >= 11) this.stroke(rails, palette.rail, 1);
    this.roads(layers, zoom);
  }

  roads(layers, zoom) {
    const { palette } = this;
    const classes = CLASSES.map((names) =>
      select(layers, ROADS, 2, (it) => names.has(kindOf(it))));
    const widths = WIDTHS.map((pixels) => width(pixels, zoom));
    for (const at of [4, 3, 2, 1, 0]) {
      if (widths[at] < OUTLINED) this.stroke(classes[at], palette.casing, Math.max(widths[at], 1));
      else this.stroke(classes[at], palette.casing, widths[at] + 1.6);
    }
    for (const at of [4, 3, 2, 1, 0]) {
      if (widths[at] >= OUTLINED) this.stroke(classes[at], palette.roads[at], widths[at]);
    }
  }
}

const width = (pixels, zoom) => Math.min(pixels * 2 ** ((zoom - 14) * 0.55), 26);

/** The order of places, by their kind; other kinds come last. */
const RANKS = "country state region city locality town village suburb neighbourhood".split(" ");

/** The zoom from which streets are named, and places that are not towns. */
const STREETS_FROM = 15;
const SMALL_FROM = 12;

/** Names of a tile for a zoom: text, order, and where in units of the tile. */
export function namesOf(layers, zoom) {
  const found = [];
  const add = (layer, { tags }, rank, [x, y]) => {
    const text = tags.name ?? tags["name:latin"];
    if (typeof text === "string" && text) {
      found.push({ text: text.slice(0, 60), rank, x: x / layer.extent, y: y / layer.extent });
    }
  };
  for (const { layer, it } of select(layers, PLACES, 1)) {
    const rank = (RANKS.indexOf(kindOf(it)) + RANKS.length + 1) % (RANKS.length + 1);
    if (!it.shapes.length || (rank > 5 && zoom < SMALL_FROM)) continue;
    const people = Number(it.tags.population ?? 0) || 0;
    add(layer, it, rank - Math.min(people / 1e8, 0.9), it.shapes[0]);
  }
  if (zoom < STREETS_FROM) return found;
  for (const { layer, it } of select(layers, STREET_NAMES, 2)) {
    const longest = it.shapes.reduce((a, b) => (b.length > a.length ? b : a), []);
    const middle = 2 * Math.floor(longest.length / 4);
    if (longest.length > 2) add(layer, it, 20, longest.slice(middle, middle + 2));
  }
  return found;
}
