//! Classifies a line of NDJSON by the contract only: a reader of JSON and of samples that shares
//! nothing with the program's.

use chrono::DateTime;

/// The class of a line.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// Not a record.
    Blank,
    /// A sample of this device and time, ms.
    Good(String, i64),
    /// A dead letter with this reason.
    Bad(&'static str),
    /// So close to `max_future` that the result depends on the time of the import, or a list of
    /// samples.
    Unsure,
}

#[derive(Debug)]
enum Json {
    Null,
    Bool,
    /// As written.
    Number(String),
    /// `None`: it contains an unpaired surrogate, which no text has.
    Text(Option<String>),
    Nested,
}

/// A one-pass reader of RFC 8259.
struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn eat(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    fn value(&mut self) -> Option<Json> {
        self.skip();
        let value = match self.rest.bytes().next()? {
            b'{' => self.members().map(|_| Json::Nested),
            b'[' => self.elements(),
            b'"' => self.text().map(Json::Text),
            b'n' => self.eat("null").map(|()| Json::Null),
            b't' => self.eat("true").map(|()| Json::Bool),
            b'f' => self.eat("false").map(|()| Json::Bool),
            _ => self.number(),
        };
        self.skip();
        value
    }

    fn members(&mut self) -> Option<Vec<(Option<String>, Json)>> {
        self.eat("{")?;
        self.skip();
        let mut members = Vec::new();
        if self.eat("}").is_some() {
            return Some(members);
        }
        loop {
            self.skip();
            let name = self.text()?;
            self.skip();
            self.eat(":")?;
            members.push((name, self.value()?));
            if self.eat("}").is_some() {
                return Some(members);
            }
            self.eat(",")?;
        }
    }

    fn elements(&mut self) -> Option<Json> {
        self.eat("[")?;
        self.skip();
        if self.eat("]").is_some() {
            return Some(Json::Nested);
        }
        loop {
            self.value()?;
            if self.eat("]").is_some() {
                return Some(Json::Nested);
            }
            self.eat(",")?;
        }
    }

    fn number(&mut self) -> Option<Json> {
        let ends = |c: char| !(c.is_ascii_digit() || "+-.eE".contains(c));
        let (number, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let (mantissa, exponent) = match number.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (number, None),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        let whole = whole.strip_prefix('-').unwrap_or(whole);
        let exponent = exponent.map(|text| text.strip_prefix(['+', '-']).unwrap_or(text));
        let good = all_digits(whole)
            && (whole == "0" || !whole.starts_with('0'))
            && fraction.is_none_or(all_digits)
            && exponent.is_none_or(all_digits);
        good.then(|| Json::Number(number.to_owned()))
    }

    /// A text; the inner `None` is a text with an unpaired surrogate.
    fn text(&mut self) -> Option<Option<String>> {
        self.eat("\"")?;
        let mut units: Vec<u16> = Vec::new();
        loop {
            let c = self.rest.chars().next()?;
            self.rest = &self.rest[c.len_utf8()..];
            match c {
                '"' => return Some(String::from_utf16(&units).ok()),
                '\\' => units.push(self.escaped()?),
                c if c < ' ' => return None,
                c => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
            }
        }
    }

    fn escaped(&mut self) -> Option<u16> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        let escaped = match c {
            '"' | '\\' | '/' => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let digits = self.rest.get(..4)?;
                self.rest = &self.rest[4..];
                let all_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                return all_hex.then(|| u16::from_str_radix(digits, 16).ok())?;
            }
            _ => return None,
        };
        u16::try_from(u32::from(escaped)).ok()
    }
}

/// The names of each field, the canonical one first.
const NAMES: [&[&str]; 10] = [
    &["device_id", "deviceId", "device"],
    &["time", "ts", "timestamp"],
    &["lat", "latitude"],
    &["lon", "longitude", "lng"],
    &["speed"],
    &["heading", "bearing", "course"],
    &["altitude"],
    &["accuracy"],
    &["driver"],
    &["ignition"],
];

const HOUR_MS: i64 = 3_600_000;

const BLANKS: [char; 5] = [' ', '\t', '\n', '\x0c', '\r'];

/// The rules of the judge: no position is left out.
pub const AS_JUDGED: &str = "--keep-zero-position";

