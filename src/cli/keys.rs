//! The file of control keys.

use crate::ops::PreconditionFailed;
use std::path::Path;

use crate::model::control::ControlKeys;
use crate::settings::{Settings, read_secret};
use anyhow::Context as _;

use super::exit;

/// Reads the keys of `control_key_file`; none if it is not set. Its content is never printed.
///
/// # Errors
/// The file cannot be read, or a line of it is not a key.
pub fn read(settings: &Settings) -> anyhow::Result<ControlKeys> {
    let path = &settings.control_key_file;
    if path.is_empty() {
        return Ok(ControlKeys::default());
    }
    let secret = read_secret("control_key_file", Path::new(path));
    let secret = secret.with_context(|| format!("control_key_file `{path}` cannot be read"))?;
    secret.warning.iter().for_each(|warning| exit::print_status(warning));
    // The error of the conversion contains the bytes, so it is discarded.
    let text = String::from_utf8(secret.bytes)
        .map_err(|_| PreconditionFailed(format!("control_key_file `{path}` is not UTF-8")))?;
    let problem = |error| PreconditionFailed(format!("control_key_file `{path}`: {error}"));
    Ok(ControlKeys::parse(&text).map_err(problem)?)
}
