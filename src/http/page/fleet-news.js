// What late samples did to trips, in a sentence: they joined two, or split one.

import { titleOf } from "./fleet-data.js";
import { make, minute, plural, visible } from "./format.js";
import { announce, toast } from "./frame.js";

/** Time over which changes share a message, ms. */
const GATHER_MS = 1500;
/** Minimum time between two messages, ms. */
const PAUSE_MS = 10_000;

export class FleetNews {
  onFind; data;

  /** `data`: the devices; `onFind(id)`: the trip of an id has to be shown. */
  constructor(data, onFind) {
    Object.assign(this, { data, onFind });
    this.waiting = [];
    this.timer = 0;
    this.saidAt = -Infinity;
  }

  /** Takes a change event; only those of trips that were joined or split matter. */
  apply(event) {
    const { type, kind, absorbed, trip } = event;
    const isJoin = type === "merged" && absorbed.length > 0;
    // A long event comes in parts.
    if (event.part > 1) return;
    if (kind !== "trip" || !(isJoin || ["split", "revived"].includes(type))) return;
    this.waiting.push({ type, id: event.id, absorbed, device: trip.device_id,
      startMs: Date.parse(trip.start_time) });
    const wait = Math.max(GATHER_MS, this.saidAt + PAUSE_MS - performance.now());
    this.timer ||= setTimeout(() => this.say(), wait);
  }

  say() {
    this.timer = 0;
    this.saidAt = performance.now();
    const news = this.waiting.splice(0);
    const [first] = news;
    const id = first.type === "merged" ? first.absorbed[0] : first.id;
    const words = news.length === 1 ? this.sentence(first) : this.summary(news);
    announce(words.join(""));
    const [name, ...rest] = words;
    toast([make("b", "", make("bdi", "", name)), ...rest],
      { text: "Show the trip", run: () => this.onFind(id) });
  }

  nameOf(device) {
    const entry = this.data.get(device);
    return visible(entry ? titleOf(entry) : device);
  }

  /** The device, and what happened. */
  sentence({ type, device, absorbed, startMs }) {
    const at = minute(startMs);
    const what = {
      merged: `: late samples joined ${plural(absorbed.length + 1, "trip")} into one, which began ` +
        `at ${at}. ${absorbed.length === 1 ? "The old id still finds" : "The old ids still find"} ` +
        "it.",
      split: `: late samples split a trip. The part from ${at} on has an id of its own; the old ` +
        "id still finds the first part.",
      revived: `: late samples split a trip. The part from ${at} on has its old id back; both ids ` +
        "still work.",
    };
    return [this.nameOf(device), what[type]];
  }

  /** What happened to several trips. */
  summary(news) {
    const devices = [...new Set(news.map(({ device }) => device))];
    const joins = news.filter(({ type }) => type === "merged").length;
    const splits = news.length - joins;
    const often = (number) => ["once", "twice"][number - 1] ?? `${number} times`;
    const what = [];
    if (joins) what.push(`joined trips ${often(joins)}`);
    if (splits) what.push(`split trips ${often(splits)}`);
    const others = devices.length - 1;
    return [this.nameOf(devices[0]), `${others ? ` and ${plural(others, "other device")}` : ""}: ` +
      `late samples ${what.join(" and ")}. Every old id still works.`];
  }
}
