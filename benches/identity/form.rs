//! How ids look, and how likely two are the same.

use crate::schemes::{Id, Scheme};

/// Sizes of a scheme's ids, over the whole log.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Least and most bytes.
    pub bytes: (usize, usize),
    /// Least and most characters as text.
    pub text: (usize, usize),
    /// Whether a URL takes every text as it is.
    pub is_url_safe: bool,
    /// Whether every text is of digits alone.
    pub is_digits: bool,
}

impl Form {
    /// Of all ids that were given.
    pub fn of(ids: &[Option<Id>]) -> Self {
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

/// What RFC 3986 leaves as it is, wherever in a URL.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Ids of [`probability`], generators, and ids of all of them in a second and in a millisecond.
const IDS: f64 = 1e9;
const GENERATORS: f64 = 8.0;
const PER_SECOND: f64 = 1e6;
const PER_MS: f64 = PER_SECOND / 1e3;

/// The probability that two of 10^9 ids are the same, where 8 generators make a million a second;
/// none where it cannot be. Computed, from the bits that are random.
pub fn probability(scheme: Scheme) -> Option<f64> {
    let pairs = |count: f64| count * (count - 1.0) / 2.0;
    let (seconds, ms) = (IDS / PER_SECOND, IDS / PER_MS);
    // Two runs of numbers that begin anywhere meet if one begins within the other.
    let runs = |length: f64, bits: i32| 2.0 * length / 2_f64.powi(bits);
    let expected = match scheme {
        Scheme::Uuid4 | Scheme::Uuid4Base64 => pairs(IDS) / 2_f64.powi(122),
        Scheme::Digits => pairs(IDS) / 9e11,
        Scheme::Kuuid | Scheme::KuuidReversed => seconds * pairs(PER_SECOND) / 2_f64.powi(128),
        // Two processes of one number whose counters meet.
        Scheme::ObjectId => pairs(GENERATORS) / 2_f64.powi(40) * runs(PER_SECOND / GENERATORS, 24),
        // In each ms a random number, then the numbers after it.
        Scheme::Ulid => ms * pairs(GENERATORS) * runs(PER_MS / GENERATORS, 80),
        // In each ms a counter from a random start of 41 bits, and 32 random bits for each id.
        Scheme::Uuid7 => {
            ms * pairs(GENERATORS) * (PER_MS / GENERATORS).powi(2) / 2_f64.powi(41 + 32)
        }
        // Two of one masked MAC address whose sequences meet.
        Scheme::ElasticFlake | Scheme::CrateDb => {
            pairs(GENERATORS) / 2_f64.powi(48) * runs(PER_MS / GENERATORS, 24)
        }
        // Two devices of one hash whose trips have one `t_star`.
        Scheme::TStarUuid => ms * pairs(PER_MS) / 2_f64.powi(74),
        // Made of what no two trips share; of a number that its owner has alone; or counted.
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
