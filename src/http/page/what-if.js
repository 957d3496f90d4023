// What if the rules were others: the lane, the table and the sums of the shown day, computed here
// from the stored samples. Loaded when it is first opened.

import { render, showTable } from "./device.js";
import {
  count, distance, duration, endOf, inUnit, make, plural, startOf, zone,
} from "./format.js";
import { announce } from "./frame.js";
import { unit } from "./settings.js";
import { get, parts, state } from "./state.js";
import { isStop, timed } from "./trips.js";
import { samplesIn, spanOf } from "./what-if-data.js";

const MINUTE = 60_000;

/** Delay after a key press in a field, ms. */
const TYPING_MS = 250;

/** The fields: what is typed from a rule, and the rule of what is typed. */
const FIELDS = {
  max_gap_ms: {
    label: "Longest gap in a trip, min",
    hint: "max_gap",
    show: (ms) => ms / MINUTE,
    read: (value) => Math.round(value * MINUTE),
    limits: { min: 0.05, max: 360 },
  },
  min_stop_ms: {
    label: "Standing that ends a trip, min",
    hint: "min_stop; empty: standing ends none",
    show: (ms) => (ms === null ? "" : ms / MINUTE),
    read: (value) => (value === null ? null : Math.round(value * MINUTE)),
    limits: { min: 0.05, max: 720 },
    isOptional: true,
  },
  stop_speed_mps: {
    label: () => `Standing is slower than, ${unit().speed}`,
    hint: "stop_speed",
    show: (mps) => Number(inUnit(mps).toFixed(2)),
    read: (value) => (value * unit().metres) / 3600,
    limits: { min: 0, max: 1000 },
  },
};

/** A duration to the minute, as the sums show it. */
const minutes = (s) => duration(Math.round(s / 60) * MINUTE);

/** The rules of the store, for samples that it has accepted. */
function storedRules() {
  const { max_gap_ms, rules } = state.page;
  return { max_gap_ms, ...rules, keep_zero_position: true, min_time_ms: 0 };
}

/** A trip or stop for lanes and table; it has no id, which depends on the order of arrival. */
const shownOf = (segment) => ({
  ...timed(segment), id: `what-if ${segment.start_time}`, starMs: NaN, retired: [], isWhatIf: true,
});

class WhatIf {
  constructor() {
    this.isOpen = false;
    this.calls = 0;
    /** The day whose samples are read or were: the page may show another one since. */
    this.wanted = null;
    this.loaded = null;
    this.box = get("what-if-box");
    this.toggle = get("what-if");
    this.build();
  }

  build() {
    document.head.append(make("link", "", [], { rel: "stylesheet", href: "/assets/what-if.css" }));
    this.inputs = Object.fromEntries(Object.entries(FIELDS).map(([rule, { limits }]) => {
      const kind = { type: "number", step: "any", id: `if-${rule}` };
      const input = make("input", "", [], { ...kind, ...limits });
      input.addEventListener("input", () => this.soon());
      return [rule, input];
    }));
    this.labels = {};
    const fields = Object.entries(FIELDS).map(([rule, { hint }]) => {
      this.labels[rule] = make("span", "label");
      return make("label", "", [this.labels[rule], this.inputs[rule],
        make("span", "muted", hint)], { for: `if-${rule}` });
    });
    this.status = make("p", "what-if-says", [], { role: "status" });
    this.again = make("button", "button small", "Read the samples again", { type: "button" });
    this.again.addEventListener("click", () => this.load());
    const stored = make("button", "button small", "The stored rules", { type: "button" });
    stored.addEventListener("click", () => this.fill());
    const close = make("button", "button small", "Back to what is stored", { type: "button" });
    close.addEventListener("click", () => this.close());
    const title = make("h3", "", ["What if ", make("b", "not-stored", "not what is stored")]);
    this.box.replaceChildren(title, make("div", "fields", fields), this.status,
      make("div", "what-if-tools", [stored, this.again, close]));
  }

  /** Opens or closes it. */
  switch() {
    if (this.isOpen) this.close();
    else this.open();
  }

  open() {
    this.isOpen = true;
    this.worker = new Worker("/assets/what-if-worker.js", { type: "module" });
    this.worker.addEventListener("message", ({ data }) => this.answered(data));
    this.worker.addEventListener("error", () => this.fault("the module cannot be loaded"));
    this.toggle.setAttribute("aria-expanded", "true");
    this.box.hidden = false;
    this.fill();
    this.follow();
    this.inputs.max_gap_ms.focus();
  }

  close() {
    this.isOpen = false;
    this.loading?.abort();
    this.worker.terminate();
    this.wanted = this.loaded = null;
    this.box.hidden = true;
    this.toggle.setAttribute("aria-expanded", "false");
    this.toggle.focus();
    this.show(null);
  }

  /** Fills in the rules of the store. */
  fill() {
    const rules = storedRules();
    this.speeds = unit().speed;
    for (const [rule, { label, show }] of Object.entries(FIELDS)) {
      this.labels[rule].textContent = typeof label === "string" ? label : label();
      this.inputs[rule].value = show(rules[rule]);
    }
    if (this.loaded) this.compute();
  }

