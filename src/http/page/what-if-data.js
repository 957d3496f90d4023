// The stored samples of a day and its neighbours, from which trips under other rules are computed.

import { query, request } from "./api.js";
import { DAY, endOf, startOf, tokenOf } from "./format.js";

/** At most this many samples are read: several days of one a second. */
const MAX_SAMPLES = 500_000;

/**
 * The span of the samples that decide the trips and stops of a day of the page's zone, ms: whole
 * UTC days, as no trip touches more than two of them, and one more on each side.
 */
export function spanOf(day) {
  const first = Math.floor(startOf(day) / DAY) - 1;
  const last = Math.floor((endOf(day) - 1) / DAY) + 1;
  return { from: first * DAY, upto: (last + 1) * DAY - 1 };
}

/** Reads the samples of a span, as columns for the module. */
export async function samplesIn(device, { from, upto }, signal) {
  const columns = { time: [], lat: [], lon: [], speed_mps: [], ignition: [] };
  const parameters = {
    from: new Date(from).toISOString(),
    to: new Date(upto).toISOString(),
    kind: "all",
    order: "asc",
    fields: "path",
    limit: 1000,
  };
  let cursor = null;
  do {
    const url = `/v1/devices/${tokenOf(device)}/trips${query({ ...parameters, cursor })}`;
    const page = await request(url, { signal });
    for (const { path } of page.trips) add(columns, path, { from, upto });
    cursor = page.next;
    if (columns.time.length > MAX_SAMPLES) {
      throw new Error(`the day and its neighbours have more than ${MAX_SAMPLES} samples`);
    }
  } while (cursor);
  return columns;
}

/** Adds the samples of a path that lie within the span. */
function add(columns, path, { from, upto }) {
  path.times.forEach((text, at) => {
    const ms = Date.parse(text);
    if (ms < from || ms > upto) return;
    const [lon, lat] = path.coordinates[at];
    columns.time.push(ms);
    columns.lat.push(lat);
    columns.lon.push(lon);
    columns.speed_mps.push(path.speed_mps[at]);
    columns.ignition.push(path.ignition[at]);
  });
}
