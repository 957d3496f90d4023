//! Maps the names in a record to the fields of a sample.

use std::collections::BTreeMap;

use super::text::short;
use crate::model::reading::{READINGS, ReadingKind, readings};

macro_rules! define_fields {
    ($($kind:ident: $raw:ident, $quanta:ident, $present:ident $details:tt)*) => {
        /// A field of a sample.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Field {
            DeviceId,
            Time,
            Lat,
            Lon,
            $($kind,)*
            Driver,
            Ignition,
        }

        impl Field {
            pub(super) const COUNT: usize = 6 + READINGS;

            pub(super) const ALL: [Self; Self::COUNT] = [
                Self::DeviceId,
                Self::Time,
                Self::Lat,
                Self::Lon,
                $(Self::$kind,)*
                Self::Driver,
                Self::Ignition,
            ];

            /// The fields of the readings.
            pub(super) const READINGS: [(Self, ReadingKind); READINGS] =
                [$((Self::$kind, ReadingKind::$kind)),*];

            /// The canonical name, then the aliases.
            pub(super) fn names(self) -> &'static [&'static str] {
                match self {
                    Self::DeviceId => &["device_id", "deviceId", "device"],
                    Self::Time => &["time", "ts", "timestamp"],
                    Self::Lat => &["lat", "latitude"],
                    Self::Lon => &["lon", "longitude", "lng"],
                    $(Self::$kind => ReadingKind::$kind.names(),)*
                    Self::Driver => &["driver"],
                    Self::Ignition => &["ignition"],
                }
            }

            /// The reading that the field is.
            #[inline]
            pub(super) fn reading(self) -> Option<ReadingKind> {
                match self {
                    $(Self::$kind => Some(ReadingKind::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

readings!(define_fields);

impl Field {
    /// The fields that every sample must have.
    pub(super) const REQUIRED: [Self; 4] = [Self::DeviceId, Self::Time, Self::Lat, Self::Lon];

    /// The canonical name.
    pub(super) fn name(self) -> &'static str {
        self.names()[0]
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }
}

/// An invalid field map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MapError(String);

impl MapError {
    /// An error of the rules about records.
    pub(super) fn new(problem: String) -> Self {
        Self(problem)
    }
}

/// Parses a field map such as `device_id=vehicle,lat=/gps/lat`: from canonical names to names or
/// JSON Pointers in the record.
///
/// # Errors
/// An unknown or repeated canonical name, an empty part, or an invalid pointer.
pub fn parse_map(text: &str) -> Result<BTreeMap<String, String>, MapError> {
    let mut map = BTreeMap::new();
    for part in text.split(',').map(str::trim) {
        let Some((field, name)) = part.split_once('=') else {
            return Err(MapError(format!(
                "{} is not FIELD=NAME; write for example device_id=vehicle,lat=/gps/lat",
                short(part)
            )));
        };
        let (field, name) = (field.trim(), name.trim());
        check(field, name)?;
        if map.insert(field.to_owned(), name.to_owned()).is_some() {
            return Err(MapError(format!("{} is mapped twice; keep one", short(field))));
        }
    }
    Ok(map)
}

fn check(field: &str, name: &str) -> Result<(), MapError> {
    if Field::from_name(field).is_none() {
        let known = Field::ALL.map(Field::name).join(", ");
        return Err(MapError(format!("{} is not a field; the fields are {known}", short(field))));
    }
    if name.is_empty() {
        return Err(MapError(format!("{field} is mapped to an empty name; write {field}=NAME")));
    }
    let bad_escape =
        |token: &str| token.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1']));
    if name.starts_with('/') && bad_escape(name) {
        return Err(MapError(format!(
            "{field}={} is not a JSON Pointer; write ~ as ~0 and / as ~1",
            short(name)
        )));
    }
    Ok(())
}

/// A field that a name in a record maps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) field: Field,
    /// 0 for the canonical or mapped name, else the index of the alias in [`Field::names`].
    pub(super) rank: u8,
}

/// A node in the tree of names to look for; the root is the record itself.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) children: Vec<Child>,
    /// The fields that the value of this node maps to.
    pub(super) targets: Vec<Target>,
    /// For each hash of a name, a bit set of the children with that hash.
    buckets: [u32; 32],
}

#[derive(Debug)]
pub(super) struct Child {
    pub(super) name: Box<str>,
    /// The name as an array index.
    index: Option<u32>,
    pub(super) node: Node,
}

/// Hash of a name: the bucket of a [`Node`]. Spreads the documented names over the buckets.
fn bucket(name: &str) -> usize {
    let first = name.as_bytes().first().copied().unwrap_or(0);
    (usize::from(first) ^ name.len().wrapping_mul(5)) & 31
}

impl Node {
    /// Index of the child with this name.
    #[inline]
    pub(super) fn child(&self, name: &str) -> Option<usize> {
        let mut candidates = self.buckets[bucket(name)];
        while candidates != 0 {
            let at = candidates.trailing_zeros() as usize;
            if &*self.children[at].name == name {
                return Some(at);
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// Index of the child for an array element.
    pub(super) fn element(&self, index: u32) -> Option<usize> {
        self.children.iter().position(|child| child.index == Some(index))
    }

    /// The node at `path`; creates missing nodes.
    fn entry(&mut self, mut path: impl Iterator<Item = String>) -> &mut Self {
        let Some(name) = path.next() else { return self };
        let at = self.child(&name).unwrap_or_else(|| {
            let at = self.children.len();
            assert!(at < 32, "a bucket has one bit for each child");
            self.buckets[bucket(&name)] |= 1 << at;
            // "01" is a name, but not an index.
            let index = name.parse().ok().filter(|index: &u32| index.to_string() == name);
            self.children.push(Child { name: name.into(), index, node: Self::default() });
            at
        });
        self.children[at].node.entry(path)
    }
}

/// Builds the tree of names to look for, under a field map.
///
/// # Errors
/// As for [`parse_map`]: a map from a settings file is not checked yet.
pub(super) fn names(map: &BTreeMap<String, String>) -> Result<Node, MapError> {
    for (field, name) in map {
        check(field, name)?;
    }
    let mut root = Node::default();
    for field in Field::ALL {
        match map.get(field.name()) {
            Some(pointer) if pointer.starts_with('/') => {
                let tokens = pointer[1..].split('/');
                let path = tokens.map(|token| token.replace("~1", "/").replace("~0", "~"));
                root.entry(path).targets.push(Target { field, rank: 0 });
            }
            Some(name) => {
                let path = std::iter::once(name.clone());
                root.entry(path).targets.push(Target { field, rank: 0 });
            }
            None => {
                for (rank, name) in (0..).zip(field.names()) {
                    let path = std::iter::once((*name).to_owned());
                    root.entry(path).targets.push(Target { field, rank });
                }
            }
        }
    }
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_fields_are_found() {
        let root = names(&BTreeMap::new()).unwrap();
        for field in Field::ALL {
            for (rank, name) in (0..).zip(field.names()) {
                let child = &root.children[root.child(name).unwrap()];
                assert_eq!(child.node.targets, [Target { field, rank }]);
            }
        }
        for name in ["", "Lat", "latitud", "x", "LAT", "device_ID", "dev"] {
            assert_eq!(root.child(name), None, "{name}");
        }
    }

    #[test]
    fn a_map_is_parsed() {
        let map = parse_map("device_id=vehicle, lat=/gps/lat,driver=a=b").unwrap();
        assert_eq!(map["device_id"], "vehicle");
        assert_eq!(map["lat"], "/gps/lat");
        assert_eq!(map["driver"], "a=b");
        assert!(names(&map).unwrap().child("lat").is_none());
    }

    #[test]
    fn an_invalid_map_has_a_reason() {
        for (text, why) in [
            ("", "is not FIELD=NAME"),
            ("lat", "is not FIELD=NAME"),
            ("lat=a,", "is not FIELD=NAME"),
            ("latitude=a", "is not a field; the fields are device_id, time, lat"),
            ("lat=", "empty name"),
            ("lat=a,lat=b", "mapped twice"),
            ("lat=/a~2", "is not a JSON Pointer"),
            ("lat=/a~", "is not a JSON Pointer"),
        ] {
            let message = parse_map(text).unwrap_err().to_string();
            assert!(message.contains(why), "{text}: {message}");
        }
        let map = BTreeMap::from([("latitude".to_owned(), "x".to_owned())]);
        assert!(names(&map).is_err());
    }
}
