use serde_json::json;

use super::fixture::{client, registry};
use super::*;

async fn problem_of(url: &str, number: u32) -> String {
    client(url).verdict(SchemaId::Number(number)).await.unwrap_err().to_string()
}

#[tokio::test]
async fn the_reference_registry_is_understood() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/formats/avro/registry.json");
    let answers: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let answers: Vec<_> = answers.as_object().unwrap().iter().collect();
    let answers: Vec<_> = answers
        .iter()
        .map(|(request, body)| (request.strip_prefix("GET ").unwrap(), 200, (*body).clone()))
        .collect();
    let (served, url) = registry(&answers).await;
    let guid = "6f8d2b1e-7c3a-4e5f-9a0b-1c2d3e4f5a6b";
    for (id, kind, begins) in
        [("7", "AVRO", "{\"type\": \"record\""), ("8", "PROTOBUF", "syntax"), (guid, "AVRO", "{")]
    {
        let verdict = client(&url).verdict(id.parse().unwrap()).await.unwrap();
        let SchemaVerdict::Known { kind: found, source } = verdict else { panic!("{verdict:?}") };
        assert_eq!((&*found, source.references.len()), (kind, 0));
        assert!(source.text.starts_with(begins), "{}", source.text);
    }
    assert_eq!(client(&url).verdict(SchemaId::Number(9)).await.unwrap(), SchemaVerdict::Unknown);
    let asked: Vec<_> = served.requests().into_iter().map(|(path, _)| path).collect();
    let guid = format!("/schemas/guids/{guid}");
    assert_eq!(asked, ["/schemas/ids/7", "/schemas/ids/8", &guid, "/schemas/ids/9"]);
}

#[tokio::test]
async fn references_come_before_what_refers_to_them() {
    let reference =
        |name: &str, subject: &str| json!({"name": name, "subject": subject, "version": 2});
    let version = |schema: &str, references: Vec<serde_json::Value>| json!({"subject": "s", "id": 1, "version": 2, "schema": schema, "references": references});
    let (_, url) = registry(&[
        (
            "/schemas/ids/1",
            200,
            json!({"schema": "main", "references": [reference("a", "x/y"), reference("b", "b")]}),
        ),
        ("/subjects/x%2Fy/versions/2?deleted=true", 200, version("A", vec![reference("z", "z")])),
        ("/subjects/b/versions/2?deleted=true", 200, version("B", vec![reference("z", "z")])),
        ("/subjects/z/versions/2?deleted=true", 200, version("Z", vec![])),
        ("/schemas/ids/2", 200, json!({"schema": "main", "references": [reference("n", "none")]})),
    ])
    .await;
    let verdict = client(&url).verdict(SchemaId::Number(1)).await.unwrap();
    let SchemaVerdict::Known { source, .. } = verdict else { panic!("{verdict:?}") };
    let texts: Vec<_> = source.references.iter().map(|reference| &*reference.text).collect();
    assert_eq!((&*source.text, texts), ("main", vec!["Z", "A", "B"]));
    let verdict = client(&url).verdict(SchemaId::Number(2)).await.unwrap();
    let SchemaVerdict::Unusable { problem } = verdict else { panic!("{verdict:?}") };
    assert!(problem.contains("version 2 of subject `none`"), "{problem}");
}

#[tokio::test]
async fn a_schema_with_too_much_is_not_usable() {
    let own = json!({"name": "n", "subject": "n", "version": 1});
    let many =
        (0..=MAX_REFERENCES).map(|n| json!({"name": n.to_string(), "subject": "n", "version": 1}));
    let large = " ".repeat(MAX_SCHEMA_BYTES + 1);
    let (_, url) = registry(&[
        ("/schemas/ids/1", 200, json!({"schema": "", "references": many.collect::<Vec<_>>()})),
        ("/schemas/ids/2", 200, json!({"schema": large})),
        ("/schemas/ids/3", 200, json!({"schema": "", "references": [own]})),
        ("/subjects/n/versions/1?deleted=true", 200, json!({"schema": "n", "references": [own]})),
    ])
    .await;
    for (number, why) in [(1, "more than 100 schemas"), (2, "exceeds 1048576 bytes")] {
        let verdict = client(&url).verdict(SchemaId::Number(number)).await.unwrap();
        let SchemaVerdict::Unusable { problem } = verdict else { panic!("{verdict:?}") };
        assert!(problem.contains(why), "{problem}");
    }
    // One that refers to itself ends as well.
    let verdict = client(&url).verdict(SchemaId::Number(3)).await.unwrap();
    assert!(matches!(verdict, SchemaVerdict::Known { source, .. } if source.references.len() == 1));
}

