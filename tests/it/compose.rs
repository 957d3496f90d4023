//! The Compose files: they follow the schema of Compose, publish ports on loopback only, and name
//! files, services and settings that exist. `suite containers` starts the servers that they name.

mod monitoring;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::Folder;
use crate::http::{Answer, Server};
use crate::support::data;

const FILES: [&str; 2] = ["docker-compose.yml", "deploy/compose.cassandra.yml"];

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A YAML file of the repository.
fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The services of the Compose file, by name.
fn services() -> BTreeMap<String, Value> {
    let services = yaml(FILES[0])["services"].as_object().unwrap().clone();
    services.into_iter().collect()
}

/// The texts of a list, which may be absent.
fn texts(list: &Value) -> Vec<&str> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|it| it.as_str().unwrap()).collect()
}

/// A published port: `127.0.0.1:${VARIABLE:-DEFAULT}:INSIDE`.
#[derive(Debug, PartialEq, Eq)]
struct Port {
    variable: String,
    default: u16,
    inside: u16,
}

impl Port {
    fn parse(text: &str) -> Option<Self> {
        let (variable, rest) = text.strip_prefix("127.0.0.1:${")?.split_once(":-")?;
        let (default, inside) = rest.split_once("}:")?;
        let (default, inside) = (default.parse().ok()?, inside.parse().ok()?);
        Some(Self { variable: variable.to_owned(), default, inside })
    }
}

/// The ports that a service publishes.
fn ports(service: &Value) -> Vec<Port> {
    let ports = texts(&service["ports"]).into_iter();
    ports.map(|port| Port::parse(port).unwrap_or_else(|| panic!("{port} is not local"))).collect()
}

/// Names of the services that must run or end before a service starts.
fn needed(service: &Value) -> Vec<&str> {
    match &service["depends_on"] {
        Value::Object(conditions) => conditions.keys().map(String::as_str).collect(),
        list => texts(list),
    }
}

#[test]
fn the_files_follow_the_schema_of_compose() {
    let schema = std::fs::read_to_string(data("compose/compose-spec.json")).unwrap();
    let schema = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::draft202012::options().build(&schema).unwrap();
    for (planted, is_valid) in [
        (json!({"services": {"a": {"image": "b", "ports": ["80:80"]}}}), true),
        (json!({"services": {"a": {"image": "b", "port": ["80:80"]}}}), false),
        (json!({"services": {"a": {"profiles": "monitoring"}}}), false),
        (json!({"services": {"a": {"depends_on": {"b": {"condition": "healthy"}}}}}), false),
        (json!({"service": {}}), false),
    ] {
        assert_eq!(validator.is_valid(&planted), is_valid, "{planted}");
    }
    for name in FILES {
        let file = yaml(name);
        let found: Vec<_> = validator.iter_errors(&file).map(|it| it.to_string()).collect();
        assert!(found.is_empty(), "{name}: {found:#?}");
    }
}

#[test]
fn ports_are_published_on_loopback_and_can_be_chosen() {
    let port = |variable: &str, default, inside| {
        Some(Port { variable: variable.to_owned(), default, inside })
    };
    assert_eq!(Port::parse("127.0.0.1:${P:-1}:2"), port("P", 1, 2));
    for open in ["8080:8080", "0.0.0.0:${P:-1}:2", "${P:-1}:2", "127.0.0.1:1:2", "[::]:1:2"] {
        assert_eq!(Port::parse(open), None, "{open}");
    }
    let services = services();
    let published: Vec<_> = services.values().flat_map(ports).collect();
    let variables: BTreeSet<_> = published.iter().map(|port| &port.variable).collect();
    let defaults: BTreeSet<_> = published.iter().map(|port| port.default).collect();
    assert_eq!((variables.len(), defaults.len()), (published.len(), published.len()));
    assert!(variables.iter().all(|name| name.starts_with("TSTAR_")), "{variables:?}");
    assert_eq!(
        ports(&services["tstar"]),
        [Port { variable: "TSTAR_HTTP_PORT".into(), default: 8080, inside: 8080 }]
    );
    // The other file adds no port.
    let other = yaml(FILES[1]);
    assert!(other["services"].as_object().unwrap().values().all(|it| it["ports"].is_null()));
}

#[test]
fn services_depend_on_services_that_start_with_them() {
    let services = services();
    for (name, service) in &services {
        for other in needed(service) {
            let profiles = texts(&services[other]["profiles"]);
            let own = texts(&service["profiles"]);
            assert!(profiles.iter().all(|it| own.contains(it)), "{name} starts without {other}");
        }
    }
    let in_profile = services.iter().filter(|(_, it)| !it["profiles"].is_null());
    let in_profile: Vec<_> =
        in_profile.map(|(name, it)| (name.as_str(), &it["profiles"])).collect();
    let monitoring = json!(["monitoring"]);
    assert_eq!(in_profile, [("grafana", &monitoring), ("prometheus", &monitoring)]);
    // A file that replaces a service names one.
    let other = yaml(FILES[1]);
    assert!(other["services"].as_object().unwrap().keys().all(|name| services.contains_key(name)));
}

/// The flags with which the Compose file starts HTTP, of its command `run`.
fn http_flags() -> Vec<String> {
    let services = services();
    let command = texts(&services["tstar"]["command"]);
    let at = command.iter().position(|it| *it == "--listen").expect("it names the address");
    let inside = ports(&services["tstar"])[0].inside;
    assert_eq!(command[at + 1], format!("0.0.0.0:{inside}"), "the engine forwards the port to it");
    let rest = command[at + 2..].iter();
    rest.map(ToString::to_string).collect()
}

#[test]
fn the_page_and_the_api_answer_through_the_published_port() {
    let flags = http_flags().join(" ");
    let folder = Folder::with("minutes.ndjson", crate::cli::minutes("van", &[0, 1, 2]));
    folder.ingest("minutes.ndjson --store sqlite:trips.db");
    let start = |flags: &str| {
        let server = format!("serve --store sqlite:trips.db --listen 127.0.0.1:0 {flags}");
        Server::start(&folder, &server)
    };
    let get = |server: &Server, target: &str, host: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        Answer::read(&server.raw(request.as_bytes()))
    };
    let open = start(&flags);
    for host in ["127.0.0.1:8080", "localhost:8081", "tstar:8080"] {
        for target in ["/", "/v1/devices", "/metrics"] {
            get(&open, target, host).is(200);
        }
    }
    // The port outside may be another than the one inside: a browser names the former.
    let tag = |origin: &str| {
        let id = "van~20240501T080000.000Z";
        let request = format!(
            "PUT /v1/trips/{id}/tags/purpose HTTP/1.1\r\nhost: 127.0.0.1:8081\r\n\
             connection: close\r\norigin: http://{origin}\r\n\
             content-type: application/json\r\ncontent-length: 13\r\n\r\n{{\"value\":\"x\"}}"
        );
        Answer::read(&open.raw(request.as_bytes()))
    };
    tag("evil.example.com").fails(403, "foreign_origin");
    tag("127.0.0.1:8081").is(200);
    // Without --insecure, Prometheus would get no metrics.
    get(&start(""), "/metrics", "tstar:8080").fails(421, "foreign_name");
}
