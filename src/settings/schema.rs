//! Files with schemas.

use std::path::Path;

use crate::model::schema::SchemaSource;
use crate::source::read_schema;

/// A schema that was read from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFile {
    /// Path as given.
    pub path: String,
    /// The schema, with all that it refers to.
    pub source: SchemaSource,
}

/// Reads a schema file; with an empty path there is none.
pub(super) fn read(path: &str) -> Result<Option<SchemaFile>, String> {
    if path.is_empty() {
        return Ok(None);
    }
    let source = read_schema(Path::new(path))?;
    Ok(Some(SchemaFile { path: path.to_owned(), source }))
}

/// The path of a schema file.
pub(super) fn path_of(file: &Option<SchemaFile>) -> String {
    file.as_ref().map(|file| file.path.clone()).unwrap_or_default()
}
