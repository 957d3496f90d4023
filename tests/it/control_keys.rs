//! Only the operator erases: control records count only if signed by a key that the store names.

mod rotation;
mod unsigned;

use std::os::unix::fs::PermissionsExt;

use tstar::internals::kafka::producer::ProducerRecord;
use tstar::internals::model::control::{Claim, ControlKey, ControlKeys};
use tstar::internals::model::scalar::DeviceTime;

use crate::cli::Folder;
use crate::topic::file::until_read;
use crate::topic::{Topic, drain, start};

/// Name of the tests' signing key.
pub const NAME: &str = "ops";

/// Name of the key file.
const FILE: &str = "control.keys";

/// A key whose secret is one byte repeated.
fn key(name: &str, byte: u8) -> ControlKey {
    let line = format!("{name}:{}", data_encoding::HEXLOWER.encode(&[byte; 32]));
    ControlKeys::parse(&line).unwrap().signing().unwrap().clone()
}

/// Gives the commands of a folder these keys.
fn write(folder: &mut Folder, keys: &[ControlKey]) {
    let lines = keys.iter().map(|key| key.to_line() + "\n").collect::<String>();
    folder.write(FILE, format!("# keys of a test\n{lines}"));
    let path = folder.path(FILE);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    folder.env("TSTAR_CONTROL_KEY_FILE", path.to_str().unwrap());
}

/// Gives the commands of a folder the key that [`forget`] signs with.
pub fn install_key(folder: &mut Folder) {
    write(folder, &[key(NAME, 7)]);
}

/// A folder whose commands have that key.
pub fn folder() -> Folder {
    let mut folder = Folder::new();
    install_key(&mut folder);
    folder
}

fn signed_by(key: &ControlKey, topic: &str, device: &str, before_ms: DeviceTime) -> ProducerRecord {
    let claim = Claim { topic, device: device.as_bytes(), kind: b"forget", before_ms };
    ProducerRecord {
        key: Some(device.into()),
        value: format!("{{\"before\":{before_ms}}}").into_bytes(),
        headers: vec![
            ("tstar-control".into(), Some(b"forget".to_vec())),
            ("tstar-signature".into(), Some(key.sign(&claim).into_bytes())),
        ],
        ..ProducerRecord::default()
    }
}

/// A control record signed by the operator.
pub fn forget(topic: &Topic, device: &str, before: &str) -> ProducerRecord {
    let before_ms = tstar::internals::model::time::parse_time(before).unwrap();
    signed_by(&key(NAME, 7), &topic.name, device, DeviceTime(before_ms))
}

/// Reads a topic to its end into a file.
fn read(folder: &Folder, topic: &Topic, store: &str) -> serde_json::Value {
    let words = format!("run {} --from earliest --store sqlite:{store}", topic.flags());
    let running = start(folder, &words);
    until_read(folder, store, topic);
    drain(running, &words).ends(0).json()
}
