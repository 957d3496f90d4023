//! Values of hostile records. How a value was made decides which of its samples are good, and why
//! the others are not.

use std::collections::BTreeSet;

use super::draw::Draw;

/// 2024-05-01T08:00:00Z: samples of that day are good unless something else is wrong.
pub const DAY_MS: i64 = 1_714_550_400_000;

/// The last ms of the year 9999, the last one whose trip id has a text form.
pub const LAST_MS: i64 = 253_402_300_799_999;

/// The first one, of the year 0.
pub const FIRST_MS: i64 = -62_167_219_200_000;

/// 2000-01-01T00:00:00Z, the default of `--min-time`.
pub const MIN_MS: i64 = 946_684_800_000;

/// Longest value that is read.
pub const MAX_VALUE_BYTES: usize = 1 << 20;

/// A sample whose value is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Good {
    pub device: String,
    pub time_ms: i64,
    pub lat_e7: i32,
}

/// A value, and what it contains.
#[derive(Clone, Debug, Default)]
pub struct Body {
    pub bytes: Option<Vec<u8>>,
    /// In the order of the value.
    pub good: Vec<Good>,
    /// Bad samples; of a value that cannot be split, one.
    pub bad: usize,
    /// Reasons that the bad samples may have.
    pub why: BTreeSet<&'static str>,
    pub what: String,
}

