//! The profile `monitoring`: Prometheus scrapes tstar and evaluates the alert rules, and Grafana
//! finds Prometheus and the dashboard.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{needed, ports, read, services, texts, yaml};

/// The files that a service mounts: by the path in its container, that in the repository.
fn mounts(service: &Value) -> BTreeMap<String, String> {
    let mounts = texts(&service["volumes"]).into_iter();
    let files = mounts.filter_map(|mount| mount.strip_prefix("./"));
    let pair = |mount: &str| {
        let [file, target, mode] = mount.split(':').collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(mode, "ro", "{mount} may be written");
        // Docker creates a folder where a file does not exist.
        read(file);
        (target.to_owned(), file.to_owned())
    };
    files.map(pair).collect()
}

/// The file of the repository that a service sees at a path.
fn mounted(service: &str, path: &str) -> String {
    let mounts = mounts(&services()[service]);
    mounts.get(path).unwrap_or_else(|| panic!("{service} has no {path}: {mounts:?}")).clone()
}

/// Asserts that a service listens at `HOST:PORT` of the network of the Compose file.
fn assert_reached(address: &str) {
    let (host, port) = address.split_once(':').unwrap();
    let services = services();
    let service = services.get(host).unwrap_or_else(|| panic!("no service {host}"));
    let port: u16 = port.parse().unwrap();
    assert!(ports(service).iter().any(|it| it.inside == port), "{host} has no port {port}");
}

/// The one element of a list.
fn only(list: &Value) -> &Value {
    match list.as_array().map(Vec::as_slice) {
        Some([one]) => one,
        _ => panic!("not a list of one: {list}"),
    }
}

#[test]
fn prometheus_scrapes_tstar_and_finds_the_rules() {
    let config = yaml(&mounted("prometheus", "/etc/prometheus/prometheus.yml"));
    let job = only(&config["scrape_configs"]);
    assert_eq!(texts(&only(&job["static_configs"])["targets"]), ["tstar:8080"]);
    assert_reached("tstar:8080");
    // Unset, it is that of tstar.
    assert_eq!(job.get("metrics_path"), None);

    let rules = only(&config["rule_files"]).as_str().unwrap();
    let rules = yaml(&mounted("prometheus", &format!("/etc/prometheus/{rules}")));
    let groups = rules["groups"].as_array().unwrap();
    let rules: Vec<_> = groups.iter().flat_map(|it| it["rules"].as_array().unwrap()).collect();
    assert!(rules.len() >= 8, "{}", rules.len());
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        let severity = rule["labels"]["severity"].as_str();
        assert!(severity.is_some_and(|it| ["warning", "critical"].contains(&it)), "{name}");
        for text in ["summary", "description"] {
            assert!(rule["annotations"][text].is_string(), "{name} has no {text}");
        }
        let expr = rule["expr"].as_str().unwrap();
        for rest in expr.split("job=\"").skip(1) {
            assert_eq!(job["job_name"], rest.split('"').next().unwrap(), "{name}");
        }
    }
}

/// Type and id of each data source that a part of a dashboard names.
fn sources<'a>(part: &'a Value, found: &mut Vec<[&'a Value; 2]>) {
    match part {
        Value::Object(fields) => {
            if let Some(source @ Value::Object(_)) = fields.get("datasource") {
                found.push([&source["type"], &source["uid"]]);
            }
            fields.values().for_each(|it| sources(it, found));
        }
        Value::Array(parts) => parts.iter().for_each(|it| sources(it, found)),
        _ => (),
    }
}

#[test]
fn grafana_finds_prometheus_and_the_dashboard() {
    let services = services();
    let grafana = &services["grafana"];
    let provisioned = yaml(&mounted("grafana", "/etc/grafana/provisioning/datasources/tstar.yml"));
    assert_eq!(provisioned["apiVersion"], 1);
    let source = only(&provisioned["datasources"]);
    assert_reached(source["url"].as_str().unwrap().strip_prefix("http://").unwrap());
    assert_eq!(needed(grafana), ["prometheus"]);
    // The dashboard's variable begins with the default source of its type.
    assert_eq!(source["isDefault"], true);

    let provisioned = yaml(&mounted("grafana", "/etc/grafana/provisioning/dashboards/tstar.yml"));
    assert_eq!(provisioned["apiVersion"], 1);
    let folder = &only(&provisioned["providers"])["options"]["path"];
    let home = &grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"];
    let home = home.as_str().unwrap();
    assert_eq!(home, format!("{}/tstar.json", folder.as_str().unwrap()));

    let dashboard: Value = serde_json::from_str(&read(&mounted("grafana", home))).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let chosen = variables.iter().find(|it| it["type"] == "datasource").unwrap();
    assert_eq!(chosen["query"], source["type"]);
    let variable = format!("${{{}}}", chosen["name"].as_str().unwrap());
    let mut found = Vec::new();
    sources(&dashboard, &mut found);
    assert!(found.len() >= 20, "{}", found.len());
    for [kind, uid] in found {
        assert_eq!((kind, uid.as_str()), (&source["type"], Some(variable.as_str())));
    }
}

#[test]
fn grafana_gives_no_more_than_a_view_without_a_password() {
    let services = services();
    let environment = &services["grafana"]["environment"];
    // Its first administrator would have a well-known password.
    for (setting, expected) in [
        ("GF_AUTH_ANONYMOUS_ORG_ROLE", "Viewer"),
        ("GF_AUTH_BASIC_ENABLED", "false"),
        ("GF_AUTH_DISABLE_LOGIN_FORM", "true"),
        ("GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION", "true"),
    ] {
        assert_eq!(environment[setting], expected, "{setting}");
    }
}