/// Judges a line without its line end, as read at `now_ms`.
pub fn judge(line: &[u8], now_ms: i64) -> Verdict {
    if line.iter().all(|byte| b" \t\r".contains(byte)) {
        return Verdict::Blank;
    }
    let Ok(text) = std::str::from_utf8(line) else { return Verdict::Bad("bad_utf8") };
    if text.trim_start_matches(BLANKS).starts_with('[') {
        let mut reader = Reader { rest: text };
        let is_list = reader.value().is_some() && reader.rest.is_empty();
        return if is_list { Verdict::Unsure } else { Verdict::Bad("bad_json") };
    }
    let (device, time_ms) = match sample(text) {
        Ok(sample) => sample,
        Err(reason) => return Verdict::Bad(reason),
    };
    let latest = now_ms + 24 * HOUR_MS;
    // The years 0000 to 9999, which the text form of an id covers.
    match time_ms {
        ..-62_167_219_200_000 | 253_402_300_800_000.. => Verdict::Bad("out_of_range"),
        ..946_684_800_000 => Verdict::Bad("time_before_min"),
        _ if time_ms.abs_diff(latest) < HOUR_MS.unsigned_abs() => Verdict::Unsure,
        _ if time_ms > latest => Verdict::Bad("time_in_future"),
        _ => Verdict::Good(device, time_ms),
    }
}

fn sample(text: &str) -> Result<(String, i64), &'static str> {
    let mut reader = Reader { rest: text };
    reader.skip();
    let members = reader.members().ok_or("bad_json")?;
    reader.skip();
    let known = |name: &str| NAMES.iter().any(|names| names.contains(&name));
    let mut stated: Vec<(&str, &Json)> = Vec::new();
    for (name, value) in &members {
        // A name is always read, a value only where its field is known.
        let name = name.as_deref().ok_or("bad_json")?;
        if known(name) {
            stated.push((name, value));
        }
    }
    let half_a_pair = |value: &Json| matches!(value, Json::Text(None));
    if !reader.rest.is_empty() || stated.iter().any(|(_, value)| half_a_pair(value)) {
        return Err("bad_json");
    }
    let infinite = |number: &str| number.parse::<f64>().is_ok_and(f64::is_infinite);
    let beyond = |value: &Json| matches!(value, Json::Number(number) if infinite(number));
    if stated.iter().any(|(_, value)| beyond(value)) {
        return Err("out_of_range");
    }
    let twice = |at: usize| stated[..at].iter().any(|(name, _)| *name == stated[at].0);
    if (0..stated.len()).any(twice) {
        return Err("ambiguous_field");
    }
    let says = |name: &&&str| {
        let found = stated.iter().find(|(known, _)| *known == **name);
        found.map(|(_, value)| *value).filter(|value| !matches!(value, Json::Null))
    };
    let mut values: [Option<&Json>; 10] = [None; 10];
    for (value, names) in values.iter_mut().zip(NAMES) {
        let canonical = says(&&names[0]);
        let aliases: Vec<_> = names[1..].iter().filter_map(|name| says(&name)).collect();
        if canonical.is_none() && aliases.len() > 1 {
            return Err("ambiguous_field");
        }
        *value = canonical.or(aliases.first().copied());
    }
    if values[..4].iter().any(Option::is_none) {
        return Err("missing_field");
    }
    stated_sample(values)
}

fn stated_sample(values: [Option<&Json>; 10]) -> Result<(String, i64), &'static str> {
    // An ignition that is neither on nor off is lost, and the sample is not.
    let [device, time, lat, lon, speed, heading, altitude, accuracy, driver, _] = values;
    let device = name(device)?.unwrap_or_default();
    if !(1..=256).contains(&device.len()) || device.contains('\0') {
        return Err("bad_device_id");
    }
    let time_ms = time_ms(time)?;
    let ranges = [
        (lat, -90.0, 90.0),
        (lon, -180.0, 180.0),
        (speed, 0.0, 1e3),
        (heading, 0.0, 360.0),
        (altitude, -12e3, 1e5),
        (accuracy, 0.0, 1e8),
    ];
    let mut numbers = [None; 6];
    for (nth, (value, _, _)) in ranges.iter().enumerate() {
        // Without a position there is no sample.
        let is_optional = nth > 1;
        numbers[nth] = match value {
            None => None,
            Some(Json::Number(number)) => number.parse::<f64>().ok(),
            Some(Json::Text(Some(text))) if is_optional && is_blank(text) => None,
            Some(Json::Text(Some(text))) => {
                Some(text.trim_matches(BLANKS).parse::<f64>().map_err(|_| "bad_type")?)
            }
            Some(_) => return Err("bad_type"),
        };
        // An altitude of -1 is one; else it means that the value is unknown.
        if is_optional && nth != 4 && numbers[nth] == Some(-1.0) {
            numbers[nth] = None;
        }
    }
    if name(driver)?.is_some_and(|driver| driver.len() > 256 || driver.contains('\0')) {
        return Err("bad_type");
    }
    for (number, (_, least, most)) in numbers.iter().zip(ranges) {
        if number.is_some_and(|number| !(least..=most).contains(&number)) {
            return Err("out_of_range");
        }
    }
    Ok((device, time_ms))
}

fn is_blank(text: &str) -> bool {
    text.trim_matches(BLANKS).is_empty()
}

/// An integer of JSON that fits into 64 bits; `-0` is a float.
fn integer(number: &str) -> Option<i128> {
    let value: i128 = number.parse().ok()?;
    let fits = (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value);
    (fits && number != "-0").then_some(value)
}

