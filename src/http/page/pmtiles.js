// Reads a PMTiles archive (version 3) and its vector tiles (MVT). Both may be broken or hostile:
// every length is checked, and what is unpacked is bounded.

import { server } from "./api.js";

/** Bytes of the first request: the header and, in most archives, the root directory. */
const FIRST = 16_384;
/** Maximum size of what is unpacked, bytes. */
const MAX_UNPACKED = 8 << 20;
/** Maximum number of entries of a directory, and of features, keys and values of a tile: each takes
 * a hundred bytes of memory or more, and two of the file. */
const MAX_ENTRIES = 1 << 17;
const MAX_PARTS = 1 << 17;
/** Maximum bytes of an answer of the server. */
const MAX_RANGE = 4 << 20;
/** Maximum number of leaf directories in memory, and their depth. */
const LEAVES = 32;
const DEPTH = 3;

/** What of an archive cannot be read, in words. */
export class ArchiveError extends Error {}

/** The file has been replaced since it was opened. */
export class ChangedError extends Error {}

/** Reads the numbers of a protocol buffer, or of a directory. */
export class Reader {
  bytes; at; end;

  constructor(bytes, at = 0, end = bytes.length) {
    Object.assign(this, { bytes, at, end });
  }

  get isAtEnd() {
    return this.at >= this.end;
  }

