// What is set by choice and kept in the URL: the time zone, the unit of distances, and colours.

import { ownZone, setZone, zone } from "./zone.js";

/** Units of distance and speed, by the value of `units` in the URL. */
export const UNITS = {
  km: { metres: 1000, name: "km", small: 1, smallName: "m", speed: "km/h" },
  mi: { metres: 1609.344, name: "mi", small: 0.3048, smallName: "ft", speed: "mph" },
};

/** Dispatches `colour` when the colour of paths was chosen, `change` for any other setting. */
export const settings = new EventTarget();

let units = "km";
let isBySpeed = false;

/** The units of distance and speed. */
export const unit = () => UNITS[units];

/** Whether paths have the colours of their speeds. */
export const bySpeed = () => isBySpeed;

/** The settings that are not defaults, as parameters of the URL. */
function parameters() {
  const found = {};
  if (zone() !== ownZone()) found.tz = zone();
  if (units !== "km") found.units = units;
  if (isBySpeed) found.colour = "speed";
  return found;
}

/** A fragment of a URL with the settings that are not defaults. */
export function withSettings(hash) {
  const set = Object.entries(parameters()).map(([name, value]) => `${name}=${value}`);
  const parts = [hash.replace(/^#/, ""), ...set].filter(Boolean);
  return parts.length ? `#${parts.join("&")}` : "";
}

/** The parameters of a fragment, or of that of the URL. */
export const hashParameters = (hash = location.hash) =>
  new URLSearchParams(hash.slice(1).replaceAll("+", "%2B"));

/** Takes over the settings of the URL; returns whether one of them has changed. */
export function readSettings() {
  const found = hashParameters();
  const before = JSON.stringify(parameters());
  if (!setZone(found.get("tz") ?? ownZone())) setZone(ownZone());
  units = found.get("units") === "mi" ? "mi" : "km";
  isBySpeed = found.get("colour") === "speed";
  return JSON.stringify(parameters()) !== before;
}

/** Puts the settings into the URL, and reports that one has changed. */
function change(event = "change") {
  const kept = location.hash.slice(1).split("&")
    .filter((part) => !/^(tz|units|colour)=/.test(part));
  history.replaceState(null, "", withSettings(kept.join("&")) || location.pathname);
  settings.dispatchEvent(new Event(event));
}

/** Shows paths in the colours of their speeds, or in one. */
export function colourBySpeed(isOn) {
  isBySpeed = isOn;
  change("colour");
}

/** Sets up the two lists of choices in the header. */
export function setUpSettings() {
  const get = (id) => document.getElementById(id);
  const show = () => {
    const own = new Option(ownZone(), ownZone());
    const others = ["UTC", zone()].filter((name, at, all) =>
      name !== ownZone() && all.indexOf(name) === at);
    get("tz").replaceChildren(own, ...others.map((name) => new Option(name, name)));
    get("tz").value = zone();
    get("units").value = units;
  };
  get("tz").addEventListener("change", () => {
    setZone(get("tz").value);
    change();
  });
  get("units").addEventListener("change", () => {
    units = get("units").value;
    change();
  });
  settings.addEventListener("change", show);
  show();
}