/// A text or an integer.
fn name(value: Option<&Json>) -> Result<Option<String>, &'static str> {
    match value {
        None => Ok(None),
        Some(Json::Text(text)) => Ok(text.clone()),
        Some(Json::Number(number)) if integer(number).is_some() => Ok(Some(number.clone())),
        Some(_) => Err("bad_type"),
    }
}

fn time_ms(value: Option<&Json>) -> Result<i64, &'static str> {
    match value {
        Some(Json::Number(number)) => number_ms(number),
        Some(Json::Text(Some(text))) => {
            let text = text.trim_matches(BLANKS);
            let is_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
                && text.ends_with(|c: char| c.is_ascii_digit())
                && !text.contains("-.")
                && ![".e", ".E"].iter().any(|without| text.contains(without))
                && text.parse::<f64>().is_ok();
            let number = if is_number { number_ms(text) } else { Err("bad_time") };
            text_ms(text).ok_or(()).or(number)
        }
        _ => Err("bad_type"),
    }
}

/// RFC 3339, or with an offset after a space, without a colon, or in whole hours.
fn text_ms(text: &str) -> Option<i64> {
    let mut text = text.to_owned();
    if let Some(at) = text.rfind(['+', '-']).filter(|at| *at >= 19) {
        match text.len() - at - 1 {
            2 => text.push_str(":00"),
            4 if text.is_char_boundary(at + 3) => text.insert(at + 3, ':'),
            _ => {}
        }
        if text.as_bytes()[at - 1] == b' ' {
            text.remove(at - 1);
        }
    }
    DateTime::parse_from_rfc3339(&text).ok().map(|time| time.timestamp_millis())
}

/// Of a fraction, the nearest microsecond counts.
fn number_ms(number: &str) -> Result<i64, &'static str> {
    let is_integer = number.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    if let Some(ms) = number.parse::<i128>().ok().filter(|_| is_integer) {
        return i64::try_from(ms).map_err(|_| "bad_time");
    }
    let value = number.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or("bad_time")?;
    let up = ((value - value.floor()) * 1e3).round() >= 1e3;
    i64::try_from(value.floor() as i128 + i128::from(up)).map_err(|_| "bad_time")
}

#[test]
fn the_judge_knows_its_contract() {
    let now_ms = 1_795_210_680_123;
    let rest = r#""lat":1,"lon":-2.5e1"#;
    for (line, reason) in [
        (format!(r#"{{"device_id":"","time":1,{rest}}}"#), "bad_device_id"),
        (format!(r#"{{"device_id":"a","time":1,{rest}}}"#), "time_before_min"),
        (format!(r#"{{"device_id":"a","time":9e9,{rest}}}"#), "time_before_min"),
        (format!(r#"{{"device_id":"a","time":9e90,{rest}}}"#), "bad_time"),
        (format!(r#"{{"device_id":"a","time":"1795210680123.","speed":"",{rest}}}"#), "bad_time"),
        (
            format!(r#"{{"device_id":"a","time":"1795210680123","speed":-2,{rest}}}"#),
            "out_of_range",
        ),
        ("[1".to_owned(), "bad_json"),
        (format!(r#"{{"device_id":"a","time":"1795210680123x",{rest}}}"#), "bad_time"),
        (format!(r#"{{"device_id":"a","time":1995210680123,{rest}}}"#), "time_in_future"),
        (format!(r#"{{"device_id":"a","time":253402300800000,{rest}}}"#), "out_of_range"),
        (format!(r#"{{"device_id":"a",{rest}}}"#), "missing_field"),
        (format!(r#"{{"device_id":"a","x":01,{rest}}}"#), "bad_json"),
        (format!(r#"{{"device_id":"a","lat":1,{rest}}}"#), "ambiguous_field"),
        (format!(r#"{{"device_id":true,"time":1,{rest}}}"#), "bad_type"),
    ] {
        assert_eq!(judge(line.as_bytes(), now_ms), Verdict::Bad(reason), "{line}");
    }
    let good = |time: &str| {
        let line =
            format!(r#" {{"ts":{time},"device":"\u00e9","x":["\ud800"],"speed":-1,{rest}}} "#);
        let expected = Verdict::Good("é".to_owned(), 1_795_210_680_000);
        assert_eq!(judge(line.as_bytes(), now_ms), expected, "{line}");
    };
    for time in ["\"1795210680000\"", "1795210680000.5", "\"2026-11-20 21:38:00 +00\""] {
        good(time);
    }
    assert_eq!(judge(b"[1]", now_ms), Verdict::Unsure);
    assert_eq!(judge(b" \t", now_ms), Verdict::Blank);
    assert_eq!(judge(b"{\xff}", now_ms), Verdict::Bad("bad_utf8"));
}
