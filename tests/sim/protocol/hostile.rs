//! Records that cannot be used: each becomes one dead letter as a whole.

use tstar::internals::kafka::control::{CONTROL_HEADER, SIGNATURE_HEADER};
use tstar::internals::model::control::{Claim, ControlKey};
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::source::Headers;

use super::log::{ENDLESS, Encoded, TOPIC, control_keys, hour, json, log_time, name};
use super::world::Device;
use crate::model::{Class, Fix};

/// A larger dead letter is cut.
pub const MAX_LETTER: usize = 4 << 10;

/// Length to which a dead letter is cut.
pub const HEAD: usize = 1 << 10;

/// The largest record whose value is read.
const MAX_RECORD: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hostile {
    /// An object that ends early.
    Object,
    /// An array that ends early, after a sample, which does not count.
    Array,
    /// An object that is too long for a letter.
    Long,
    /// A value that is too large to be read.
    Large,
    NoValue,
    NoKey,
    /// The key is another device's.
    OtherKey,
    /// A sample that lies far past the timestamp of its record.
    Ahead,
    /// A signed control record of an unknown kind.
    UnknownKind,
    /// A signed forget that lies far past the timestamp of its record.
    ForgetAhead,
    /// A signed forget whose `before` is not a time.
    NoTime,
    /// A forget that is signed for another topic.
    OtherTopic,
}

impl Hostile {
    /// All that cost little.
    pub const CHEAP: [Self; 11] = [
        Self::Object,
        Self::Array,
        Self::Long,
        Self::NoValue,
        Self::NoKey,
        Self::OtherKey,
        Self::Ahead,
        Self::UnknownKind,
        Self::ForgetAhead,
        Self::NoTime,
        Self::OtherTopic,
    ];

    /// The name of the event.
    pub fn event(self) -> &'static str {
        match self {
            Self::Object => "records that end early",
            Self::Array => "arrays that end early",
            Self::Long => "letters that are cut",
            Self::Large => "records that are too large",
            Self::NoValue => "records without a value",
            Self::NoKey => "records without a key",
            Self::OtherKey => "records with the key of another device",
            Self::Ahead => "samples far ahead",
            Self::UnknownKind => "control records of an unknown kind",
            Self::ForgetAhead => "forgets far ahead",
            Self::NoTime => "forgets without a time",
            Self::OtherTopic => "forgets of another topic",
        }
    }

    /// The `nth` record of a partition.
    pub fn encode(self, device: Device, nth: usize) -> Encoded {
        let name = name(device);
        let far = log_time(nth) + ENDLESS + 1;
        let at = |time| {
            json(device, Some(&Fix { time, place: 1, driver: None, class: Class::Moving }), 0)
        };
        let sample = at(hour(30));
        let mut key = Some(name.clone().into_bytes());
        let mut headers = Headers::new();
        let mut control = |topic: &str, kind: &str, before: &str, before_ms| {
            let claim = Claim {
                topic,
                device: name.as_bytes(),
                kind: kind.as_bytes(),
                before_ms: DeviceTime(before_ms),
            };
            let sign = |by: &ControlKey| by.sign(&claim).into_bytes();
            headers.push((CONTROL_HEADER.into(), Some(kind.into())));
            headers.push((SIGNATURE_HEADER.into(), control_keys().signing().map(sign)));
            format!("{{\"before\":{before}}}")
        };
        let (soon, ahead) = (hour(30).to_string(), far.to_string());
        let value = match self {
            Self::Object => sample[..sample.len() - 1].to_owned(),
            Self::Array => format!("[{sample}, {{"),
            Self::Long => format!("{{\"other\": \"{}\"}}", "x".repeat(2 * MAX_LETTER)),
            Self::Large => "x".repeat(MAX_RECORD + 1),
            Self::NoValue | Self::NoKey | Self::OtherKey => sample,
            Self::Ahead => at(far),
            Self::UnknownKind => control(TOPIC, "remember", &soon, hour(30)),
            Self::ForgetAhead => control(TOPIC, "forget", &ahead, far),
            Self::NoTime => control(TOPIC, "forget", "true", hour(30)),
            Self::OtherTopic => control("others", "forget", &soon, hour(30)),
        };
        match self {
            Self::NoKey => key = None,
            Self::OtherKey => key = Some(b"z".to_vec()),
            _ => (),
        }
        let value = Some(value.into_bytes()).filter(|_| self != Self::NoValue);
        let elements = vec![value.clone().unwrap_or_default()];
        Encoded { key, value, headers, elements }
    }
}
