//! Device ids as keys of the devices in memory.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use indexmap::Equivalent;

/// Maximum length of an id that needs no memory of its own, bytes.
const SHORT: usize = 22;

/// A device id. A short one lies in the struct itself, so that comparing it follows no pointer.
#[derive(Clone, Debug)]
pub(super) enum DeviceName {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Box<str>),
}

impl DeviceName {
    pub(super) fn new(text: &str) -> Self {
        match u8::try_from(text.len()) {
            Ok(length) if text.len() <= SHORT => {
                let mut bytes = [0; SHORT];
                bytes[..text.len()].copy_from_slice(text.as_bytes());
                Self::Short { length, bytes }
            }
            _ => Self::Long(text.into()),
        }
    }

    /// The id as text.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Short { .. } => str::from_utf8(self.bytes()).expect("it was made from a text"),
            Self::Long(text) => text,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => &bytes[..usize::from(*length)],
            Self::Long(text) => text.as_bytes(),
        }
    }

    /// Memory outside of the struct, bytes.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Short { .. } => 0,
            Self::Long(text) => text.len(),
        }
    }
}

impl Hash for DeviceName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.bytes());
    }
}

impl PartialEq for DeviceName {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for DeviceName {}

/// As in the indexes of stores: by bytes.
impl Ord for DeviceName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl PartialOrd for DeviceName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A device id that is looked up.
pub(super) struct NameRef<'a>(pub(super) &'a str);

impl Hash for NameRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.0.as_bytes());
    }
}

impl Equivalent<DeviceName> for NameRef<'_> {
    fn equivalent(&self, key: &DeviceName) -> bool {
        self.0.as_bytes() == key.bytes()
    }
}

#[cfg(test)]
mod tests {
    use indexmap::IndexSet;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_name_is_its_text(texts in prop::collection::vec("\\PC{0,12}|a{20,25}", 0..20)) {
            let names: IndexSet<_> = texts.iter().map(|text| DeviceName::new(text)).collect();
            let expected: IndexSet<_> = texts.iter().map(String::as_str).collect();
            prop_assert!(names.iter().map(DeviceName::as_str).eq(expected.iter().copied()));
            for text in &texts {
                let at = names.get_index_of(&NameRef(text));
                prop_assert_eq!(at, expected.get_index_of(text.as_str()));
                for other in &texts {
                    let order = DeviceName::new(text).cmp(&DeviceName::new(other));
                    prop_assert_eq!(order, text.cmp(other));
                }
            }
            prop_assert_eq!(names.get_index_of(&NameRef("none of these")), None);
        }
    }
}
