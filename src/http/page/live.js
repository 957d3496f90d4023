// Changes as they happen: server-sent events, else questions every few seconds.

import { server } from "./api.js";

const POLL_MS = 3000;
/** After so many questions the stream is tried again. */
const POLLS = 8;
const TYPES = ["started", "grown", "merged", "forgotten"];

/**
 * Calls `onEvent(event)` for each change, or `onPoll()` every few seconds where there is no stream;
 * `onState("stream" | "poll" | "wait")` says which.
 */
export class Live {
  constructor({ onEvent, onPoll, onState }) {
    Object.assign(this, { onEvent, onPoll, onState });
    this.source = null;
    this.timer = 0;
  }

  start(hasStream) {
    this.stop();
    if (hasStream) this.listen();
    else this.poll();
  }

  stop() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.timer);
    this.timer = 0;
  }

  listen() {
    const source = new EventSource("/v1/changes/stream");
    this.source = source;
    let opened = false;
    source.onopen = () => {
      this.onState("stream");
      // What happened between the last event and now is asked for once.
      if (opened) this.onPoll().catch(() => {});
      opened = true;
    };
    source.onerror = () => {
      if (this.source !== source) return;
      if (source.readyState === EventSource.CLOSED) {
        this.stop();
        this.poll();
      } else {
        this.onState("wait");
      }
    };
    for (const type of TYPES) {
      source.addEventListener(type, (message) => this.onEvent(JSON.parse(message.data)));
    }
  }

  poll() {
    this.onState("poll");
    let polls = 0;
    const again = async () => {
      if (!document.hidden) await this.onPoll().catch(() => {});
      polls += 1;
      // Stopped in the meantime: no more.
      if (!this.timer) return;
      // The feed may have come meanwhile.
      if (polls === POLLS) this.start(true);
      else this.timer = setTimeout(again, POLL_MS);
    };
    this.timer = setTimeout(again, POLL_MS);
  }
}

/** Asks `probe` again, ever later, while the server is away. */
export function whileAway(probe) {
  let wait = 1000;
  let timer = 0;
  const again = () => {
    timer = setTimeout(() => {
      wait = Math.min(wait * 2, 15_000);
      probe().catch(() => again());
    }, wait);
  };
  server.addEventListener("offline", () => {
    wait = 1000;
    clearTimeout(timer);
    again();
  });
  server.addEventListener("online", () => clearTimeout(timer));
}
