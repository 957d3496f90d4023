//! What readers remember of names in records, next to the names of the field map.

use std::sync::OnceLock;

/// Maximum number of names that are remembered at a node.
pub(super) const MAX_HEADS: usize = 48;

/// Maximum length of the bytes before a value that are remembered.
pub(super) const MAX_HEAD: usize = 100;

/// What is remembered of the names in the objects of a node.
#[derive(Debug)]
pub(super) struct Heads(pub Box<[OnceLock<Head>]>);

/// The bytes before a value, such as `,"lat":`.
#[derive(Debug)]
pub(super) struct Head {
    pub bytes: Box<[u8]>,
    /// Whether they begin an object.
    pub is_first: bool,
    /// The child that the name is.
    pub child: Option<usize>,
}

impl Default for Heads {
    fn default() -> Self {
        Self((0..MAX_HEADS).map(|_| OnceLock::new()).collect())
    }
}