impl Body {
    fn dead(bytes: impl Into<Vec<u8>>, why: &[&'static str], what: impl Into<String>) -> Self {
        let (why, what) = (why.iter().copied().collect(), what.into());
        Self { bytes: Some(bytes.into()), good: Vec::new(), bad: 1, why, what }
    }

    fn from_good(good: Vec<Good>, bytes: String, what: impl Into<String>) -> Self {
        Self { bytes: Some(bytes.into()), good, what: what.into(), ..Self::default() }
    }
}

fn text(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// A sample as an object; `more` are members after the others.
pub fn object(device: &str, time: &str, lat: &str, more: &str) -> String {
    format!(r#"{{"device_id":{},"time":{time},"lat":{lat},"lon":13.5{more}}}"#, text(device))
}

fn degrees(lat_e7: i32) -> String {
    format!("{:.7}", f64::from(lat_e7) / 1e7)
}

/// The sample as an object.
pub fn sample(good: &Good, more: &str) -> String {
    object(&good.device, &good.time_ms.to_string(), &degrees(good.lat_e7), more)
}

/// A good sample of a device on the day.
pub fn good(draw: &mut Draw, device: &str) -> Good {
    let time_ms = DAY_MS + draw.below(36_000_000) as i64;
    let lat_e7 = 500_000_000 + draw.below(10_000_000) as i32;
    Good { device: device.to_owned(), time_ms, lat_e7 }
}

/// Why a device time is invalid in a record with this timestamp.
pub fn why_time(time_ms: i64, log_ms: i64) -> Option<&'static [&'static str]> {
    let is_ahead = time_ms > log_ms.saturating_add(86_400_000);
    match time_ms {
        ..FIRST_MS => Some(&["out_of_range", "time_before_min"]),
        FIRST_MS..MIN_MS => Some(&["time_before_min"]),
        MIN_MS..=LAST_MS if is_ahead => Some(&["time_in_future"]),
        MIN_MS..=LAST_MS => None,
        _ if is_ahead => Some(&["out_of_range", "time_in_future"]),
        _ => Some(&["out_of_range"]),
    }
}

/// A value of a device, of at most `room` bytes, in a record with this timestamp.
pub fn body(draw: &mut Draw, device: &str, room: usize, log_ms: i64) -> Body {
    match draw.below(16) {
        0 | 1 => {
            let good = good(draw, device);
            let more = draw.pick(&["", r#","speed":0"#, r#","speed":1000,"heading":360"#]);
            let bytes = sample(&good, more);
            Body::from_good(vec![good], bytes, "a good sample")
        }
        2 => nothing(draw),
        3 => broken(draw, device),
        4 | 5 => out_of_range(draw, device),
        6 | 7 => time(draw, device, log_ms),
        8 => nested(draw, device, room),
        9 | 10 => long(draw, device, room),
        11 => bad_device(draw, room),
        12 => number(draw, device, room),
        _ => array(draw, device, room),
    }
}

fn nothing(draw: &mut Draw) -> Body {
    match draw.below(4) {
        0 => Body { bytes: None, ..Body::dead("", &["bad_json"], "null") },
        1 => Body::dead("", &["bad_json"], "an empty value"),
        2 => Body::dead(" \t\r\n ", &["bad_json"], "blanks"),
        _ => Body::dead("truck-1,2024-05-01T08:00:00Z,52,13", &["bad_json"], "a row of a table"),
    }
}

fn broken(draw: &mut Draw, device: &str) -> Body {
    let good = good(draw, device);
    let whole = sample(&good, "").into_bytes();
    let at = 1 + draw.below(whole.len() as u64 - 1) as usize;
    match draw.below(4) {
        0 => Body::dead(&whole[..at], &["bad_json", "bad_utf8"], "a torn object"),
        1 => {
            let byte = draw.pick(&[0x80, 0xc0, 0xed, 0xf8, 0xff]);
            let torn = [&whole[..at], &[byte], &whole[at..]].concat();
            Body::dead(torn, &["bad_utf8"], "a byte that is not UTF-8")
        }
        2 => {
            let length = 1 + draw.below(400) as usize;
            let mut noise = draw.bytes(length);
            noise[0] = b'x';
            Body::dead(noise, &["bad_json", "bad_utf8"], "noise")
        }
        _ => {
            let more = draw.pick(&[r#","lat":1"#, r#","time":1"#, r#","device_id":"x""#]);
            Body::dead(sample(&good, more), &["ambiguous_field"], "a duplicate name")
        }
    }
}

fn out_of_range(draw: &mut Draw, device: &str) -> Body {
    let good = good(draw, device);
    let time = good.time_ms.to_string();
    let cases: [(&str, &str, &'static str); 13] = [
        ("90.0000001", "", "out_of_range"),
        ("-91", "", "out_of_range"),
        ("1e400", "", "out_of_range"),
        ("1e308", "", "out_of_range"),
        ("\"52 N\"", "", "bad_type"),
        ("[52]", "", "bad_type"),
        ("null", "", "missing_field"),
        ("52", r#","speed":1000.1"#, "out_of_range"),
        ("52", r#","speed":-2"#, "out_of_range"),
        ("52", r#","heading":361"#, "out_of_range"),
        ("52", r#","altitude":1e5000"#, "out_of_range"),
        ("52", r#","accuracy":1e9"#, "out_of_range"),
        ("52", r#","driver":"a\u0000b""#, "bad_type"),
    ];
    if draw.one_in(4) {
        let at = draw.pick(&[-900_000_000, 900_000_000, 0]);
        let good = Good { lat_e7: at, ..good };
        let bytes = sample(&good, r#","altitude":100000,"accuracy":0,"ignition":"on""#);
        return Body::from_good(vec![good], bytes, "a sample at the limits");
    }
    let (lat, more, why) = draw.pick(&cases);
    Body::dead(object(device, &time, lat, more), &[why], format!("lat {lat}{more}"))
}

fn time(draw: &mut Draw, device: &str, log_ms: i64) -> Body {
    let lat_e7 = 510_000_000 + draw.below(1000) as i32;
    if draw.one_in(3) {
        let texts = [
            r#""-0001-01-01T00:00:00Z""#,
            r#""10000-01-01T00:00:00Z""#,
            r#""+12024-05-01T08:00:00Z""#,
            r#""2024-05-01T08:00:00""#,
            r#""2024-02-30T00:00:00Z""#,
            r#""1714550400000.""#,
            "1e400",
            "18446744073709551616",
            "9223372036854775808",
            r#""""#,
            r#""soon""#,
            "true",
        ];
        let time = draw.pick(&texts);
        // A number that no float holds is out of range, whatever its field; a boolean is not a
        // time.
        let why = match time {
            "1e400" => "out_of_range",
            "true" => "bad_type",
            _ => "bad_time",
        };
        return Body::dead(object(device, time, "52", ""), &[why], format!("time {time}"));
    }
    let ahead = log_ms.saturating_add(86_400_000);
    let times = [
        i64::MIN,
        FIRST_MS - 1,
        FIRST_MS,
        -1,
        0,
        MIN_MS - 1,
        MIN_MS,
        LAST_MS,
        LAST_MS + 1,
        i64::MAX,
        ahead,
        ahead.saturating_add(1),
    ];
    let time_ms = draw.pick(&times);
    let good = Good { device: device.to_owned(), time_ms, lat_e7 };
    let bytes = sample(&good, "");
    match why_time(time_ms, log_ms) {
        Some(why) => Body::dead(bytes, why, format!("time {time_ms} ms")),
        None => Body::from_good(vec![good], bytes, format!("time {time_ms} ms")),
    }
}

fn nested(draw: &mut Draw, device: &str, room: usize) -> Body {
    let depth = (room.saturating_sub(200) / 2).min(draw.pick(&[128, 1000, 100_000]));
    if depth < 128 {
        return Body::dead("[[", &["bad_json"], "nested, without space");
    }
    let good = good(draw, device);
    let (open, close) = draw.pick(&[("[", "]"), (r#"{"a":"#, "}")]);
    let depth = if open.len() > 1 { depth / 4 } else { depth }.max(128);
    let nest = format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let what = format!("nested {depth} deep");
    match draw.below(3) {
        0 => Body::dead(nest, &["bad_json", "bad_type"], what),
        1 => Body::dead("[".repeat(depth), &["bad_json"], what),
        _ => Body::dead(sample(&good, &format!(r#","x":{nest}"#)), &["bad_json"], what),
    }
}

fn long(draw: &mut Draw, device: &str, room: usize) -> Body {
    let good = good(draw, device);
    let length = draw.size(room.saturating_sub(400)).max(300);
    let filler = draw.pick(&["x", "\\n", "\\u0041"]);
    let long = filler.repeat(length / filler.len());
    let what = format!("a text of {length} bytes");
    let (time, lat) = (good.time_ms.to_string(), degrees(good.lat_e7));
    match draw.below(4) {
        0 => {
            let bytes = sample(&good, &format!(r#","note":"{long}""#));
            Body::from_good(vec![good], bytes, format!("{what} in an unknown field"))
        }
        1 => {
            let long = "x".repeat(length);
            Body::dead(sample(&good, &format!(r#","driver":"{long}""#)), &["bad_type"], what)
        }
        2 => {
            let long = format!("\"{}\"", "x".repeat(length));
            Body::dead(object(device, &long, &lat, ""), &["bad_time"], what)
        }
        _ => Body::dead(object(&"x".repeat(length), &time, &lat, ""), &["bad_device_id"], what),
    }
}

fn bad_device(draw: &mut Draw, room: usize) -> Body {
    let time = DAY_MS.to_string();
    let long = "é".repeat(draw.size(room.saturating_sub(200) / 2).max(129));
    let ids = [String::new(), "a\0b".to_owned(), "\0".to_owned(), "x".repeat(257), long];
    let id = &ids[draw.below(ids.len() as u64) as usize];
    let what = format!("a device id of {} bytes", id.len());
    Body::dead(object(id, &time, "52", ""), &["bad_device_id"], what)
}

fn number(draw: &mut Draw, device: &str, room: usize) -> Body {
    let good = good(draw, device);
    let digits = draw.size(room.saturating_sub(200)).max(400);
    let (time, what) = (good.time_ms.to_string(), format!("a number of {digits} digits"));
    if draw.one_in(2) {
        let lat = "9".repeat(digits);
        return Body::dead(object(device, &time, &lat, ""), &["out_of_range"], what);
    }
    let lat = format!("{}{}", degrees(good.lat_e7), "0".repeat(digits));
    let bytes = object(device, &time, &lat, "");
    Body::from_good(vec![good], bytes, what)
}

/// Elements that are not samples, and why.
const ELEMENTS: [(&str, &str); 6] = [
    ("1", "bad_json"),
    ("{}", "missing_field"),
    ("\"\"", "bad_json"),
    ("null", "bad_json"),
    (r#"{"device_id":"a","time":1,"lat":1e999,"lon":1}"#, "out_of_range"),
    (r#"{"device_id":"","time":1,"lat":1,"lon":1}"#, "bad_device_id"),
];

/// Maximum number of distinct times in an array: the literal model scans all of them for each.
const TIMES: usize = 40;

fn array(draw: &mut Draw, device: &str, room: usize) -> Body {
    let bytes = draw.size(room.saturating_sub(2));
    let kept: Vec<Good> = (0..TIMES).map(|_| good(draw, device)).collect();
    let percent = draw.pick(&[0, 1, 50, 100]);
    let (bad, why) = draw.pick(&ELEMENTS);
    let mut body = Body { bad: 0, ..Body::default() };
    let mut text = "[".to_owned();
    loop {
        let is_bad = draw.below(100) < percent;
        let nth = body.good.len() % kept.len();
        let element = if is_bad { bad.to_owned() } else { sample(&kept[nth], "") };
        if text.len() + element.len() + 2 > bytes {
            break;
        }
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&element);
        if is_bad {
            body.bad += 1;
            body.why.insert(why);
        } else {
            body.good.push(kept[nth].clone());
        }
    }
    text.push(']');
    body.what = format!("an array of {} good, {} bad", body.good.len(), body.bad);
    if draw.one_in(8) {
        // Without the last bracket it cannot be split.
        text.pop();
        return Body::dead(text, &["bad_json"], format!("{}, torn", body.what));
    }
    body.bytes = Some(text.into_bytes());
    body
}
