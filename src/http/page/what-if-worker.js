// Trips of samples under given rules, computed by tstar's core as WebAssembly. A worker has a
// policy of its own, which allows that; the page's does not.

import { load } from "./tstar.js";

const loaded = load(new URL("./tstar.wasm", import.meta.url));
let samples = null;

/** Trips and stops of the samples under these rules, and their sums over a span. */
function trips(module, rules, { from, upto }) {
  const tracker = new module.Tracker(rules);
  try {
    const { refused } = tracker.absorb({ device: "what-if", ...samples });
    const sums = tracker.sums(from, upto);
    return { segments: tracker.segments(), sums, refused: refused.length };
  } finally {
    tracker.free();
  }
}

addEventListener("message", async ({ data }) => {
  const { call } = data;
  try {
    const module = await loaded;
    samples = data.samples ?? samples;
    const began = performance.now();
    const results = data.rules.map((rules) => trips(module, rules, data.span));
    postMessage({ call, results, ms: performance.now() - began });
  } catch (error) {
    postMessage({ call, error: error.message });
  }
});
