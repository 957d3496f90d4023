// Replay of a trip: a time that runs, or that is chosen, for map, chart and lane together.

import { clock, make, moment, zone } from "./format.js";

/** Times as fast as it was. */
const SPEEDS = [1, 10, 30, 60, 120, 300];
const STEP_MS = 10_000;
/** Where motion is to be reduced, the replay moves once in this time, ms. */
const CALM_MS = 1000;

const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Replay {
  trip; onTime; onPlay;

  /** `trip`: which; `onTime(ms | null)`: the time to show; `onPlay()`: it is about to run. */
  constructor(trip, { onTime, onPlay }) {
    Object.assign(this, { trip, onTime, onPlay });
    this.ms = trip.startMs;
    this.isActive = false;
    this.frame = 0;
    this.timer = 0;
    this.button = make("button", "button small", "Play", { type: "button" });
    this.slider = make("input", "scrub", [], {
      type: "range", min: 0, max: Math.ceil((trip.endMs - trip.startMs) / 1000), step: 1,
      value: 0, "aria-label": "Time of the replay",
    });
    this.speed = make("select", "", SPEEDS.map((speed) => new Option(`${speed}×`, String(speed))),
      { "aria-label": "Speed of the replay" });
    this.speed.value = "60";
    this.now = make("output", "replay-now", clock(this.ms));
    this.root = make("div", "replay", [this.button, this.slider, this.speed, this.now],
      { role: "group", "aria-label": "Replay" });
    this.button.addEventListener("click", () => (this.isPlaying ? this.pause() : this.play()));
    this.slider.addEventListener("input", () =>
      this.seek(trip.startMs + Number(this.slider.value) * 1000));
    this.slider.addEventListener("keydown", (event) => this.key(event));
    this.show();
  }

  get isPlaying() {
    return this.frame !== 0 || this.timer !== 0;
  }

  key(event) {
    const steps = {
      ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -6, PageUp: 6,
    };
    if (event.key === " ") this.button.click();
    else if (steps[event.key]) this.seek(this.ms + steps[event.key] * STEP_MS);
    else return;
    event.preventDefault();
  }

  /** Shows a time of the trip. */
  seek(ms) {
    this.isActive = true;
    this.ms = Math.min(Math.max(ms, this.trip.startMs), this.trip.endMs);
    this.show();
    this.onTime(this.ms);
  }

  async play() {
    await this.onPlay();
    if (this.ms >= this.trip.endMs) this.ms = this.trip.startMs;
    this.button.textContent = "Pause";
    let last = performance.now();
    const advance = (now) => {
      this.seek(this.ms + (now - last) * Number(this.speed.value));
      last = now;
      if (this.ms >= this.trip.endMs) this.pause();
      return this.isPlaying;
    };
    if (calm.matches) {
      this.timer = setInterval(() => advance(performance.now()), CALM_MS);
      return;
    }
    const step = (now) => {
      if (advance(Math.max(now, last))) this.frame = requestAnimationFrame(step);
    };
    this.frame = requestAnimationFrame(step);
  }

  pause() {
    cancelAnimationFrame(this.frame);
    clearInterval(this.timer);
    this.frame = this.timer = 0;
    this.button.textContent = "Play";
  }

  /** Ends the replay: nothing is marked any more. */
  stop() {
    this.pause();
    if (this.isActive) this.onTime(null);
    this.isActive = false;
  }

  show() {
    const text = clock(this.ms);
    if (this.now.value === text) return;
    this.now.value = text;
    this.slider.value = Math.round((this.ms - this.trip.startMs) / 1000);
    this.slider.setAttribute("aria-valuetext", text);
    this.now.title = `${moment(Math.floor(this.ms / 1000) * 1000)} ${zone()}`;
  }
}
