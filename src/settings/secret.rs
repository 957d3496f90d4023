//! Files that hold secrets, and who may read them.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{Origin, Origins, Settings};
use crate::kafka::options::{SECRET_FILES, is_harmless};

/// What a file holds that is a secret.
pub struct Secret {
    /// As it stands there.
    pub bytes: Vec<u8>,
    /// What to tell the operator, where others may read it as well.
    pub warning: Option<String>,
}

/// Reads a file that holds a secret. Every such file of this program is read by this, so that
/// every one is warned of; `key` is the setting that names it.
///
/// # Errors
/// It cannot be read.
pub fn read_secret(key: &str, path: &Path) -> io::Result<Secret> {
    let mut file = File::open(path)?;
    // Of what was opened, not of what has that name by now.
    let warning = warning(key, path, &file.metadata()?);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Secret { bytes, warning })
}

/// What to tell of files with secrets that are read elsewhere, or were before the settings were
/// known: those that options of the Kafka client name, and the settings file where such an option
/// stands in it with its value.
#[must_use]
pub fn exposed_files(settings: &Settings, origins: &Origins) -> Vec<String> {
    let options = &settings.kafka;
    let named = SECRET_FILES.iter().filter_map(|name| Some((*name, options.get(*name)?.as_str())));
    let holds_one = options.keys().any(|name| !is_harmless(name));
    let file = match origins.get("kafka") {
        Some(Origin::File { name, .. }) if holds_one => Some(("settings file", name.as_str())),
        _ => None,
    };
    let files = named.chain(file).map(|(key, path)| (key, Path::new(path)));
    // One that is not there is told by who reads it.
    files.filter_map(|(key, path)| warning(key, path, &path.metadata().ok()?)).collect()
}

fn warning(key: &str, path: &Path, metadata: &Metadata) -> Option<String> {
    let mode = metadata.permissions().mode() & 0o777;
    let who = match (mode & 0o040 != 0, mode & 0o004 != 0) {
        (false, false) => return None,
        (true, false) => "its group",
        (_, true) => "every user",
    };
    let path = path.display();
    // A pipe, as a shell makes them for `<(...)`, is gone before anybody could change it.
    metadata.is_file().then(|| {
        format!("warning: {key} `{path}` can be read by {who} (mode {mode:04o}): chmod 600 {path}")
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn a_secret_that_others_may_read_is_warned_of() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "secret").unwrap();
        for (mode, who) in
            [(0o600, None), (0o400, None), (0o640, Some("its group")), (0o604, Some("every user"))]
        {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let secret = read_secret("token_file", &path).unwrap();
            assert_eq!(secret.bytes, b"secret");
            assert_eq!(secret.warning.is_some(), who.is_some(), "{mode:o}");
            if let Some(warning) = &secret.warning {
                let expected = [who.unwrap(), "token_file", "chmod 600", &format!("{mode:04o}")];
                assert!(expected.iter().all(|part| warning.contains(part)), "{warning}");
                assert!(!warning.contains("secret"), "{warning}");
            }
        }
        read_secret("token_file", &folder.path().join("none")).err().expect("it is not there");
    }

    #[test]
    fn files_that_the_client_reads_and_the_settings_file_are_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let [key, toml] = ["key.pem", "tstar.toml"].map(|it| folder.path().join(it));
        for path in [&key, &toml] {
            fs::write(path, "").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        }
        let told = |option: &str, value: &str, origin: Origin| {
            let kafka = [(option.to_owned(), value.to_owned())].into();
            let settings = Settings { kafka, ..Settings::default() };
            exposed_files(&settings, &[("kafka", origin)].into())
        };
        let in_file = || Origin::File { name: toml.display().to_string(), line: 1 };
        let key = key.to_str().unwrap();
        let [warning] = &told("ssl.key.location", key, in_file())[..] else { panic!("one") };
        assert!(warning.contains("ssl.key.location") && warning.contains("key.pem"), "{warning}");
        let [warning] = &told("sasl.password", "x", in_file())[..] else { panic!("one") };
        assert!(warning.contains("settings file") && warning.contains("tstar.toml"), "{warning}");
        let env = Origin::Env { name: "TSTAR_KAFKA".into() };
        assert!(told("sasl.password", "x", env).is_empty());
        assert!(told("linger.ms", "5", in_file()).is_empty());
        assert!(told("ssl.key.location", "none.pem", in_file()).is_empty());
    }
}
