//! Privacy: the modes of the program's files, secrets in its output, and external text that would
//! look like other text.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rusqlite::Connection;
use serde_json::json;

use crate::cli::{Folder, minutes};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_store_and_the_files_of_its_folder_are_for_their_owner_alone() {
    let folder = Folder::with("a.ndjson", minutes("truck-17", &[1, 2, 3]));
    folder.text("ingest a.ndjson");
    let store = folder.path("trips.db");
    for name in ["trips.db", "trips.db-lock"] {
        assert_eq!(mode(&folder.path(name)), 0o600, "{name}");
    }
    for expected in [0o600, 0o640] {
        // An existing mode stays, and applies to the files that SQLite adds.
        set_mode(&store, expected);
        let reader = Connection::open(&store).unwrap();
        reader.query_row("SELECT count(*) FROM trips", [], |_| Ok(())).unwrap();
        folder.write("b.ndjson", minutes(&format!("van-{expected}"), &[1, 2, 3]));
        folder.text("ingest b.ndjson");
        for name in ["trips.db", "trips.db-wal", "trips.db-shm"] {
            assert_eq!(mode(&folder.path(name)), expected, "{name}");
        }
    }
    assert_eq!(mode(&folder.path("trips.db-lock")), 0o600);
}

#[test]
fn a_lock_that_leads_elsewhere_is_refused() {
    let folder = Folder::with("a.ndjson", minutes("truck-17", &[1, 2, 3]));
    folder.write("theirs", "another user's");
    symlink(folder.path("theirs"), folder.path("trips.db-lock")).unwrap();
    folder.run("ingest a.ndjson").ends(74).says(&["symbolic link", "remove it"]);
    assert_eq!(folder.read("theirs"), b"another user's");
    assert!(!folder.has("trips.db"));
}

/// No output of a command contains these secrets.
#[track_caller]
fn hides(folder: &Folder, words: &str, code: i32, secrets: &[&str]) -> String {
    let ran = folder.run(words).ends(code);
    let said = ran.text() + &ran.stderr;
    for secret in secrets {
        assert!(!said.contains(secret), "`{words}` prints {secret}\n{ran}");
    }
    said
}

#[test]
fn config_show_prints_no_secret() {
    let options = "ssl.key.pem=MIIEhunter1\nsasl.oauthbearer.config=principal=hunter2\n\
                   an.option.of.tomorrow=hunter3\nlinger.ms=7\nssl.key.location=key.pem";
    let folder = Folder::with("tstar.toml", format!("kafka = \"\"\"\n{options}\n\"\"\"\n"));
    let secrets = ["hunter1", "hunter2", "hunter3"];
    for form in ["table", "json", "ndjson"] {
        let said = hides(&folder, &format!("config show --format {form}"), 0, &secrets);
        for shown in ["ssl.key.pem=(not shown)", "linger.ms=7", "ssl.key.location=key.pem"] {
            assert!(said.contains(shown), "{form}: {said}");
        }
    }
    let said = folder.text("config show --format table");
    assert!(said.contains("# (not shown): an option of kafka"), "{said}");
}

#[test]
fn errors_contain_no_secret() {
    let mut folder = Folder::new();
    let url = "scylla://me:hunter2@host/fleet";
    hides(&folder, &format!("devices --store {url}"), 2, &["hunter2"]);
    folder.write("tstar.toml", "kafka = [\"sasl.password=hunter2\"]\n");
    hides(&folder, "config check", 78, &["hunter2"]);
    folder.write("tstar.toml", "brokers = \"me:hunter2@host:9092\"\n");
    hides(&folder, "config check", 78, &["hunter2"]);
    folder.write("tstar.toml", "tiles = \"https://me:hunter2@host/\"\n");
    hides(&folder, "config check", 78, &["hunter2"]);
    folder.write("tstar.toml", "");
    folder.env("TSTAR_KAFKA", "ssl.key.pem=-----BEGIN\nMIIEhunter2");
    hides(&folder, "config check", 78, &["hunter2"]);
    // The client quotes a rejected option.
    folder.env("TSTAR_KAFKA", "sasl.pasword=hunter2");
    let said = hides(&folder, "run --listen off", 78, &["hunter2"]);
    assert!(said.contains("sasl.pasword"), "{said}");
    folder.env("TSTAR_KAFKA", "security.protocol=ssl\nssl.key.pem=hunter2");
    hides(&folder, "run --listen off", 78, &["hunter2"]);
}

