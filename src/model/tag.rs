//! Tags of trips and devices: what users say of a trip, such as `purpose=business`, or a note, and
//! of a device, such as `name=Blue van`.
//!
//! A tag is user data and no function of the log. It is set at an id, which is a time of the
//! device, and belongs to the trip that covers this time. So a merge keeps the tags of both trips.
//! If several ids of a trip have the same key, the newest tag counts; the others are superseded.
//! A tag of a device is set at [`DEVICE_TIME`].

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::model::scalar::DeviceTime;

/// Maximum length of a key, bytes.
pub(crate) const MAX_KEY_BYTES: usize = 64;

/// Maximum length of a value, bytes: a note of a page.
pub const MAX_VALUE_BYTES: usize = 4096;

/// Maximum number of keys of a trip or device.
pub(crate) const MAX_KEYS: usize = 64;

/// The time of the tags of a device: the last ms before the year 0. No trip covers it, as none
/// begins before 1970, and no id of a trip has it, as ids have years from 0000.
pub const DEVICE_TIME: DeviceTime = DeviceTime(-62_167_219_200_001);

/// What is wrong with a tag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TagProblem {
    /// The key is not valid.
    #[error("`{0}` is not a valid key of a tag; write 1 to 64 of A-Z a-z 0-9 . _ -")]
    Key(String),
    /// The value is too long.
    #[error("a value of {bytes} bytes is longer than {MAX_VALUE_BYTES}; shorten it")]
    Long {
        /// Its length.
        bytes: usize,
    },
    /// The value has a control character that is neither tab nor line break.
    #[error("the value has a control character ({0}); only tabs and line breaks are allowed")]
    Control(String),
}

/// The key of a tag.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagKey(String);

impl TagKey {
    /// The key of a stored tag, which another program may have written: any text.
    pub(crate) fn from_store(text: String) -> Self {
        Self(text)
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TagKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TagKey {
    type Err = TagProblem;

    fn from_str(text: &str) -> Result<Self, TagProblem> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if (1..=MAX_KEY_BYTES).contains(&text.len()) && text.bytes().all(is_valid) {
            return Ok(Self(text.to_owned()));
        }
        let head: String = text.chars().take(MAX_KEY_BYTES).collect();
        Err(TagProblem::Key(head))
    }
}

/// The value of a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagValue(String);

impl TagValue {
    /// A value.
    ///
    /// # Errors
    /// It is too long, or has control characters.
    pub fn new(text: impl Into<String>) -> Result<Self, TagProblem> {
        let text = text.into();
        if text.len() > MAX_VALUE_BYTES {
            return Err(TagProblem::Long { bytes: text.len() });
        }
        let wrong = text.chars().find(|it| it.is_control() && !"\t\r\n".contains(*it));
        match wrong {
            Some(wrong) => Err(TagProblem::Control(wrong.escape_unicode().to_string())),
            None => Ok(Self(text)),
        }
    }

    /// The value of a stored tag, which another program may have written: any text.
    pub(crate) fn from_store(text: String) -> Self {
        Self(text)
    }

    /// The value as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Identifies a write of a tag: every write has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revision(pub i64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Revision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_hex = text.len() == 16 && text.bytes().all(|it| it.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| is_hex);
        number.map(|number| Self(number.cast_signed())).ok_or_else(|| {
            format!("`{text}` is not a revision of a tag; use the one of an earlier answer")
        })
    }
}

/// A tag as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Time of the id at which it was set; of a tag of a device, [`DEVICE_TIME`].
    pub t_star_ms: DeviceTime,
    /// Its key.
    pub key: TagKey,
    /// Its value.
    pub value: TagValue,
    /// When it was written, by the clock of the writer, ms since 1970.
    pub written_ms: i64,
    /// The write that set it.
    pub revision: Revision,
}

impl Tag {
    /// Whether it is a tag of a device, not of a trip.
    #[must_use]
    pub fn is_of_device(&self) -> bool {
        self.t_star_ms == DEVICE_TIME
    }

    /// Of two tags of a trip with the same key, the greater one counts.
    fn rank(&self) -> (i64, DeviceTime) {
        (self.written_ms, self.t_star_ms)
    }
}

