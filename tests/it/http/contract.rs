//! The API against its own description, by schemathesis: requests generated from the document,
//! valid and invalid, and every response checked against it; and the description against its
//! standard.

use std::env;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Server, worked_example};
use crate::cli::Folder;
use crate::servers::skip;

const SECRET: &str = "correct-horse-battery";

/// Where `tests/all` installs programs.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/contract/bin");

/// The seed of generated requests, or [`SEED`].
pub const SEED_VARIABLE: &str = "TSTAR_TEST_CONTRACT_SEED";
const SEED: &str = "1";

/// What operations with ids, cursors, spans or zones may answer to a request that is valid by the
/// schema. And to a sample that is not: it is a dead letter.
const CONFIG: &str = r#"
[[operations]]
include-operation-id-regex = "^(trips(OfDevice)?(_[a-z]+)?|devices|trip(_[a-z]+)?|explain|summary|basemap)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "404", "503"]

[[operations]]
include-operation-id = "lookup"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "404", "503"]

[[operations]]
include-operation-id-regex = "^(tags|putTag|deleteTag|deviceTags|putDeviceTag|deleteDeviceTag)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "404", "412", "503"]

[[operations]]
include-operation-id = "samples"
checks.negative_data_rejection.expected-statuses = ["200", "400", "401", "413", "415"]
"#;

/// Minimum number of cases of a useful run.
const MIN_CASES: u64 = 300;

/// The largest number before `word`.
fn count_of(text: &str, word: &str) -> u64 {
    let words: Vec<_> = text.split_whitespace().collect();
    let pairs = words.windows(2).filter(|pair| pair[1].trim_end_matches([',', '.']) == word);
    pairs.filter_map(|pair| pair[0].replace(',', "").parse().ok()).max().unwrap_or(0)
}

/// A program, if it is installed.
fn program(name: &str) -> Option<Command> {
    let path = Path::new(PROGRAMS).join(name);
    if !path.exists() {
        return skip(&format!("no {name}: tests/all puts it into target/contract"));
    }
    Some(Command::new(path))
}

#[test]
fn the_document_is_sound() {
    let folder = Folder::new();
    worked_example(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let document = server.get("/openapi.json").is(200).json();
    // The check detects a defect.
    let mut wrong = document.clone();
    wrong["paths"]["/v1/trips"]["get"]["responses"] = "none".into();
    for (name, document, is_sound) in [("good", &document, true), ("wrong", &wrong, false)] {
        folder.write(name, document.to_string());
        let Some(mut validator) = program("openapi-spec-validator") else { return };
        let ran = validator.arg(folder.path(name)).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(ran.status.success(), is_sound, "{name}: {said}");
    }
    server.drain();
}

/// The document without a parameter, which some operations have.
fn without_parameter(mut document: Value, name: &str) -> Value {
    let mut removed = 0;
    for methods in document["paths"].as_object_mut().unwrap().values_mut() {
        for operation in methods.as_object_mut().unwrap().values_mut() {
            let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
            let Some(parameters) = parameters else { continue };
            let before = parameters.len();
            parameters.retain(|parameter| parameter["name"] != name);
            removed += before - parameters.len();
        }
    }
    assert!(removed > 0, "no operation has `{name}`");
    document
}

#[test]
fn every_response_is_in_the_document() {
    let Some(mut schemathesis) = program("schemathesis") else { return };
    let folder = Folder::new();
    worked_example(&folder);
    folder.write("token", format!("ops:read,write:{SECRET}"));
    let server = Server::start(&folder, "serve --store sqlite:trips.db --token-file token");
    let examples = env::var("TSTAR_TEST_CONTRACT").unwrap_or("20".into());
    let seed = env::var(SEED_VARIABLE).unwrap_or(SEED.into());
    // An answer that lacks a version is 503, as it has to be; here that counts as a failure.
    let document = without_parameter(server.get("/openapi.json").is(200).json(), "min_version");
    folder.write("openapi.json", document.to_string());
    // No schema can express what an id, a cursor or a zone is, or that a span is short: others are
    // 400.
    folder.write("schemathesis.toml", CONFIG);
    println!("requests made from the document: {SEED_VARIABLE}={seed}");
    let ran = schemathesis
        .args(["run", "openapi.json", "--url", &format!("http://{}", server.address)])
        .args(["--header", &format!("Authorization: Bearer {SECRET}")])
        // It never ends.
        .args(["--exclude-path", "/v1/changes/stream"])
        .args(["--max-examples", &examples, "--workers", "1", "--no-color"])
        .args(["--seed", &seed, "--generation-database", "none"])
        .current_dir(folder.path("."))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{SEED_VARIABLE}={seed}: {said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let cases = count_of(&said, "generated");
    assert!(cases >= MIN_CASES, "{cases} cases: {said}");
    println!("{cases} requests made from the document");
    server.drain();
}
