//! Lengths and characters of ids, and the probability of clashes.

use crate::schemes::{Id, Scheme};

/// Properties of the ids of a scheme, over the whole log.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Minimum and maximum length, bytes.
    pub bytes: (usize, usize),
    /// Minimum and maximum length of the text, bytes.
    pub text: (usize, usize),
    /// Whether every text is valid in a URL without escaping.
    pub is_url_safe: bool,
    /// Whether every text consists of digits.
    pub is_digits: bool,
}

impl Form {
    /// The properties of all these ids.
    pub fn from_ids(ids: &[Option<Id>]) -> Self {
        let none = (usize::MAX, 0);
        let mut form = Self { bytes: none, text: none, is_url_safe: true, is_digits: true };
        let widen = |range: (usize, usize), len: usize| (range.0.min(len), range.1.max(len));
        for id in ids.iter().flatten() {
            form.bytes = widen(form.bytes, id.bytes.len());
            form.text = widen(form.text, id.text.len());
            form.is_url_safe &= id.text.bytes().all(is_unreserved);
            form.is_digits &= id.text.bytes().all(|byte| byte.is_ascii_digit());
        }
        form
    }
}

/// Whether a byte is unreserved in RFC 3986.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Parameters of [`probability`]: ids, generators, and ids of all generators per second and per ms.
const IDS: f64 = 1e9;
const GENERATORS: f64 = 8.0;
const PER_SECOND: f64 = 1e6;
const PER_MS: f64 = PER_SECOND / 1e3;

/// The probability that two of 10^9 ids are equal, with 8 generators that make a million ids per
/// second. Computed from the number of random bits; `None` if ids cannot clash.
pub fn probability(scheme: Scheme) -> Option<f64> {
    let pairs = |count: f64| count * (count - 1.0) / 2.0;
    let (seconds, ms) = (IDS / PER_SECOND, IDS / PER_MS);
    // Two runs of numbers with random starts overlap if one starts inside the other.
    let runs = |length: f64, bits: i32| 2.0 * length / 2_f64.powi(bits);
    let expected = match scheme {
        Scheme::Uuid4 | Scheme::Uuid4Base64 => pairs(IDS) / 2_f64.powi(122),
        Scheme::Digits => pairs(IDS) / 9e11,
        Scheme::Kuuid | Scheme::KuuidReversed => seconds * pairs(PER_SECOND) / 2_f64.powi(128),
        // Two processes with the same random number whose counters overlap.
        Scheme::ObjectId => pairs(GENERATORS) / 2_f64.powi(40) * runs(PER_SECOND / GENERATORS, 24),
        // Per ms: a random number, then the numbers after it.
        Scheme::Ulid => ms * pairs(GENERATORS) * runs(PER_MS / GENERATORS, 80),
        // Per ms: a counter with a random start of 41 bits; per id: 32 random bits.
        Scheme::Uuid7 => {
            ms * pairs(GENERATORS) * (PER_MS / GENERATORS).powi(2) / 2_f64.powi(41 + 32)
        }
        // Two generators with the same masked MAC address whose sequences overlap.
        Scheme::ElasticFlake | Scheme::CrateDb => {
            pairs(GENERATORS) / 2_f64.powi(48) * runs(PER_MS / GENERATORS, 24)
        }
        // Two devices with the same hash whose trips have the same `t_star`.
        Scheme::TStarUuid => ms * pairs(PER_MS) / 2_f64.powi(74),
        // Unique by the trip's own values, by a worker number, or by a counter.
        Scheme::DeviceStart
        | Scheme::DeviceStartEnd
        | Scheme::DeviceOrdinal
        | Scheme::TStar
        | Scheme::Snowflake
        | Scheme::Counter
        | Scheme::Batches
        | Scheme::Counters => return None,
    };
    Some(-(-expected).exp_m1())
}