/// The tag of a trip or device that counts for its key, and those that it supersedes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TripTag {
    /// The newest tag.
    pub tag: Tag,
    /// Older tags of the same key, set at other ids of the trip; the newest first.
    pub superseded: Vec<Tag>,
}

/// The tags of a trip or device, by key.
pub type TripTags = BTreeMap<TagKey, TripTag>;

/// Resolves the tags that were set at the ids of one trip.
#[must_use]
pub fn resolve(tags: impl IntoIterator<Item = Tag>) -> TripTags {
    let mut resolved = TripTags::new();
    let mut tags: Vec<Tag> = tags.into_iter().collect();
    tags.sort_by_key(|tag| std::cmp::Reverse(tag.rank()));
    for tag in tags {
        match resolved.get_mut(&tag.key) {
            Some(newest) => newest.superseded.push(tag),
            None => {
                let key = tag.key.clone();
                resolved.insert(key, TripTag { tag, superseded: Vec::new() });
            }
        }
    }
    resolved
}

/// Selects trips or devices by a tag: `key=value`, or `key` for any value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagFilter {
    key: TagKey,
    value: Option<TagValue>,
}

impl TagFilter {
    /// Whether a trip or device with these tags is selected.
    #[must_use]
    pub fn accepts(&self, tags: &TripTags) -> bool {
        let found = tags.get(&self.key);
        found.is_some_and(|found| self.value.as_ref().is_none_or(|value| found.tag.value == *value))
    }
}

impl FromStr for TagFilter {
    type Err = TagProblem;

    fn from_str(text: &str) -> Result<Self, TagProblem> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key, Some(TagValue::new(value)?)),
            None => (text, None),
        };
        Ok(Self { key: key.parse()?, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(t_star_ms: i64, key: &str, value: &str, written_ms: i64) -> Tag {
        Tag {
            t_star_ms: DeviceTime(t_star_ms),
            key: key.parse().unwrap(),
            value: TagValue::new(value).unwrap(),
            written_ms,
            revision: Revision(written_ms),
        }
    }

    #[test]
    fn the_newest_tag_of_a_key_counts() {
        let tags = [
            tag(10, "purpose", "business", 5),
            tag(30, "purpose", "private", 7),
            tag(20, "purpose", "unknown", 7),
            tag(10, "note", "toll", 9),
        ];
        let resolved = resolve(tags.clone());
        let purpose = &resolved[&"purpose".parse::<TagKey>().unwrap()];
        assert_eq!(purpose.tag, tags[1], "written at the same time, the later id counts");
        assert_eq!(purpose.superseded, [tags[2].clone(), tags[0].clone()]);
        assert_eq!(resolved.len(), 2);
        let accepts = |text: &str| text.parse::<TagFilter>().unwrap().accepts(&resolved);
        assert!(accepts("purpose") && accepts("purpose=private") && accepts("note=toll"));
        assert!(!accepts("purpose=business") && !accepts("driver") && !accepts("purpose="));
    }

    #[test]
    fn keys_and_values_are_bounded() {
        for key in ["", "a b", "ä", "a/b", "a=b", &"k".repeat(65)] {
            assert!(matches!(key.parse::<TagKey>(), Err(TagProblem::Key(_))), "{key}");
        }
        assert_eq!("Cost.Centre_4-2".parse::<TagKey>().unwrap().as_str(), "Cost.Centre_4-2");
        TagValue::new("").unwrap();
        TagValue::new("two\nlines\tand ünïcode").unwrap();
        TagValue::new("v".repeat(MAX_VALUE_BYTES)).unwrap();
        let long = TagValue::new("v".repeat(MAX_VALUE_BYTES + 1));
        assert_eq!(long, Err(TagProblem::Long { bytes: MAX_VALUE_BYTES + 1 }));
        let control = TagValue::new("a\u{0}b").unwrap_err();
        assert!(control.to_string().contains("\\u{0}"), "{control}");
    }

    #[test]
    fn a_revision_has_one_spelling() {
        for number in [0, 1, -1, i64::MIN, i64::MAX] {
            assert_eq!(Revision(number).to_string().parse(), Ok(Revision(number)));
        }
        for wrong in ["", "1", "+00000000000000f", "00000000000000000", "zzzzzzzzzzzzzzzz"] {
            wrong.parse::<Revision>().unwrap_err();
        }
    }
}
