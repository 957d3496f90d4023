//! Random ids in every form, read back; and each with one edit, which no parser takes unless it is
//! another id in its one spelling.
//!
//! `TSTAR_TEST_IDS` is the number of round trips; `TSTAR_TEST_FIRST` is the seed of the first id.

use std::thread;

use tstar::internals::identity::{
    AnyId, DeviceId, TEXT_TIMES_MS, TripId, UuidId, device_of_token, prefix, prefix_range,
    token_of_device,
};
use tstar::internals::model::scalar::DeviceTime;

use crate::counts;

/// The forms, by the function that reads them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// Text, key as base32hex, and UUID.
    Any,
    Key,
    Token,
    Prefix,
}

/// An id in a form.
type Written = (Form, Vec<u8>);

/// What a parser found.
#[derive(Debug)]
struct Parsed {
    /// What the form has of the device.
    device: Device,
    /// First and last `t_star`, where the form has a time.
    times: Option<(DeviceTime, DeviceTime)>,
    /// How the found id is written in this form.
    spelling: Vec<u8>,
}

#[derive(Debug)]
enum Device {
    Id(DeviceId),
    Hash(UuidId),
}

/// Prints how to try an id again if a check panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("to try this id alone: TSTAR_TEST_FIRST={} TSTAR_TEST_IDS=1", self.0);
        }
    }
}

#[derive(Default)]
struct Tally {
    made: u64,
    /// Damaged ones that are ids.
    taken: u64,
}

/// Plain characters, those that are escaped, and those that mark the parts of a form.
const DEVICE: &[char] = &['a', 'v', 'Z', '0', '9', '.', '_', '-', '~', ' ', '%', '/', '\u{1}'];

/// Mostly short and plain ones; some of any characters, of dots alone, and of the maximum length.
fn device(random: &mut fastrand::Rng) -> String {
    let length = random.usize(1..24);
    match random.u8(..10) {
        0..5 => format!("truck-{}", random.u32(..)),
        5..8 => (0..length).map(|_| DEVICE[random.usize(..DEVICE.len())]).collect(),
        8 => (0..length).map(|_| random.char('\u{1}'..='\u{10ffff}')).collect(),
        _ if random.bool() => ".".repeat(length),
        _ => "x".repeat(256 - length) + &"é".repeat(length / 2),
    }
}

/// Mostly a time of this century, some of all years that the text form covers, and some of any.
fn time(random: &mut fastrand::Rng) -> DeviceTime {
    DeviceTime(match random.u8(..10) {
        0..7 => random.i64(946_684_800_000..4_102_444_800_000),
        7 | 8 => random.i64(TEXT_TIMES_MS.start().ms()..=TEXT_TIMES_MS.end().ms()),
        _ => random.i64(..),
    })
}

/// Every form that an id has.
fn written(id: &TripId, random: &mut fastrand::Rng) -> Vec<Written> {
    let mut forms = vec![
        (Form::Any, id.key_text().into_bytes()),
        (Form::Key, id.key()),
        (Form::Token, token_of_device(&id.device_id).into_bytes()),
    ];
    let text = id.text();
    assert_eq!(text.is_ok(), TEXT_TIMES_MS.contains(&id.t_star_ms), "{id:?}");
    if let Ok(text) = text {
        // The time of the text form is `20261120T213800.123Z`: year, month, day or hour.
        let date = &text[text.len() - 20..][..[4, 6, 8, 11][random.usize(..4)]];
        forms.push((Form::Prefix, prefix(&id.device_id, date).unwrap().into_bytes()));
        forms.push((Form::Any, text.into_bytes()));
    }
    let uuid = id.uuid();
    assert_eq!(uuid.is_ok(), (0..1 << 48).contains(&id.t_star_ms.ms()), "{id:?}");
    forms.extend(uuid.map(|uuid| (Form::Any, uuid.to_string().into_bytes())));
    forms
}

fn time_of(id: &AnyId) -> DeviceTime {
    match id {
        AnyId::Trip(id) => id.t_star_ms,
        AnyId::Uuid(id) => id.t_star_ms,
    }
}

