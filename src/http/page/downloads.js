// Links to lists of trips and stops in the formats of the API, in parts where one answer is too
// small for all.

import { PAGE } from "./api.js";
import { count, make } from "./format.js";

/** The formats, and whether they have the samples of the trips. */
const FORMATS = [
  [".csv", "CSV", false],
  [".geojson", "GeoJSON", true],
  [".gpx", "GPX", true],
  [".ndjson", "NDJSON", false],
  [".parquet", "Parquet", true],
];

/** Size of an answer with a list, bytes, as the server estimates it; a little less. */
const MAX_BYTES = 7.5 * 2 ** 20;
const SAMPLE_BYTES = 96;
const SEGMENT_BYTES = 2000;
/** Maximum number of links to the parts of one format. */
const MAX_PARTS = 10;

const encoder = new TextEncoder();
const DIGITS = "0123456789abcdefghijklmnopqrstuv";

/** A place in a list, as the API's cursor: a device and a time of it. */
export function cursorAt(device, ms) {
  const name = encoder.encode(device);
  const bytes = new Uint8Array(name.length + 9);
  bytes.set(name);
  // With the sign bit flipped, the order of the bytes is that of time.
  const time = BigInt.asUintN(64, BigInt(ms)) ^ (1n << 63n);
  new DataView(bytes.buffer).setBigUint64(name.length + 1, time);
  let [text, bits, value] = ["", 0, 0];
  for (const byte of bytes) {
    value = (value << 8) | byte;
    for (bits += 8; bits >= 5; bits -= 5) text += DIGITS[(value >> (bits - 5)) & 31];
    value &= (1 << bits) - 1;
  }
  return bits ? text + DIGITS[(value << (5 - bits)) & 31] : text;
}

/** Cuts rows, in the order of the API, into parts that fit into an answer each. */
function partsOf(rows, hasSamples) {
  const parts = [];
  let [part, bytes] = [null, 0];
  for (const row of rows) {
    const size = SEGMENT_BYTES + row.retired.length * (row.device_id.length * 3 + 32) +
      (hasSamples ? row.samples * SAMPLE_BYTES : 0);
    if (!part || part.number === PAGE || bytes + size > MAX_BYTES) {
      parts.push((part = { first: row, number: 0 }));
      bytes = 0;
    }
    part.number += 1;
    bytes += size;
  }
  return parts;
}

/**
 * What downloads rows, which are in the order of the API. `url(format, options)` leads to them;
 * `name` is that of the files; `command` writes what is too much for links.
 */
export function downloads(rows, { url, name, command }) {
  const links = [];
  const tooMany = [];
  for (const [format, label, hasSamples] of FORMATS) {
    const parts = partsOf(rows, hasSamples);
    if (parts.length > MAX_PARTS) tooMany.push(label);
    else links.push(...linksOf(parts, { format, label, url, name }));
  }
  if (!links.length && !tooMany.length) return [];
  const words = tooMany.length
    ? [make("p", "muted", [`${tooMany.join(", ")}: more than ${MAX_PARTS} parts. Choose fewer ` +
      "days, or export them with ", make("code", "", command), "."])]
    : [];
  return [make("span", "muted", "Download:"), ...links, ...words];
}

/** A link to all rows, or the name of the format and links to its parts. */
function linksOf(parts, { format, label, url, name }) {
  if (!parts.length) return [];
  let before = 0;
  const links = parts.map(({ first, number }, at) => {
    const isWhole = parts.length === 1;
    // From the first row on: the first part begins where the span does.
    const cursor = at ? cursorAt(first.device_id, first.startMs) : null;
    const link = make("a", "button small", isWhole ? label : String(at + 1), {
      href: url(format, { limit: isWhole ? PAGE : number, cursor }),
      download: `${name}${isWhole ? "" : `-${at + 1}`}${format}`,
    });
    if (!isWhole) {
      const rows = `rows ${count(before + 1)} to ${count(before + number)}`;
      link.title = `Part ${at + 1} of ${parts.length}, ${rows}`;
      link.setAttribute("aria-label", `${label}, part ${at + 1} of ${parts.length}`);
    }
    before += number;
    return link;
  });
  return [links.length === 1 ? links[0] : make("span", "parts", [`${label} `, ...links])];
}
