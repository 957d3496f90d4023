"""The forms of trip ids, written from their description only, with Python's standard library.

Reads lines of JSON, [device id, t_star in ms]; prints for each {text, bytes, uuid, prefix}, null
where an id has no such form.
"""

import base64
import datetime
import hashlib
import json
import string
import sys
import uuid

PLAIN = set((string.ascii_letters + string.digits + "._-").encode())
EPOCH = datetime.datetime(1970, 1, 1)


def token(device):
    raw = device.encode()
    dots = set(raw) == {ord(".")}
    return "".join(chr(b) if b in PLAIN and not dots else f"~{b:02x}" for b in raw)


def text(device, ms):
    # Python's calendar starts at year 1.
    try:
        at = EPOCH + datetime.timedelta(milliseconds=ms)
    except OverflowError:
        return None, None
    day = f"{at.year:04}{at.month:02}{at.day:02}"
    clock = f"{at.hour:02}{at.minute:02}{at.second:02}.{at.microsecond // 1000:03}"
    return f"{token(device)}~{day}T{clock}Z", f"{token(device)}~{day}"


def key(device, ms):
    raw = device.encode() + b"\0" + ((ms & 0xFFFF_FFFF_FFFF_FFFF) ^ (1 << 63)).to_bytes(8, "big")
    return base64.b32hexencode(raw).decode().rstrip("=").lower()


def as_uuid(device, ms):
    if not 0 <= ms < 1 << 48:
        return None
    digest = hashlib.sha256(b"tstar:v1:" + device.encode()).digest()
    value = int.from_bytes(ms.to_bytes(6, "big") + digest[:10], "big")
    value = value & ~(0xF << 76) | 8 << 76
    value = value & ~(0b11 << 62) | 0b10 << 62
    return str(uuid.UUID(int=value))


for line in sys.stdin:
    device, ms = json.loads(line)
    whole, prefix = text(device, ms)
    forms = {"text": whole, "bytes": key(device, ms), "uuid": as_uuid(device, ms), "prefix": prefix}
    print(json.dumps(forms))