#[test]
fn secrets_that_others_may_read_are_warned_of() {
    let folder = Folder::with("password", "hunter2");
    let words = "devices --store scylla://127.0.0.1:1/fleet --cql-user me --cql-password-file \
                 password --connect-timeout 10ms";
    set_mode(&folder.path("password"), 0o640);
    let ran = folder.run(words).ends(69).says(&["warning: cql_password_file", "0640", "chmod"]);
    assert_eq!(ran.stderr.matches("warning").count(), 1, "{ran}");
    set_mode(&folder.path("password"), 0o600);
    assert!(!folder.run(words).ends(69).stderr.contains("warning"));

    folder.write("tstar.toml", "kafka = \"sasl.password=hunter2\"\n");
    set_mode(&folder.path("tstar.toml"), 0o644);
    folder.run("config check").ends(0).says(&[
        "warning: settings file",
        "tstar.toml",
        "every user",
    ]);
    set_mode(&folder.path("tstar.toml"), 0o600);
    assert!(!folder.run("config check").ends(0).stderr.contains("warning"));
    folder.write("tstar.toml", "kafka = \"linger.ms=5\"\n");
    set_mode(&folder.path("tstar.toml"), 0o644);
    assert!(!folder.run("config check").ends(0).stderr.contains("warning"));

    folder.write("a.ndjson", minutes("truck-17", &[1, 2, 3]));
    folder.text("ingest a.ndjson");
    folder.write("token", "too short");
    set_mode(&folder.path("token"), 0o644);
    let serve = "serve --listen 127.0.0.1:0 --token-file token";
    folder.run(serve).ends(78).says(&["warning: token_file `token`"]);
}

#[test]
fn tables_show_what_cannot_be_seen() {
    let [turned, empty] = ["evil\u{202e}gpj.exe", "truck\u{200b}-17"];
    let sample = |device: &str| {
        json!({ "device_id": device, "time": "2026-01-01T00:00:00Z", "lat": 1, "lon": 2,
                "driver": "a\u{2066}b" })
    };
    let bad = json!({ "device_id": "x", "time": "no\u{202e}time", "lat": 1, "lon": 2 });
    let lines = format!("{}\n{}\n{bad}\n", sample(turned), sample(empty));
    let folder = Folder::with("a.ndjson", lines);
    folder.text("ingest a.ndjson");
    let devices = folder.text("devices --format table");
    assert!(devices.contains("evil\\u{202e}gpj.exe"), "{devices}");
    assert!(devices.contains("truck\\u{200b}-17"), "{devices}");
    let trips = folder.text("trips --day 2026-01-01 --format table");
    assert!(trips.contains("a\\u{2066}b"), "{trips}");
    let letters = folder.text("dlq ls --format table");
    assert!(letters.contains("no\\u{202e}time"), "{letters}");
    let shown = [devices, trips, letters].concat();
    assert!(!shown.contains(['\u{202e}', '\u{200b}', '\u{2066}']), "{shown}");
    // In formats for programs they are unchanged.
    let devices = folder.text("devices --format ndjson");
    assert!(devices.contains(turned) && devices.contains(empty), "{devices}");
    let ran = folder.command("lookup").args([turned, "2020-01-01T00:00:00Z"]).output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.contains("\\u{202e}") && !said.contains('\u{202e}'), "{said}");
}
