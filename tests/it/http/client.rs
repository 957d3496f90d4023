//! A Python client that is generated from the description of the API, against every route.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Server, worked_example};
use crate::cli::Folder;
use crate::servers::skip;

const SECRET: &str = "correct-horse-battery";

/// Where `tests/all` installs the generator.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/client/bin");

/// The script that calls the client.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/http/client.py");

/// How the generator reads formats that it does not know.
const CONFIG: &str = r#"{
  "post_hooks": [],
  "content_type_overrides": {
    "application/gpx+xml": "text/plain",
    "application/vnd.pmtiles": "application/octet-stream",
    "application/vnd.apache.parquet": "application/octet-stream"
  }
}"#;

/// What it leaves out, all of it NDJSON: the client does not parse these answers, and sends samples
/// as an array.
const OMITTED: [&str; 3] = [
    "GET /v1/devices/{token}/trips.ndjson within trips.",
    "GET /v1/trips.ndjson within trips.",
    "POST /v1/samples within samples.",
];

/// Generates the client, and returns the operations of which it leaves out something.
fn generate(folder: &Folder, document: &str) -> Vec<String> {
    folder.write("openapi.json", document);
    folder.write("config.json", CONFIG);
    let ran = Command::new(Path::new(PROGRAMS).join("openapi-python-client"))
        .args(["generate", "--path", "openapi.json", "--config", "config.json"])
        .args(["--meta", "none", "--output-path", "tstar_client"])
        .current_dir(folder.path("."))
        .output()
        .unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(ran.status.success() && !said.contains("ERROR"), "{said}");
    let omitted = said.lines().filter_map(|line| line.trim().strip_prefix("WARNING parsing "));
    let mut omitted: Vec<_> = omitted.map(str::to_owned).collect();
    omitted.sort_unstable();
    omitted
}

/// Calls every operation; returns whether that succeeded, and what was printed.
fn call_all(folder: &Folder, server: &Server) -> (bool, String) {
    let ran = Command::new(Path::new(PROGRAMS).join("python"))
        .args([SCRIPT, "openapi.json", &format!("http://{}", server.address), SECRET])
        .env("PYTHONPATH", folder.path("."))
        .current_dir(folder.path("."))
        .output()
        .unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    (ran.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_generated_client_calls_every_route() {
    if !Path::new(PROGRAMS).join("openapi-python-client").exists() {
        return skip("no openapi-python-client: tests/all puts it into target/client")
            .unwrap_or_default();
    }
    for has_unknown in [false, true] {
        let folder = Folder::new();
        worked_example(&folder);
        folder.write("token", format!("ops:read,write:{SECRET}"));
        let server = Server::start(&folder, "serve --store sqlite:trips.db --token-file token");
        // As text: of several formats of an answer, a client parses the first.
        let mut document = server.get("/openapi.json").is(200).text();
        if has_unknown {
            let parsed: Value = serde_json::from_str(&document).unwrap();
            let mut unknown = parsed["paths"]["/version"].clone();
            unknown["get"]["operationId"] = "unknown".into();
            let paths = format!("\"paths\":{{\"/unknown\":{unknown},");
            document = document.replacen("\"paths\":{", &paths, 1);
        }
        assert_eq!(generate(&folder, &document), OMITTED);
        let (succeeded, said) = call_all(&folder, &server);
        assert_eq!(succeeded, !has_unknown, "{said}");
        // The check detects a route that is not called.
        assert_eq!(said.contains("not called: ['unknown']"), has_unknown, "{said}");
        println!("{said}");
        server.drain();
    }
}
