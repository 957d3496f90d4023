//! Maps the names in a record to the fields of a sample.

use super::heads::Heads;
use super::map::{FieldMap, MapError, SamplePath, Source, Sources, Token, fail};
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

            /// The reading that it is.
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

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }
}

/// The names under which a field is found without a map: the canonical name, then the aliases.
#[must_use]
pub(crate) fn names_of_field(name: &str) -> &'static [&'static str] {
    Field::from_name(name).map_or(&[], Field::names)
}

/// The canonical names of all fields.
#[must_use]
pub(crate) fn field_names() -> [&'static str; Field::COUNT] {
    Field::ALL.map(Field::name)
}

/// Maximum number of names in one object: a bucket of a [`Node`] has one bit for each.
const MAX_NAMES: usize = 32;

/// What a value is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A field of the sample.
    Field(Field),
    /// A value that decides whether the sample is read, or a part of one: index in [`extras`].
    Extra(u8),
}

/// A place that a name in a record maps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) place: Place,
    /// 0 for the canonical name, else the index of the alias in [`Field::names`]; of a mapped
    /// field, the index of the source.
    pub(super) rank: u8,
    /// Whether the sources are listed in a map: the lowest rank with a value wins. Otherwise they
    /// are aliases, of which two are ambiguous.
    pub(super) is_listed: bool,
    /// The part of the text that counts, from 0; unset: the whole value.
    pub(super) part: Option<u8>,
}

impl Target {
    /// The field, if it is one.
    pub(super) fn field(&self) -> Option<Field> {
        match self.place {
            Place::Field(field) => Some(field),
            Place::Extra(_) => None,
        }
    }
}

/// A node in the tree of names to look for; the root is the record itself.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) children: Vec<Child>,
    /// Children that are elements of an array, selected by a member.
    pub(super) members: Vec<Member>,
    /// The places that the value of this node maps to.
    pub(super) targets: Vec<Target>,
    /// Whether a text at this node contains JSON that replaces it.
    pub(super) opens: bool,
    /// Whether this node is the array of the samples.
    pub(super) is_array: bool,
    /// Whether records with this name are not samples themselves, but may have arrays of samples.
    pub(super) is_outer: bool,
    /// What is remembered of the names in objects.
    pub(super) heads: Heads,
    /// For each hash of a name, a bit set of the children with that hash.
    buckets: [u32; 32],
}

impl Node {
    /// Whether elements below it are selected by a member.
    pub(super) fn has_members(&self) -> bool {
        !self.members.is_empty() || self.children.iter().any(|child| child.node.has_members())
    }
}

#[derive(Debug)]
pub(super) struct Child {
    pub(super) name: Box<str>,
    /// The name as an array index.
    index: Option<u32>,
    pub(super) node: Node,
}

/// The first element of an array whose member `name` has this value.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Box<str>,
    pub(super) value: Box<str>,
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
    fn entry(&mut self, path: &[Token]) -> Result<&mut Self, MapError> {
        let Some((token, rest)) = path.split_first() else { return Ok(self) };
        match token {
            // It is a part of the value of this node.
            Token::Part(_) => Ok(self),
            Token::Name(name) => {
                let at = match self.child(name) {
                    Some(at) => at,
                    None => self.add_child(name)?,
                };
                self.children[at].node.entry(rest)
            }
            Token::Member { name, value } => {
                let is_same = |member: &Member| (&member.name, &member.value) == (name, value);
                let at = self.members.iter().position(is_same).unwrap_or_else(|| {
                    let (name, value) = (name.clone(), value.clone());
                    self.members.push(Member { name, value, node: Self::default() });
                    self.members.len() - 1
                });
                if at >= MAX_NAMES {
                    return fail(format!(
                        "the field map selects over {MAX_NAMES} elements of one array"
                    ));
                }
                self.members[at].node.entry(rest)
            }
        }
    }

    /// Adds a child with a new name and returns its index.
    fn add_child(&mut self, name: &str) -> Result<usize, MapError> {
        let at = self.children.len();
        if at >= MAX_NAMES {
            return fail(format!("the field map looks for over {MAX_NAMES} names in one object"));
        }
        self.buckets[bucket(name)] |= 1 << at;
        // "01" is a name, but not an index.
        let index = name.parse().ok().filter(|index: &u32| index.to_string() == name);
        self.children.push(Child { name: name.into(), index, node: Self::default() });
        Ok(at)
    }

    fn add_sources(&mut self, place: Place, sources: &Sources) -> Result<(), MapError> {
        let is_listed = sources.list.len() > 1;
        for (rank, source) in (0..).zip(&sources.list) {
            if let Source::Record(path) = source {
                let part = match path.last() {
                    Some(Token::Part(part)) => Some(*part),
                    _ => None,
                };
                self.entry(path)?.targets.push(Target { place, rank, is_listed, part });
            }
        }
        Ok(())
    }
}

/// The sources of the values that decide whether a sample is read: of `valid`, then of each
/// condition; then the parts of values that are joined.
pub(super) fn extras(map: &FieldMap) -> Vec<Sources> {
    let unnamed = |list: Vec<Source>| Sources { text: String::new(), list };
    let conditions = map.when.iter().map(|condition| unnamed(condition.sources.clone()));
    let parts = joined(map).flat_map(|(_, _, parts)| parts);
    let parts = parts.map(|path| unnamed(vec![Source::Record(path.clone())]));
    map.valid.iter().cloned().chain(conditions).chain(parts).collect()
}

