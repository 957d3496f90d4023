//! The description of the API, and whether responses match it.

use serde_json::{Value, json};
use tstar::internals::http::openapi;

use super::{Server, worked_example};
use crate::cli::Folder;

/// The violations of a schema of the document by a value.
pub fn faults(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    // References lead into the document.
    let mut root = json!({ "components": document["components"] });
    root.as_object_mut().unwrap().extend(schema.as_object().unwrap().clone());
    let validator = jsonschema::draft202012::options().should_validate_formats(true);
    let validator = validator.build(&root).unwrap();
    validator
        .iter_errors(value)
        .map(|error| format!("{error} at {}", error.instance_path))
        .collect()
}

/// The schema of a response.
pub fn schema_of<'a>(document: &'a Value, path: &str, method: &str, status: u16) -> &'a Value {
    let answer = &document["paths"][path][method]["responses"][status.to_string()];
    let content =
        answer["content"].as_object().unwrap_or_else(|| panic!("{method} {path} {status}"));
    let kind = if status < 400 { "application/json" } else { "application/problem+json" };
    &content[kind]["schema"]
}

#[test]
fn every_answer_is_as_the_document_says() {
    let folder = Folder::new();
    worked_example(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let document = server.get("/openapi.json").is(200).json();
    assert_eq!(document["openapi"], "3.1.0");
    folder.run("tag --device truck-17 name=Van-3 --store sqlite:trips.db").ends(0);
    let lookup = "/v1/trips/lookup?device=truck-17&at=2024-05-01T08:";
    let id = "/v1/trips/truck-17~20240501T081000.000Z";
    let cases = [
        ("/v1/trips/lookup", format!("{lookup}05:00Z&path=true"), 200),
        ("/v1/trips/lookup", format!("{lookup}30:00Z"), 404),
        ("/v1/trips/lookup", "/v1/trips/lookup".to_owned(), 400),
        ("/v1/trips/{id}", id.to_owned(), 200),
        ("/v1/trips/{id}", "/v1/trips/x".to_owned(), 400),
        ("/v1/trips/lookup", format!("{lookup}05:00Z&min_version=1"), 200),
        ("/v1/trips/lookup", format!("{lookup}05:00Z&min_version=1000000"), 503),
        ("/v1/trips/{id}", format!("{id}?min_version=1000000"), 503),
        (
            "/v1/devices/{token}/trips",
            "/v1/devices/truck-17/trips?min_version=1000000".to_owned(),
            503,
        ),
        ("/v1/trips/{id}/explain", format!("{id}/explain"), 200),
        ("/v1/trips/{id}/explain", "/v1/trips/x/explain".to_owned(), 400),
        ("/v1/devices", "/v1/devices?limit=1".to_owned(), 200),
        ("/v1/devices/{token}/trips", "/v1/devices/truck-17/trips?limit=1".to_owned(), 200),
        ("/v1/devices", "/v1/devices?tag=name".to_owned(), 200),
        ("/v1/devices/{token}/tags", "/v1/devices/truck-17/tags".to_owned(), 200),
        ("/v1/devices/{token}/tags", "/v1/devices/none/tags".to_owned(), 404),
        ("/v1/trips", "/v1/trips?day=2024-05-01".to_owned(), 200),
        ("/v1/trips", "/v1/trips?day=2024-05-01&fields=id,path".to_owned(), 200),
        ("/v1/summary", "/v1/summary?day=2024-05-01".to_owned(), 200),
        ("/v1/trips/{id}", format!("{id}?path=true&simplify=1"), 200),
        ("/v1/changes", "/v1/changes?after=0".to_owned(), 200),
        ("/v1/page", "/v1/page".to_owned(), 200),
        ("/readyz", "/readyz?verbose".to_owned(), 200),
        ("/version", "/version".to_owned(), 200),
    ];
    for (path, target, status) in cases {
        let answer = server.get(&target).is(status).json();
        let found = faults(&document, schema_of(&document, path, "get", status), &answer);
        assert_eq!(found, Vec::<String>::new(), "{target}: {answer}");
    }
    // The check detects a defect.
    for (field, value) in [("samples", "five"), ("start_time", "2024-05-01 08:00")] {
        let mut wrong = server.get(id).json();
        wrong[field] = value.into();
        let schema = schema_of(&document, "/v1/trips/{id}", "get", 200);
        assert_eq!(faults(&document, schema, &wrong).len(), 1, "{field}");
    }
}

/// The answers with a JSON body: where they are, and their content.
fn json_answers(document: &Value) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for (status, answer) in operation["responses"].as_object().unwrap() {
                for (kind, content) in answer["content"].as_object().into_iter().flatten() {
                    if kind == "application/json" || kind.ends_with("+json") {
                        found.push((format!("{method} {path} {status} {kind}"), content));
                    }
                }
            }
        }
    }
    found
}

#[test]
fn every_answer_has_an_example_that_fits_its_schema() {
    let document = serde_json::to_value(openapi::document()).unwrap();
    let answers = json_answers(&document);
    assert!(answers.len() >= 200, "{} answers", answers.len());
    for (name, content) in answers {
        let example = content.get("example").unwrap_or_else(|| panic!("{name} has no example"));
        let found = faults(&document, &content["schema"], example);
        assert_eq!(found, Vec::<String>::new(), "{name}: {example}");
        if let Some(status) = example.get("code").and(example.get("status")) {
            assert!(name.contains(&format!(" {status} ")), "{name}: {example}");
        }
    }
    let body = &document["paths"]["/v1/samples"]["post"]["requestBody"]["content"];
    let body = &body["application/json"];
    assert_eq!(faults(&document, &body["schema"], &body["example"]), Vec::<String>::new());
}

#[test]
fn every_route_is_described_and_every_description_has_a_route() {
    let folder = Folder::new();
    worked_example(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let document = server.get("/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 14, "{} paths", paths.len());
    for (path, methods) in paths {
        let target = path.replace("{id}", "x").replace("{token}", "x");
        for (method, operation) in methods.as_object().unwrap() {
            assert!(operation["operationId"].is_string(), "{method} {path}");
            assert!(operation["description"].is_string() || operation["summary"].is_string());
            if path.ends_with("/stream") {
                continue;
            }
            let answer = server.request(&method.to_uppercase(), &target, "", b"");
            let status = answer.status;
            // An unknown route answers `not_found`.
            let text = String::from_utf8_lossy(&answer.body);
            let is_routed = status != 405 && !text.contains("\"not_found\"");
            assert!(is_routed, "{method} {path}: {status}");
            let described = &operation["responses"][status.to_string()];
            assert!(!described.is_null(), "{method} {path}: {status} is not described");
        }
        let status = server.request("PATCH", &target, "", b"").status;
        assert_eq!(status, 405, "{path}");
    }
}
