// Formats times, lengths and ids for people, in the zone and the units of the page.

import { unit } from "./settings.js";
import {
  DAY, clockPosition, dayOf, endOf, localTime, offsetIfTwice, startOf, zone,
} from "./zone.js";

export { DAY, clockPosition, dayOf, endOf, startOf, zone };

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** `2026-11-20`. */
export const isoDay = (day) => new Date(day * DAY).toISOString().slice(0, 10);

/** `Fri 2026-11-20`. */
export const dayName = (day) => `${DAYS[(((day + 4) % 7) + 7) % 7]} ${isoDay(day)}`;

const time = (ms) => new Date(localTime(ms)).toISOString().slice(11, 19);

/** `14:03:20`, with its offset from UTC where the clocks of the day show that twice. */
export const clock = (ms) => time(ms) + offsetIfTwice(ms);

/** `14:03`, as `clock`. */
export const minute = (ms) => time(ms).slice(0, 5) + offsetIfTwice(ms);

/** `2026-11-20 14:03:20`, with ms unless they are 0, as `clock`. */
export function moment(ms) {
  const text = new Date(localTime(ms)).toISOString().replace("T", " ").slice(0, -1);
  return (text.endsWith(".000") ? text.slice(0, -4) : text) + offsetIfTwice(ms);
}

export function duration(ms) {
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return s % 60 ? `${min} min ${s % 60} s` : `${min} min`;
  const h = Math.floor(min / 60);
  if (h < 48) return min % 60 ? `${h} h ${min % 60} min` : `${h} h`;
  return `${Math.floor(h / 24)} d ${h % 24} h`;
}

export const count = (n) => n.toLocaleString("en");

/** `1 trip`, `2 trips`. */
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

export function distance(m) {
  const { metres, name, small, smallName } = unit();
  const long = m / metres;
  const isShort = Math.abs(long) < (small === 1 ? 1 : 0.1);
  if (isShort) return `${count(Math.round(m / small))} ${smallName}`;
  return `${long.toLocaleString("en", { maximumFractionDigits: long < 100 ? 1 : 0 })} ${name}`;
}

/** A speed in the unit of the page. */
export const inUnit = (mps) => (mps * 3600) / unit().metres;

export const speed = (mps) =>
  mps === null || mps === undefined ? "–" : `${inUnit(mps).toFixed(1)} ${unit().speed}`;

/** Replaces invisible characters and those that change the text direction by their codes. */
export function visible(text) {
  const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{DI}]/gu;
  return text.replace(hidden, (c) => {
    const code = c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `⟨U+${code}⟩`;
  });
}

/** The token of a device id, as in URL paths and trip ids. */
export function tokenOf(device) {
  const dots = /^\.+$/.test(device);
  let token = "";
  for (const byte of encoder.encode(device)) {
    const c = String.fromCharCode(byte);
    const plain = /[A-Za-z0-9._-]/.test(c) && !(dots && c === ".");
    token += plain ? c : `~${byte.toString(16).padStart(2, "0")}`;
  }
  return token;
}

/** The device id of a token. */
export function deviceOf(token) {
  const bytes = [];
  for (let at = 0; at < token.length; at += 1) {
    if (token[at] === "~") {
      bytes.push(Number.parseInt(token.slice(at + 1, at + 3), 16));
      at += 2;
    } else {
      bytes.push(token.charCodeAt(at));
    }
  }
  return decoder.decode(new Uint8Array(bytes));
}

/** The `t_star` of a text id, ms; NaN if the id is not valid. */
export function starOf(id) {
  const [, y, mo, d, h, mi, s] =
    /~(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d\.\d{3})Z$/.exec(id) ?? [];
  return Date.parse(`${y}-${mo}-${d}T${h}:${mi}:${s}Z`);
}

/**
 * An HTML element with class, content (strings are never parsed as HTML) and attributes.
 *
 * @param {string} tag
 * @param {string | Node | (string | Node)[]} [content]
 * @param {Record<string, any>} [attributes]
 * @returns {any}
 */
export function make(tag, className = "", content = [], attributes = {}) {
  const el = document.createElement(tag);
  if (className) el.className = className;
  el.append(...[content].flat());
  for (const [name, value] of Object.entries(attributes)) el.setAttribute(name, value);
  return el;
}

/**
 * An SVG element.
 *
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 */
export function draw(tag, attributes = {}) {
  const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) el.setAttribute(name, value);
  return el;
}
