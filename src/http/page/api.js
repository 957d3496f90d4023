// Requests to the server, their errors, and whether the server is reachable.

/** Dispatches `unauthorized`, `offline` (`detail`: the reason) and `online`. */
export const server = new EventTarget();

let isReachable = true;

/** An error response, or an unreachable server (`status` 0). */
export class RequestError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the server answered ${status}`);
    this.status = status;
    this.code = problem.code ?? null;
    this.problem = problem;
  }
}

function setReachable(now, reason = "") {
  if (now === isReachable) return;
  isReachable = now;
  server.dispatchEvent(new CustomEvent(now ? "online" : "offline", { detail: reason }));
}

async function problemOf(response) {
  try {
    return await response.json();
  } catch {
    return { title: response.statusText };
  }
}

/**
 * Sends a request and returns the JSON; throws `RequestError`, or the abort of `signal`.
 *
 * @param {string} path
 * @param {{ signal?: AbortSignal, method?: string, body?: any }} [options]
 */
export async function request(path, { signal, method = "GET", body } = {}) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const json = body === undefined ? undefined : JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, { signal, method, headers, body: json });
  } catch (error) {
    if (signal?.aborted) throw error;
    const detail = "Cannot reach the server.";
    setReachable(false, detail);
    throw new RequestError(0, { detail, code: "offline" });
  }
  if (response.ok) {
    setReachable(true);
    return response.status === 204 ? null : response.json();
  }
  const error = new RequestError(response.status, await problemOf(response));
  // The store is not open yet, or the server is over a limit. One that is busy with other
  // summaries answers everything else.
  const isUnready = response.status === 503 && error.code !== "busy";
  setReachable(!isUnready, "The server is not ready.");
  if (response.status === 401 && path !== "/v1/login") {
    server.dispatchEvent(new Event("unauthorized"));
  }
  throw error;
}

/** Query string of the values that are neither null nor undefined. */
export function query(values) {
  const pairs = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

export const page = () => request("/v1/page");
export const login = (token) => request("/v1/login", { method: "POST", body: { token } });
export const logout = () => request("/v1/logout", { method: "POST" });

/** Maximum entries of an answer with a list. */
export const PAGE = 1000;

/** A page of devices, each with its last position. */
export const devices = (cursor, signal) =>
  request(`/v1/devices${query({ limit: PAGE, cursor, last: true })}`, { signal });

/** Sums over the span from `from` to `to`, ms: a row for each device, driver or day. */
export const summary = (by, from, to, signal) => {
  const [start, end] = [from, to].map((ms) => new Date(ms).toISOString());
  return request(`/v1/summary${query({ by, from: start, to: end })}`, { signal });
};

const iso = (ms) => (ms === undefined || ms === null ? null : new Date(ms).toISOString());

/**
 * Trips that overlap the span from `from` to `to`, ms; latest first, or earliest: `asc`. Stops too
 * with `kind` `all`.
 */
export const trips = async (token, options, signal) => {
  const { from, to, cursor, order = "desc", limit = PAGE, kind = null } = options;
  const parameters = query({ from: iso(from), to: iso(to), order, limit, cursor, kind });
  try {
    return await request(`/v1/devices/${token}/trips${parameters}`, { signal });
  } catch (error) {
    // The device of a link may have no trip yet.
    if (error.code !== "no_device") throw error;
    return { trips: [], next: null, isUnknown: true };
  }
};

/** The trip of a device that covers a time. */
export const lookup = (device, ms, signal) =>
  request(`/v1/trips/lookup${query({ device, at: new Date(ms).toISOString() })}`, { signal });

/** The trip of an id, in any id form. */
export const trip = (id, signal) => request(`/v1/trips/${encodeURIComponent(id)}`, { signal });

/** Paths of the trips of a device in a span, simplified with a tolerance of `metres`. */
export const paths = (token, { metres, ...others }, signal) =>
  request(listUrl(token, "", { ...others, path: true, simplify: metres }), { signal });

/** The trip of an id with its path, simplified with a tolerance of `metres`. */
export const path = (id, metres, signal) => {
  const parameters = query({ path: "true", simplify: metres || null });
  return request(`/v1/trips/${encodeURIComponent(id)}${parameters}`, { signal });
};

/**
 * Sums over the trips and stops of a device in the span from `from` up to `to`, ms: of all days
 * together, and of each day of a zone.
 */
export const sums = (device, { from, to, tz }, signal) => {
  const parameters = query({ by: "day", device, from: iso(from), to: iso(to), tz });
  return request(`/v1/summary${parameters}`, { signal });
};

/** A page of the trips of all devices, ordered by device and time; `options`: as the API's. */
export const fleetTrips = ({ from, to, ...others }, signal) =>
  request(fleetUrl("", { from, to, limit: PAGE, ...others }), { signal });

/** The list of trips and stops of a device in a format, such as `.csv`, with these parameters. */
export const listUrl = (token, format, /** @type {any} */ { from, to, ...others }) =>
  `/v1/devices/${token}/trips${format}${query({ from: iso(from), to: iso(to), ...others })}`;

/** The list of trips of all devices in a format. */
export const fleetUrl = (format, { from, to, ...others }) =>
  `/v1/trips${format}${query({ from: iso(from), to: iso(to), ...others })}`;

/** How a trip came to be. */
export const explanation = (id, signal) =>
  request(`/v1/trips/${encodeURIComponent(id)}/explain`, { signal });

/** The URL of a trip, in which its tags are. */
export const tripUrl = (id) => `/v1/trips/${encodeURIComponent(id)}`;

/** The URL of a device, in which its tags are. */
export const deviceUrl = (token) => `/v1/devices/${token}`;

/** The tags of a device, by key. */
export const deviceTags = async (token, signal) => {
  const { tags } = await request(`${deviceUrl(token)}/tags`, { signal });
  return Object.fromEntries(tags.map(({ key, value }) => [key, value]));
};

const tagUrl = (url, key) => `${url}/tags/${encodeURIComponent(key)}`;

/** Sets a tag of a trip or device. */
export const setTag = (url, key, value) =>
  request(tagUrl(url, key), { method: "PUT", body: { value } });

/** Removes a tag of a trip or device. */
export const removeTag = (url, key) => request(tagUrl(url, key), { method: "DELETE" });
