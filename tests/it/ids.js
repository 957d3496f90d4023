// The forms of trip ids, written from their description only, with what a browser has.
//
// The body of a function of a list of [device id, t_star in ms as text]; gives for each {text,
// bytes, uuid, prefix}, null where an id has no such form.

const utf8 = new TextEncoder();
const hex = (byte) => byte.toString(16).padStart(2, "0");

function token(device) {
  const dots = /^\.+$/.test(device);
  const plain = (byte) => !dots && /[A-Za-z0-9._-]/.test(String.fromCharCode(byte));
  const written = (byte) => (plain(byte) ? String.fromCharCode(byte) : `~${hex(byte)}`);
  return Array.from(utf8.encode(device), written).join("");
}

// Four digits of a year: others have a sign.
function date(ms) {
  const time = new Date(Number(ms));
  const text = Number.isNaN(time.getTime()) ? "" : time.toISOString();
  return /^\d{4}-/.test(text) ? text.replace(/[-:]/g, "") : null;
}

function base32hex(bytes) {
  let text = "", bits = 0, held = 0;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += ((held >> (bits - 5)) & 31).toString(32);
    held &= (1 << bits) - 1;
  }
  return bits > 0 ? text + ((held << (5 - bits)) & 31).toString(32) : text;
}

function key(device, ms) {
  const time = new DataView(new ArrayBuffer(8));
  time.setBigUint64(0, BigInt.asUintN(64, ms) ^ (1n << 63n));
  return base32hex([...utf8.encode(device), 0, ...new Uint8Array(time.buffer)]);
}

async function uuid(device, ms) {
  if (ms < 0n || ms >= 1n << 48n) return null;
  const digest = await crypto.subtle.digest("SHA-256", utf8.encode(`tstar:v1:${device}`));
  const hash = new Uint8Array(digest).slice(0, 10);
  hash[0] = (hash[0] & 0x0f) | 0x80;
  hash[2] = (hash[2] & 0x3f) | 0x80;
  const all = ms.toString(16).padStart(12, "0") + Array.from(hash, hex).join("");
  return all.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

async function forms([device, text]) {
  const ms = BigInt(text);
  const time = date(ms);
  return {
    text: time && `${token(device)}~${time}`,
    bytes: key(device, ms),
    uuid: await uuid(device, ms),
    prefix: time && `${token(device)}~${time.slice(0, 8)}`,
  };
}

return Promise.all(arguments[0].map(forms));
