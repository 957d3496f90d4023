//! Files with secrets, and warnings about their permissions.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{Origin, Settings};
use crate::kafka::options::{SECRET_FILES, is_harmless};

/// The content of a file with a secret.
pub(crate) struct Secret {
    /// Content of the file.
    pub bytes: Vec<u8>,
    /// Warning for the operator if other users may read the file.
    pub warning: Option<String>,
}

/// Reads a file with a secret; `key` is the setting that names it. The program reads every such
/// file with this function, so that it warns about each.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read_secret(key: &str, path: &Path) -> io::Result<Secret> {
    let mut file = File::open(path)?;
    // The metadata of the open file: the file at the path may have been replaced.
    let warning = warning(key, path, &file.metadata()?);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Secret { bytes, warning })
}

/// Warnings about files with secrets that [`read_secret`] does not read: those that librdkafka
/// options name, and the settings file if it contains a secret option.
#[must_use]
pub(crate) fn exposed_files(settings: &Settings) -> Vec<String> {
    let options = &settings.kafka;
    let named = SECRET_FILES.iter().filter_map(|name| Some((*name, options.get(*name)?.as_str())));
    let holds_one = options.keys().any(|name| !is_harmless(name));
    let file = match settings.origins.get("kafka") {
        Some(Origin::File { name, .. }) if holds_one => Some(("settings file", name.as_str())),
        _ => None,
    };
    let password = Some(settings.kafka_password_file.as_str()).filter(|path| !path.is_empty());
    let password = password.map(|path| ("kafka_password_file", path));
    let files = named.chain(password).chain(file).map(|(key, path)| (key, Path::new(path)));
    // The reader of a missing file reports it.
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
    // Not for a pipe, such as that of a shell's `<(...)`, whose mode cannot be changed.
    metadata.is_file().then(|| {
        format!("warning: {key} `{path}` can be read by {who} (mode {mode:04o}): chmod 600 {path}")
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn warns_about_a_secret_that_others_may_read() {
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
        read_secret("token_file", &folder.path().join("none"))
            .err()
            .expect("the file does not exist");
    }

    #[test]
    fn warns_about_files_of_the_kafka_client_and_the_settings_file() {
        let folder = tempfile::tempdir().unwrap();
        let [key, toml] = ["key.pem", "tstar.toml"].map(|it| folder.path().join(it));
        for path in [&key, &toml] {
            fs::write(path, "").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        }
        let warnings = |option: &str, value: &str, origin: Origin| {
            let kafka = [(option.to_owned(), value.to_owned())].into();
            let origins = [("kafka", origin)].into();
            exposed_files(&Settings { kafka, origins, ..Settings::default() })
        };
        let in_file = || Origin::File { name: toml.display().to_string(), line: 1 };
        let key = key.to_str().unwrap();
        let [warning] = &warnings("ssl.key.location", key, in_file())[..] else {
            panic!("one warning")
        };
        assert!(warning.contains("ssl.key.location") && warning.contains("key.pem"), "{warning}");
        let [warning] = &warnings("sasl.password", "x", in_file())[..] else {
            panic!("one warning")
        };
        assert!(warning.contains("settings file") && warning.contains("tstar.toml"), "{warning}");
        let env = Origin::Env { name: "TSTAR_KAFKA".into() };
        assert!(warnings("sasl.password", "x", env).is_empty());
        assert!(warnings("linger.ms", "5", in_file()).is_empty());
        assert!(warnings("ssl.key.location", "none.pem", in_file()).is_empty());
    }
}
