//! The settings of encodings and schemas, and the rules between them.

use std::path::Path;

use super::{Problem, Settings};
use crate::model::schema::{Encoding, SchemaSource};
use crate::registry::RegistryUrl;
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

/// Violated rules between the settings.
pub(super) fn problems(settings: &Settings) -> Vec<Problem> {
    let Settings { decode, schema, message, .. } = settings;
    let mut problems = Vec::new();
    let mut check = |holds: bool, keys: &'static [&'static str], message: String| {
        if !holds {
            problems.push(Problem { keys, message });
        }
    };
    let has_schema = matches!(decode, Encoding::Avro | Encoding::Protobuf);
    check(
        schema.is_none() || has_schema,
        &["schema", "decode"],
        format!("schema is set, but decode is {}; set decode to avro or protobuf", decode.name()),
    );
    check(
        message.is_none() || (*decode == Encoding::Protobuf && schema.is_some()),
        &["message", "decode", "schema"],
        "message names a message of a protobuf schema file; set decode to protobuf, and schema"
            .to_owned(),
    );
    check(
        settings.schema_registry_auth_file.is_empty() || !settings.schema_registry.is_empty(),
        &["schema_registry_auth_file", "schema_registry"],
        "schema_registry_auth_file is set, but schema_registry is not".to_owned(),
    );
    let url = RegistryUrl::parse(&settings.schema_registry);
    check(
        settings.schema_registry_auth_file.is_empty()
            || settings.schema_registry_plain_login
            || !url.is_ok_and(|url| url.is_exposed()),
        &["schema_registry", "schema_registry_auth_file"],
        format!(
            "the login in schema_registry_auth_file would be sent to `{}` without TLS; write \
             https, or set schema_registry_plain_login (--schema-registry-plain-login) to send it \
             in the clear",
            settings.schema_registry
        ),
    );
    problems
}