#[tokio::test]
async fn only_a_registry_decides_that_an_id_is_unknown() {
    let huge = "x".repeat(5 << 20);
    let (_, url) = registry(&[
        ("/schemas/ids/1", 404, json!("<html>not found</html>")),
        ("/schemas/ids/2", 404, json!({"error_code": 404})),
        ("/schemas/ids/3", 500, json!({"error_code": 50001})),
        ("/schemas/ids/4", 401, json!({"error_code": 40101})),
        ("/schemas/ids/5", 200, json!("not JSON")),
        ("/schemas/ids/6", 302, json!("")),
        ("/schemas/ids/7", 200, json!(huge)),
    ])
    .await;
    for (number, why) in [
        (1, "with status 404: check schema_registry"),
        (2, "with status 404"),
        (3, "with status 500"),
        (4, "denied access (401): check schema_registry_auth_file"),
        (5, "with something that is not a schema"),
        (6, "with status 302"),
        (7, "closed the connection: length limit exceeded"),
    ] {
        let problem = problem_of(&url, number).await;
        assert!(problem.contains(why) && problem.contains(&url), "{problem}");
    }
}

#[tokio::test]
async fn a_registry_that_does_not_answer_is_an_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let url = RegistryUrl::parse(&url).unwrap();
    let limit = Duration::from_millis(50);
    let silent = Registry::within(url.clone(), None, limit).unwrap();
    let problem = silent.verdict(SchemaId::Number(1)).await.unwrap_err().to_string();
    assert!(problem.contains("did not answer within"), "{problem}");
    drop(listener);
    let problem = problem_of(&url.to_string(), 1).await;
    assert!(problem.contains("cannot be reached"), "{problem}");
}

#[tokio::test]
async fn a_login_and_a_path_are_sent() {
    let (served, url) = registry(&[]).await;
    let parsed = RegistryUrl::parse(&format!("{url}/api/")).unwrap();
    let credentials = Credentials::parse("ann:secret\n").unwrap();
    let registry = Registry::new(parsed, Some(credentials)).unwrap();
    registry.verdict(SchemaId::Number(1)).await.unwrap();
    assert_eq!(
        served.requests(),
        [("/api/schemas/ids/1".to_owned(), "Basic YW5uOnNlY3JldA==".to_owned())]
    );
}

#[tokio::test]
async fn a_schema_is_registered_unless_the_subject_has_it() {
    let (served, url) = registry(&[
        ("/subjects/known", 200, json!({"subject": "known", "version": 3, "id": 7, "schema": "x"})),
        ("/subjects/new%2F1/versions", 200, json!({"id": 8})),
        ("/subjects/denied/versions", 403, json!({"error_code": 40301})),
        ("/subjects/other", 409, json!({"error_code": 409, "message": "a field is missing"})),
    ])
    .await;
    let client = client(&url);
    assert_eq!(client.register("known", "x").await.unwrap(), 7);
    assert_eq!(client.register("new/1", "x").await.unwrap(), 8);
    let paths: Vec<_> = served.requests().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["/subjects/known", "/subjects/new%2F1", "/subjects/new%2F1/versions"]);
    let sent = json!({"schema": "x", "schemaType": "AVRO"});
    assert_eq!(served.bodies(), [sent.clone(), sent.clone(), sent]);
    for (subject, is_refusal, why) in [
        ("denied", false, "denied access (403): check schema_registry_auth_file"),
        ("nowhere", false, "with status 404: check schema_registry"),
        ("other", true, "refuses /subjects/other with status 409: a field is missing"),
    ] {
        let error = client.register(subject, "x").await.unwrap_err();
        assert_eq!(error.is_refusal(), is_refusal, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_schema_that_another_instance_registers_at_once_is_found() {
    let exists = json!({"error_code": 409, "message": "an artifact `both` already exists"});
    let (served, url) = registry(&[("/subjects/both/versions", 409, exists)]).await;
    served.answer_after("/subjects/both/versions", "/subjects/both", json!({"id": 9}));
    assert_eq!(client(&url).register("both", "x").await.unwrap(), 9);
    // A subject that has another schema refuses for good.
    let (_, url) = registry(&[("/subjects/both/versions", 409, json!({"error_code": 409}))]).await;
    assert!(client(&url).register("both", "x").await.unwrap_err().is_refusal());
}