/// What a form is read as; `None` if it is refused.
fn parsed(form: Form, bytes: &[u8]) -> Option<Parsed> {
    let of_trip = |id: TripId, spelling: Vec<u8>| {
        let times = Some((id.t_star_ms, id.t_star_ms));
        Parsed { device: Device::Id(id.device_id), times, spelling }
    };
    if form == Form::Key {
        let id = TripId::parse_key(bytes).ok()?;
        let key = id.key();
        return Some(of_trip(id, key));
    }
    let text = std::str::from_utf8(bytes).ok()?;
    match form {
        Form::Token => {
            let device = device_of_token(text).ok()?;
            let spelling = token_of_device(&device).into_bytes();
            Some(Parsed { device: Device::Id(device), times: None, spelling })
        }
        Form::Prefix => {
            let (device, from, upto) = prefix_range(text).ok()?;
            // Both ends of the span begin with the prefix, and their neighbours do not.
            let start = |time: DeviceTime| {
                let mut text = TripId::new(device.as_str(), time).unwrap().text().ok()?;
                text.truncate(bytes.len());
                Some(text.into_bytes())
            };
            let spelling = start(from).unwrap();
            assert_eq!(start(upto).as_ref(), Some(&spelling), "{text}");
            for outside in [from - 1, upto + 1] {
                assert_ne!(start(outside).as_ref(), Some(&spelling), "{text}");
            }
            Some(Parsed { device: Device::Id(device), times: Some((from, upto)), spelling })
        }
        _ => Some(match AnyId::parse(text).ok()? {
            id if id.t_star_ms() != time_of(&id) => panic!("{text}: {}", id.t_star_ms()),
            AnyId::Uuid(id) => {
                let times = Some((id.t_star_ms, id.t_star_ms));
                let spelling = id.to_string().into_bytes();
                Parsed { device: Device::Hash(id), times, spelling }
            }
            AnyId::Trip(id) => {
                let is_text = text.contains('~');
                let spelling = if is_text { id.text().unwrap() } else { id.key_text() };
                of_trip(id, spelling.into_bytes())
            }
        }),
    }
}

/// What takes the place of a byte: digits, marks, other case, and what no form has.
const BYTES: &[u8] = b"0129afvzAFVZ~-_.T%=+ \0\xff\x7f";

/// The same with one edit, which makes a difference.
fn damaged(bytes: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    loop {
        let mut other = bytes.to_vec();
        let at = random.usize(..bytes.len());
        match random.u8(..8) {
            0 => other[at] = BYTES[random.usize(..BYTES.len())],
            1 => other[at] ^= 1 << random.u8(..8),
            2 => drop(other.remove(at)),
            3 => other.insert(at, BYTES[random.usize(..BYTES.len())]),
            4 => other.swap(at, random.usize(..bytes.len())),
            5 => other.truncate(at),
            6 => other.insert(at, bytes[at]),
            _ => other[at] ^= 0x20,
        }
        if other != bytes {
            return other;
        }
    }
}

fn try_id(seed: u64, tally: &mut Tally) {
    let _replay = Replay(seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let id = TripId::new(device(&mut random), time(&mut random)).unwrap();
    for (form, bytes) in written(&id, &mut random) {
        let shown = || format!("{form:?} {:?} of {id:?}", String::from_utf8_lossy(&bytes));
        let found = parsed(form, &bytes).unwrap_or_else(|| panic!("refused: {}", shown()));
        assert!(found.spelling == bytes, "{found:?}: {}", shown());
        let is_its_device = match &found.device {
            Device::Id(device) => *device == id.device_id,
            Device::Hash(uuid) => uuid.matches(&id.device_id, id.t_star_ms),
        };
        let is_its_time = found.times.is_none_or(|(from, upto)| {
            (from..=upto).contains(&id.t_star_ms) && (from == upto || form == Form::Prefix)
        });
        assert!(is_its_device && is_its_time, "{found:?}: {}", shown());
        tally.made += 1;
        let other = damaged(&bytes, &mut random);
        if let Some(found) = parsed(form, &other) {
            let given = String::from_utf8_lossy(&other);
            assert!(found.spelling == other, "taken: {given:?}, as {found:?}, from {}", shown());
            tally.taken += 1;
        }
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

#[test]
fn every_form_is_read_back_and_has_one_spelling() {
    let wanted = from_environment("TSTAR_TEST_IDS").unwrap_or(1_000_000);
    let first = from_environment("TSTAR_TEST_FIRST").unwrap_or(1);
    let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
    let work = |nth: u64| {
        let mut tally = Tally::default();
        let mut seed = first + nth;
        while tally.made * threads + nth < wanted {
            try_id(seed, &mut tally);
            seed += threads;
        }
        tally
    };
    let tallies: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|nth| scope.spawn(move || work(nth))).collect();
        running.into_iter().map(|it| it.join().expect("every id is read back")).collect()
    });
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let (made, taken) = (sum(|tally| tally.made), sum(|tally| tally.taken));
    println!("of {made} damaged ones, {taken} are other ids in their one spelling");
    assert!(made < 1000 || (made < taken * 100 && taken < made / 2), "{taken} of {made}");
    counts::IDS.print(made);
}
