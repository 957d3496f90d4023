// A program that uses the package with its types.

import { load, type Lookup, type Segment } from "tstar";

const { Tracker, id, decodePath } = await load();
const tracker = new Tracker({ max_gap_ms: 600_000, min_stop_ms: null });
const start = Date.parse("2026-11-20T20:00:00Z");
const { counts, refused } = tracker.absorb({
  device: ["truck-17", "truck-17", "bus"],
  time: Float64Array.of(start, start + 60_000, start),
  lat: [52.5, 52.51, 91],
  lon: [13.4, 13.4, 13.4],
  ignition: [true, null, true],
});
const segments: Segment[] = tracker.segments();
const found: Lookup | null = tracker.find(id.forms("truck-17", start).key);
const bytes = tracker.pathBytes(segments[0]!.id);
const path = bytes && decodePath(bytes);
if (counts.new !== 1 || refused[0]?.reason !== "out_of_range" || found?.match !== "current" ||
    path?.time.length !== 2) {
  throw new Error(JSON.stringify({ counts, refused, found, path }));
}
console.log(segments[0]!.id);
