// The server: requests, its problems, and whether it can be reached.

/** Says `unauthorized`, `offline` (with why), `online`. */
export const server = new EventTarget();

let reachable = true;

/** What the server refused, or that it cannot be reached (`status` 0). */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the server answered ${status}`);
    this.status = status;
    this.code = problem.code ?? null;
    this.problem = problem;
  }
}

function reached(now, why = "") {
  if (now === reachable) return;
  reachable = now;
  server.dispatchEvent(new CustomEvent(now ? "online" : "offline", { detail: why }));
}

async function problemOf(answer) {
  try {
    return await answer.json();
  } catch {
    return { title: answer.statusText };
  }
}

/** The JSON of an answer; throws `Refused`, or the abort of `signal`. */
export async function ask(path, { signal, method = "GET", body } = {}) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const sent = body === undefined ? undefined : JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(path, { signal, method, headers, body: sent });
  } catch (fault) {
    if (signal?.aborted) throw fault;
    const detail = "The server cannot be reached.";
    reached(false, detail);
    throw new Refused(0, { detail, code: "offline" });
  }
  // It opens its store still, or has too much to do.
  if (answer.status === 503) reached(false, "The server is not ready.");
  else reached(true);
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const problem = await problemOf(answer);
  const refused = new Refused(answer.status, problem);
  if (answer.status === 401 && path !== "/v1/login") {
    server.dispatchEvent(new Event("unauthorized"));
  }
  throw refused;
}

/** `?a=1&b=2` of what is neither null nor undefined. */
export function query(values) {
  const pairs = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

export const page = () => ask("/v1/page");
export const login = (token) => ask("/v1/login", { method: "POST", body: { token } });
export const logout = () => ask("/v1/logout", { method: "POST" });

export const devices = (cursor, limit, signal) =>
  ask(`/v1/devices${query({ limit, cursor })}`, { signal });

/** Trips that overlap a range of ms, the latest first. */
export const trips = (token, { from, to, cursor, limit = 1000 }, signal) => {
  const iso = (ms) => (ms === undefined || ms === null ? null : new Date(ms).toISOString());
  const asked = query({ from: iso(from), to: iso(to), order: "desc", limit, cursor });
  return ask(`/v1/devices/${token}/trips${asked}`, { signal });
};

/** The trip of a device that covers a time. */
export const lookup = (device, ms, signal) =>
  ask(`/v1/trips/lookup${query({ device, at: new Date(ms).toISOString() })}`, { signal });

/** The trip that any form of an id finds. */
export const trip = (id, signal) => ask(`/v1/trips/${encodeURIComponent(id)}`, { signal });

/** The same with its path, to so many metres. */
export const path = (id, metres, signal) => {
  const asked = query({ path: "true", simplify: metres || null });
  return ask(`/v1/trips/${encodeURIComponent(id)}${asked}`, { signal });
};