  varint() {
    let value = 0;
    for (let factor = 1; factor < 2 ** 70; factor *= 128) {
      if (this.at >= this.end) throw new ArchiveError("it ends within a number");
      const byte = this.bytes[this.at++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
    throw new ArchiveError("a number is too long");
  }

  /** A reader of the next bytes, as many as a number before them says. */
  part() {
    const length = this.varint();
    if (length > this.end - this.at) throw new ArchiveError("a part is longer than the whole");
    const part = new Reader(this.bytes, this.at, this.at + length);
    this.at += length;
    return part;
  }

  text() {
    return new TextDecoder().decode(this.bytes.subarray(this.at, this.end));
  }

  /** Calls `field(number, value)`: a value is a number, or a reader. */
  fields(field) {
    const view = new DataView(this.bytes.buffer, this.bytes.byteOffset, this.end);
    const fixed = (size, read) => {
      if (this.end - this.at < size) throw new ArchiveError("it ends within a number");
      const value = view[read](this.at, true);
      this.at += size;
      return value;
    };
    while (!this.isAtEnd) {
      const key = this.varint();
      const type = key % 8;
      if (type === 0) field((key - type) / 8, this.varint());
      else if (type === 1) field((key - type) / 8, fixed(8, "getFloat64"));
      else if (type === 2) field((key - type) / 8, this.part());
      else if (type === 5) field((key - type) / 8, fixed(4, "getFloat32"));
      else throw new ArchiveError("a field has an unknown type");
    }
  }
}

/** Bytes as they were before the compression 1 (none) or 2 (gzip). */
async function unpack(bytes, compression) {
  if (compression === 1) return bytes;
  if (compression !== 2) throw new ArchiveError("its compression is neither gzip nor none");
  const parts = [];
  let length = 0;
  try {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const reader = stream.getReader();
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      length += next.value.length;
      parts.push(next.value);
      if (length > MAX_UNPACKED) {
        await reader.cancel();
        break;
      }
    }
  } catch {
    throw new ArchiveError("its gzip is broken");
  }
  if (length > MAX_UNPACKED) throw new ArchiveError("a part of it is too large");
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** The entries of a directory. */
function directory(bytes) {
  const reader = new Reader(bytes);
  const count = reader.varint();
  // Each entry has four numbers.
  if (count * 4 > bytes.length) throw new ArchiveError("a directory is cut off");
  if (count > MAX_ENTRIES) throw new ArchiveError("a directory has too many entries");
  const numbers = () => Array.from({ length: count }, () => reader.varint());
  const [steps, runs, lengths, offsets] = [numbers(), numbers(), numbers(), numbers()];
  let id = 0;
  let end = 0;
  return steps.map((step, at) => {
    id += step;
    const offset = offsets[at] === 0 ? end : offsets[at] - 1;
    end = offset + lengths[at];
    return { id, run: runs[at], length: lengths[at], offset };
  });
}

/** The number of a tile along the Hilbert curves of all zooms. */
export function tileId(z, x, y) {
  let id = (4 ** z - 1) / 3;
  for (let side = 2 ** z / 2; side >= 1; side /= 2) {
    const [right, below] = [x & side ? 1 : 0, y & side ? 1 : 0];
    id += side * side * ((3 * right) ^ below);
    if (below) continue;
    if (right) [x, y] = [side - 1 - (x & (side - 1)), side - 1 - (y & (side - 1))];
    [x, y] = [y, x];
  }
  return id;
}

export class Archive {
  tag; root; leafOffset; dataOffset; packed; tilePacked; minZoom; maxZoom; attribution;

  constructor(url) {
    this.url = url;
    this.leaves = new Map();
  }

  /** Reads header, root directory and metadata. */
  async open() {
    const first = await this.first();
    const view = new DataView(first.buffer, first.byteOffset, first.length);
    const magic = new TextDecoder().decode(first.subarray(0, 7));
    if (first.length < 127 || magic !== "PMTiles" || first[7] !== 3) {
      throw new ArchiveError("it is not a PMTiles file of version 3");
    }
    if (first[99] !== 1) throw new ArchiveError("it has no vector tiles (MVT)");
    const number = (at) => Number(view.getBigUint64(at, true));
    const span = (at) => ({ offset: number(at), length: number(at + 8) });
    const [root, metadata, leaves, data] = [8, 24, 40, 56].map(span);
    Object.assign(this, { leafOffset: leaves.offset, dataOffset: data.offset });
    [this.packed, this.tilePacked] = [first[97], first[98]];
    [this.minZoom, this.maxZoom] = [first[100], Math.min(first[101], 26)];
    const isFirst = root.offset + root.length <= first.length;
    const part = first.subarray(root.offset, root.offset + root.length);
    this.root = directory(
      await unpack(isFirst ? part : await this.range(root.offset, root.length), this.packed));
    this.attribution = await this.readAttribution(metadata);
    return this;
  }

  /** The attribution of the metadata as text, without its tags. */
  async readAttribution({ offset, length }) {
    if (!length) return "";
    try {
      const bytes = await unpack(await this.range(offset, length), this.packed);
      const { attribution } = JSON.parse(new TextDecoder().decode(bytes));
      const names = { "&copy;": "©", "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"' };
      return String(attribution ?? "").slice(0, 1000).replace(/<[^<>]*>/g, "")
        .replace(/&\w+;/g, (name) => names[name] ?? name).trim().slice(0, 200);
    } catch (error) {
      if (error instanceof ChangedError) throw error;
      return "";
    }
  }

  /** The first bytes; what is read later has to be of the same version of the file. */
  async first() {
    const { bytes, tag } = await this.request(0, FIRST, {});
    this.tag = tag;
    return bytes;
  }

  async range(offset, length) {
    if (!length) return new Uint8Array();
    if (length > MAX_RANGE) throw new ArchiveError("a part of it is too large");
    if (!Number.isSafeInteger(offset + length)) throw new ArchiveError("an offset is too large");
    const { bytes } = await this.request(offset, length, { "If-Match": this.tag });
    if (bytes.length !== length) throw new ArchiveError("it is cut off");
    return bytes;
  }

  async request(offset, length, headers) {
    const range = { Range: `bytes=${offset}-${offset + length - 1}` };
    let response;
    try {
      response = await fetch(this.url, { headers: { ...headers, ...range }, cache: "no-store" });
    } catch {
      throw new Error("cannot reach the server");
    }
    if (response.status === 206) {
      const bytes = new Uint8Array(await response.arrayBuffer());
      return { bytes, tag: response.headers.get("ETag") };
    }
    if (response.status === 401) server.dispatchEvent(new Event("unauthorized"));
    if (response.status === 412) throw new ChangedError("the file has changed");
    if (response.status === 416) throw new ArchiveError("it is cut off");
    const problem = await response.json().catch(() => ({}));
    throw new Error(problem.detail ?? `the server answered ${response.status}`);
  }

  /** The bytes of a tile; null where the archive has none. */
  async tile(z, x, y) {
    const id = tileId(z, x, y);
    let entries = this.root;
    for (let depth = 0; depth <= DEPTH; depth += 1) {
      const entry = entries.findLast((entry) => entry.id <= id);
      if (!entry || (entry.run && id >= entry.id + entry.run)) return null;
      if (entry.run) {
        const bytes = await this.range(this.dataOffset + entry.offset, entry.length);
        return unpack(bytes, this.tilePacked);
      }
      entries = await this.leaf(entry);
    }
    throw new ArchiveError("its directories are too deep");
  }

  leaf({ offset, length }) {
    const read = async () =>
      directory(await unpack(await this.range(this.leafOffset + offset, length), this.packed));
    const leaf = this.leaves.get(offset) ?? read();
    // The oldest first.
    this.leaves.delete(offset);
    this.leaves.set(offset, leaf);
    if (this.leaves.size > LEAVES) this.leaves.delete(this.leaves.keys().next().value);
    // Read again if it failed.
    leaf.catch(() => this.leaves.delete(offset));
    return leaf;
  }
}

/** A field that is a part of its own. */
function part(value) {
  if (value instanceof Reader) return value;
  throw new ArchiveError("a field has a wrong type");
}

/** A value of a tag: text, number or boolean. */
function valueOf(reader) {
  let value = null;
  reader.fields((number, it) => {
    if (number === 1) value = part(it).text();
    else if (number === 6) value = it % 2 ? -(it + 1) / 2 : it / 2;
    else value = number === 7 ? Boolean(it) : it;
  });
  return value;
}

/** Lines or rings of a geometry, each [x, y, x, y…]. */
function shapes(reader) {
  const found = [];
  let line = null;
  let [x, y] = [0, 0];
  const step = () => {
    const value = reader.varint();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  };
  while (!reader.isAtEnd) {
    const command = reader.varint();
    const kind = command % 8;
    for (let left = (command - kind) / 8; left > 0 && !reader.isAtEnd; left -= 1) {
      if (kind === 7) {
        line?.push(line[0], line[1]);
        break;
      }
      x += step();
      y += step();
      if (kind === 1) found.push((line = []));
      line?.push(x, y);
    }
  }
  return found;
}

/** The feature of a layer; `type` is 1 for points, 2 for lines, 3 for polygons. */
function featureOf(reader, keys, values) {
  const feature = { type: 0, tags: {}, shapes: [] };
  reader.fields((number, it) => {
    if (number === 3) feature.type = it;
    if (number === 4) feature.shapes = shapes(part(it));
    if (number !== 2) return;
    const tags = part(it);
    while (!tags.isAtEnd) {
      const [key, value] = [keys[tags.varint()], values[tags.varint()]];
      if (key !== undefined) feature.tags[key] = value;
    }
  });
  return feature;
}

/** The layers of a tile, each with its features. */
export function layersOf(bytes) {
  const layers = [];
  let parts = 0;
  new Reader(bytes).fields((number, found) => {
    if (number !== 3) return;
    const layer = { name: "", extent: 4096, features: [] };
    const [keys, values, features] = [[], [], []];
    part(found).fields((field, it) => {
      parts += 1;
      if (parts > MAX_PARTS) throw new ArchiveError("a tile has too many features");
      if (field === 1) layer.name = part(it).text();
      if (field === 2) features.push(part(it));
      if (field === 3) keys.push(part(it).text());
      if (field === 4) values.push(valueOf(part(it)));
      if (field === 5 && it > 0) layer.extent = it;
    });
    layer.features = features.map((it) => featureOf(it, keys, values));
    layers.push(layer);
  });
  return layers;
}
