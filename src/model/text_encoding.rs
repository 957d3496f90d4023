//! Encodings of text files.

use encoding_rs::Encoding;

/// An encoding of text, by a name of the Encoding Standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextEncoding(&'static Encoding);

impl TextEncoding {
    /// That of most files that are not UTF-8: Latin-1 and what Windows adds to it.
    pub(crate) const WINDOWS_1252: Self = Self(encoding_rs::WINDOWS_1252);

    /// The encoding with a name, such as `cp1252`, `latin1` or `utf-8`, in any case. ASCII is a
    /// part of each.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let found = Encoding::for_label_no_replacement(name.as_bytes());
        found.filter(|encoding| encoding.is_ascii_compatible()).map(Self)
    }

    /// Its name, in lower case.
    pub(crate) fn name(self) -> String {
        self.label().to_lowercase()
    }

    /// Its name in the Encoding Standard.
    pub(crate) fn label(self) -> &'static str {
        self.0.name()
    }

    /// The encoding to convert from; `None` if it is UTF-8.
    pub(crate) fn source(self) -> Option<&'static Encoding> {
        (self.0 != encoding_rs::UTF_8).then_some(self.0)
    }
}
