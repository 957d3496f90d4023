// An area of a map, which filters what a table lists: drawn with a pointer, or the view of the map.

import { announce } from "./frame.js";
import { make } from "./format.js";

const L = window.L;

/** Digits of degrees in the URL: a metre. */
const DIGITS = 5;
/** Least side of a drawn area, px: less is a click. */
const LEAST_PX = 8;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A longitude from -180 to 180. */
const wrapped = (lon) => ((((lon + 180) % 360) + 360) % 360) - 180;

/** Bounds of a map as the API's `bbox`: west, south, east and north. */
function boxOf(bounds) {
  const [south, north] = [bounds.getSouth(), bounds.getNorth()]
    .map((lat) => Math.min(Math.max(lat, -90), 90));
  const [from, to] = [bounds.getWest(), bounds.getEast()];
  const [west, east] = to - from >= 360 ? [-180, 180] : [wrapped(from), wrapped(to)];
  return [west, south, east, north].map((it) => Number(it.toFixed(DIGITS))).join(",");
}

/** A `bbox` of a URL; empty if it is not valid. */
function valid(text) {
  const numbers = (text ?? "").split(",").map(Number);
  const [west, south, east, north] = numbers;
  const isValid = numbers.length === 4 && numbers.every(Number.isFinite) && south <= north &&
    [south, north].every((it) => Math.abs(it) <= 90) &&
    [west, east].every((it) => Math.abs(it) <= 180);
  return isValid ? numbers.join(",") : "";
}

export class Area {
  onChange;

  /** `box` gets the controls; `onChange()`: another area was chosen. */
  constructor(box, onChange) {
    Object.assign(this, { onChange, map: null, bbox: "" });
    const button = (text, run) => {
      const el = make("button", "button small", text, { type: "button" });
      el.addEventListener("click", run);
      return el;
    };
    this.summary = make("summary", "button small", "Area");
    this.draw = button("Draw on the map", () => this.begin());
    this.remove = button("Remove", () => this.choose(""));
    const use = button("Use this view", () => this.choose(boxOf(this.map.getBounds())));
    const note = make("p", "muted", "Lists what touches the area.");
    this.details = make("details", "area", [this.summary,
      make("div", "area-box", [note, this.draw, use, this.remove])]);
    box.append(this.details);
    this.paint();
  }

  /** Shows the area on a map; null: the map was closed. */
  attach(map) {
    this.end();
    this.map = map;
    this.paint();
  }

  /** Takes over an area of the URL. */
  read(text) {
    this.bbox = valid(text);
    this.paint();
  }

  choose(bbox) {
    this.bbox = bbox;
    this.paint();
    announce(bbox ? "The table lists what touches the area" : "The area was removed");
    // It may have the focus, which a hidden button loses.
    if (!bbox) this.summary.focus();
    this.onChange();
  }

  /** Whether a position is in the area; null: there is none. */
  get contains() {
    if (!this.bbox) return null;
    const [west, south, east, north] = this.bbox.split(",").map(Number);
    const isBetween = west <= east
      ? (lon) => lon >= west && lon <= east
      : (lon) => lon >= west || lon <= east;
    return ({ lat, lon }) => lat >= south && lat <= north && isBetween(lon);
  }

  /** Draws the area, in the colours of the theme. */
  paint() {
    this.summary.textContent = this.bbox ? "Area: on" : "Area";
    this.remove.hidden = !this.bbox;
    this.shape?.remove();
    this.shape = null;
    if (!this.map || !this.bbox) return;
    const [west, south, east, north] = this.bbox.split(",").map(Number);
    const right = east < west ? east + 360 : east;
    const style = { color: css("--accent"), weight: 2, dashArray: "6 4", fillOpacity: 0.06 };
    // Drawn above the trips, yet clicks go to them.
    const renderer = L.svg({ pane: "overlayPane" });
    this.shape = L.rectangle([[south, west], [north, right]],
      { ...style, interactive: false, renderer }).addTo(this.map);
  }

  /** Waits for an area that is drawn with a pointer; Escape ends that. */
  begin() {
    this.end();
    const container = this.map.getContainer();
    const frame = make("div", "area-frame");
    const sheet = make("div", "area-sheet", [
      make("p", "", "Drag from one corner of the area to the other. Escape cancels."), frame]);
    this.sheet = sheet;
    container.append(sheet);
    announce("Drag from one corner of the area to the other, or press Escape and use the view");
    let from = null;
    const at = (event) => this.map.mouseEventToContainerPoint(event);
    sheet.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      event.stopPropagation();
      sheet.setPointerCapture(event.pointerId);
      from = at(event);
    });
    sheet.addEventListener("pointermove", (event) => {
      if (!from) return;
      const { min, max } = L.bounds(from, at(event));
      Object.assign(frame.style, { left: `${min.x}px`, top: `${min.y}px`,
        width: `${max.x - min.x}px`, height: `${max.y - min.y}px` });
    });
    sheet.addEventListener("pointerup", (event) => {
      if (!from) return;
      const size = L.bounds(from, at(event)).getSize();
      const corners = [from, at(event)].map((point) => this.map.containerPointToLatLng(point));
      from = null;
      if (Math.min(size.x, size.y) < LEAST_PX) return;
      this.end();
      this.choose(boxOf(L.latLngBounds(corners)));
    });
    // Leaflet would take these for a pan or a click on a trip.
    for (const type of ["mousedown", "touchstart", "click", "dblclick", "wheel"]) {
      sheet.addEventListener(type, (event) => event.stopPropagation());
    }
    this.onKey = (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      this.end();
      this.draw.focus();
    };
    document.addEventListener("keydown", this.onKey, true);
  }

  end() {
    this.sheet?.remove();
    this.sheet = null;
    if (this.onKey) document.removeEventListener("keydown", this.onKey, true);
    this.onKey = null;
  }
}
