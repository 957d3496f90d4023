//! Tags as JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::{ViewError, text_id};
use crate::model::tag::{Tag, TripTag, TripTags};
use crate::model::time::format_time;

/// The tags of a trip or device: the value of each key.
pub(crate) type TagValues = BTreeMap<String, String>;

/// The values of tags, without their history.
#[must_use]
pub(crate) fn tag_values(tags: &TripTags) -> TagValues {
    let value = |found: &TripTag| found.tag.value.as_str().to_owned();
    tags.iter().map(|(key, found)| (key.as_str().to_owned(), value(found))).collect()
}

/// The text id at which a tag was set; `None` for a tag of a device.
///
/// # Errors
/// The id has no text form.
pub(crate) fn tagged_id(device_id: &str, tag: &Tag) -> Result<Option<String>, ViewError> {
    (!tag.is_of_device()).then(|| text_id(device_id, tag.t_star_ms)).transpose()
}

/// A tag as it was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct TagJson {
    /// The value.
    #[schema(example = "business")]
    pub value: String,
    /// The trip id at which it was set, which a merge may have retired since; null for a tag of a
    /// device.
    #[schema(example = "truck-17~20261120T213800.123Z")]
    pub id: Option<String>,
    /// When it was written, by the clock of the server.
    #[schema(example = "2026-11-21T08:00:00.000Z")]
    pub time: String,
    /// Identifies this write; `ETag` without its quotes.
    #[schema(example = "9f86d081884c7d65")]
    pub revision: String,
}

/// A tag of a trip or device, with those of other ids of the trip that it supersedes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct TripTagJson {
    /// The key.
    #[schema(example = "purpose")]
    pub key: String,
    /// The tag that counts: the newest.
    #[serde(flatten)]
    pub tag: TagJson,
    /// Older tags of this key, set at other ids of the trip; the newest first.
    pub superseded: Vec<TagJson>,
}

impl TagJson {
    /// A tag of a device or of a trip of it.
    ///
    /// # Errors
    /// Its id has no text form.
    pub fn new(device_id: &str, tag: &Tag) -> Result<Self, ViewError> {
        Ok(Self {
            value: tag.value.as_str().to_owned(),
            id: tagged_id(device_id, tag)?,
            time: format_time(tag.written_ms),
            revision: tag.revision.to_string(),
        })
    }
}

impl TripTagJson {
    /// A tag of a device or of a trip of it.
    ///
    /// # Errors
    /// An id has no text form.
    pub fn new(device_id: &str, found: &TripTag) -> Result<Self, ViewError> {
        let older = found.superseded.iter().map(|tag| TagJson::new(device_id, tag));
        Ok(Self {
            key: found.tag.key.to_string(),
            tag: TagJson::new(device_id, &found.tag)?,
            superseded: older.collect::<Result<_, _>>()?,
        })
    }
}

/// All tags of a device or of a trip of it, by key.
///
/// # Errors
/// An id has no text form.
pub fn trip_tags(device_id: &str, tags: &TripTags) -> Result<Vec<TripTagJson>, ViewError> {
    tags.values().map(|found| TripTagJson::new(device_id, found)).collect()
}
