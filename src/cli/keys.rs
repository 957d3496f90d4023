//! The file of control keys.

#[cfg(unix)]
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use tstar::control::ControlKeys;
use tstar::settings::Settings;

use super::exit::{self, Refused};

/// The keys of `control_key_file`; none where it is not set. What the file holds is never printed.
///
/// # Errors
/// The file cannot be read, or a line of it is not a key.
pub fn read(settings: &Settings) -> anyhow::Result<ControlKeys> {
    let path = &settings.control_key_file;
    if path.is_empty() {
        return Ok(ControlKeys::default());
    }
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("control_key_file `{path}` cannot be read"))?;
    if is_open(Path::new(path)) {
        exit::say(&format!(
            "warning: control_key_file `{path}` can be read by other users of this machine, who \
             can erase then; chmod 600 {path}"
        ));
    }
    let problem = |error| Refused(format!("control_key_file `{path}`: {error}"));
    Ok(ControlKeys::parse(&text).map_err(problem)?)
}

/// Whether others than the owner and the group may read a file: a mounted secret is its group's.
#[cfg(unix)]
fn is_open(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
}

#[cfg(not(unix))]
fn is_open(_: &Path) -> bool {
    false
}