/// The joined sources of a map: the field, the rank of the source, and its parts.
pub(super) fn joined(map: &FieldMap) -> impl Iterator<Item = (Field, usize, &Vec<Vec<Token>>)> {
    let sources = Field::ALL.into_iter().filter_map(|field| Some((field, map.sources(field)?)));
    sources.flat_map(|(field, sources)| {
        sources.list.iter().enumerate().filter_map(move |(rank, source)| match source {
            Source::Joined(parts) => Some((field, rank, parts)),
            _ => None,
        })
    })
}

/// The trees of names to look for.
#[derive(Debug)]
pub(super) struct Names {
    /// For each path of samples, in the record and in each array of arrays of samples.
    pub outer: Vec<Vec<Node>>,
    /// In a sample.
    pub root: Node,
}

/// Builds the trees of names to look for, under a field map.
///
/// # Errors
/// The map has too many names.
pub(super) fn names(map: &FieldMap) -> Result<Names, MapError> {
    let paths = map.samples.as_ref().map_or(&[][..], |SamplePath { list, .. }| list);
    let around = |array: &Vec<Token>| {
        let mut root = level(map, false)?;
        root.entry(array)?.is_array = true;
        Ok(root)
    };
    let outer = paths.iter().map(|arrays| arrays.iter().map(around).collect());
    let outer = outer.collect::<Result<_, _>>()?;
    let mut root = level(map, true)?;
    if map.samples.as_ref().is_some_and(|samples| samples.or_record) {
        for arrays in paths {
            root.entry(&arrays[0][..1])?.is_outer = true;
        }
    }
    Ok(Names { outer, root })
}

/// The tree of a sample, or of what is around samples.
fn level(map: &FieldMap, is_sample: bool) -> Result<Node, MapError> {
    let mut root = Node::default();
    for field in Field::ALL {
        let place = Place::Field(field);
        match map.sources(field) {
            Some(sources) => root.add_sources(place, sources)?,
            // Around samples, a time or a speed is likely to be that of something else.
            None if is_sample || matches!(field, Field::DeviceId | Field::Driver) => {
                for (rank, name) in (0..).zip(field.names()) {
                    let target = Target { place, rank, is_listed: false, part: None };
                    root.entry(&[Token::Name((*name).into())])?.targets.push(target);
                }
            }
            None => {}
        }
    }
    for (index, sources) in (0..).zip(extras(map)) {
        root.add_sources(Place::Extra(index), &sources)?;
    }
    if let Some((_, path)) = &map.open {
        root.entry(path)?.opens = true;
    }
    Ok(root)
}

/// The names to look for in a sample, by the text of a map.
#[cfg(test)]
pub(super) fn root_of(map: &str) -> Node {
    let map = super::parse_map(map).expect("the map is valid");
    names(&FieldMap::new(&map).expect("the map is valid")).expect("the names are few").root
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::source::parse_map;

    fn tree(map: &str) -> Result<Vec<Node>, MapError> {
        let map = if map.is_empty() { BTreeMap::new() } else { parse_map(map)? };
        let Names { outer, root } = names(&FieldMap::new(&map)?)?;
        Ok(outer.into_iter().flatten().chain([root]).collect())
    }

    #[test]
    fn only_the_names_of_fields_are_found() {
        let root = tree("").unwrap().remove(0);
        for field in Field::ALL {
            for (rank, name) in (0..).zip(field.names()) {
                let child = &root.children[root.child(name).unwrap()];
                let place = Place::Field(field);
                assert_eq!(
                    child.node.targets,
                    [Target { place, rank, is_listed: false, part: None }]
                );
            }
        }
        for name in ["", "Lat", "latitud", "x", "LAT", "device_ID", "dev"] {
            assert_eq!(root.child(name), None, "{name}");
        }
        assert!(tree("lat=/gps/lat").unwrap()[0].child("lat").is_none());
    }

    #[test]
    fn around_samples_only_device_and_driver_keep_their_names() {
        let levels = tree("samples=/data/*/gps,speed=/kmh").unwrap();
        assert_eq!(levels.len(), 3);
        for (root, is_sample) in levels.iter().zip([false, false, true]) {
            for name in ["time", "lat", "lon", "heading"] {
                assert_eq!(root.child(name).is_some(), is_sample, "{name}");
            }
            for name in ["device", "driver", "kmh"] {
                assert!(root.child(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn the_number_of_names_is_limited() {
        let many: Vec<_> = (0..16).map(|nth| format!("/a{nth}")).collect();
        let map = format!("lat={}", many.join("|"));
        assert!(tree(&map).unwrap_err().to_string().contains("over 32 names"));
        let fields = ["time", "lat", "lon"].map(|field| {
            let many: Vec<_> = (0..16).map(|nth| format!("/x/[{field}={nth}]/v")).collect();
            format!("{field}={}", many.join("|"))
        });
        let error = tree(&fields.join(",")).unwrap_err().to_string();
        assert!(error.contains("over 32 elements"), "{error}");
    }
}