  /** The rules of the fields; null, with a message, if one is not valid. */
  rules() {
    const rules = storedRules();
    for (const [rule, { read, show, isOptional }] of Object.entries(FIELDS)) {
      const input = this.inputs[rule];
      const isEmpty = input.value === "" && !input.validity.badInput;
      if (!input.validity.valid || (isEmpty && !isOptional)) {
        const { min, max } = FIELDS[rule].limits;
        this.status.textContent = `${this.labels[rule].textContent}: write ${min} to ${max}.`;
        return null;
      }
      // What was not changed is the store's, to the last digit.
      if (input.value === String(show(rules[rule]))) continue;
      rules[rule] = read(isEmpty ? null : Number(input.value));
    }
    return rules;
  }

  /** Follows the page: another day is read, and a change of the shown one is said. */
  follow() {
    const { first, last } = parts.timeline.tableDays;
    if (!this.isOpen || first === null) return;
    if (last > first) this.wait();
    else if (this.wanted !== this.shown()) this.load();
    else if (this.speeds !== unit().speed) this.fill();
    else if (this.loaded) this.again.hidden = this.loaded.key === this.key(this.loaded.day);
  }

  /** Shows what is stored of several days, until a single one is chosen. */
  wait() {
    this.loading?.abort();
    this.wanted = this.loaded = null;
    this.again.hidden = true;
    this.status.textContent = "Only a single day is shown under other rules: choose one.";
    if (parts.timeline.whatIf) this.show(null);
  }

  /** The day that the page shows. */
  shown = () => `${zone()} ${parts.timeline.day} ${state.device}`;

  key = (day) => state.trips.inDays(day, day).map(({ id, version }) => `${id} ${version}`).join();

  /** Reads the samples of the shown day. */
  async load() {
    this.loading?.abort();
    const loading = new AbortController();
    this.loading = loading;
    const { device } = state;
    const { day } = parts.timeline;
    this.wanted = this.shown();
    this.loaded = null;
    this.again.hidden = true;
    this.status.textContent = "Reading the stored samples…";
    if (parts.timeline.whatIf) this.show(null);
    try {
      const key = this.key(day);
      const samples = await samplesIn(device, spanOf(day), loading.signal);
      if (loading.signal.aborted) return;
      this.loaded = { day, key, samples, isSent: false };
      this.compute();
    } catch (error) {
      if (!loading.signal.aborted) this.fault(error.message);
    } finally {
      if (this.loading === loading) this.loading = null;
    }
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.compute(), TYPING_MS);
  }

  /** Has the worker compute the trips under the rules of the fields, and under the store's. */
  compute() {
    if (!this.isOpen || !this.loaded) return;
    const rules = this.rules();
    if (!rules) return;
    const { day, samples, isSent } = this.loaded;
    this.calls += 1;
    const span = { from: startOf(day), upto: endOf(day) - 1 };
    this.worker.postMessage({
      call: this.calls, span, rules: [rules, storedRules()], samples: isSent ? null : samples,
    });
    this.loaded.isSent = true;
  }

  answered({ call, results, error, ms }) {
    if (call !== this.calls || !this.loaded) return;
    if (error) {
      this.fault(error);
      return;
    }
    const { day } = this.loaded;
    const [from, to] = [startOf(day), endOf(day)];
    const [found, stored] = results.map(({ segments, ...others }) => ({
      ...others,
      segments: segments.map(shownOf).filter((it) => it.startMs < to && it.endMs >= from),
    }));
    this.show({ day, ...found });
    this.say(found, stored, ms);
  }

  /** Shows trips and stops instead of the stored ones; null: the stored ones. */
  show(whatIf) {
    parts.timeline.whatIf = whatIf;
    render();
    showTable();
  }

  say(found, stored, ms) {
    const { samples, day } = this.loaded;
    const part = (now, before) => (now === before ? now : `${now} instead of ${before}`);
    const [now, before] = [found.sums.trips, stored.sums.trips];
    const facts = [
      plural(now, "trip") + (now === before ? "" : ` instead of ${count(before)}`),
      part(distance(found.sums.distance_m), distance(stored.sums.distance_m)),
      `moving ${part(...[found, stored].map((it) => minutes(it.sums.moving_s)))}`,
    ];
    const text = `${facts.join(" · ")}. Computed here in ${Math.round(ms)} ms, from the ` +
      `${count(samples.time.length)} samples that are stored of this day and its neighbours.`;
    const shape = (segments) =>
      segments.map(({ startMs, endMs, kind }) => `${startMs} ${endMs} ${kind}`).join();
    const isAsStored = shape(stored.segments) === shape(state.trips.inDays(day, day));
    const notes = [];
    if (found.refused) notes.push(`${count(found.refused)} or more samples do not fit in a trip.`);
    if (!isAsStored) {
      notes.push("Under the rules of the store these samples give other trips than it has: some " +
        "were refused or erased, or have arrived since.");
    }
    this.status.textContent = [text, ...notes].join(" ");
    this.again.hidden = isAsStored;
    announce(`What if: ${facts.join(", ")}`);
  }

  fault(message) {
    this.show(null);
    this.status.textContent = `Cannot compute the trips: ${message}`;
    this.again.hidden = false;
  }
}

/** Opens it, or closes it again. */
export function switchWhatIf() {
  parts.whatIf ??= new WhatIf();
  parts.whatIf.switch();
}
