//! The dashboard and the alert rules: every name in them exists.

use std::collections::BTreeSet;

use serde_json::Value;
use tstar::internals::telemetry::TABLE;

use super::{labels_of, metric_of};

/// Labels that Prometheus adds.
const GIVEN: [&str; 3] = ["job", "instance", "le"];

/// Metrics that Prometheus adds.
const OWN: [&str; 1] = ["up"];

fn read(name: &str) -> String {
    let path = format!("{}/deploy/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The queries of the dashboard.
fn dashboard_queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// The queries of the alert rules: `expr: ` and what is indented below it.
fn alert_queries() -> Vec<String> {
    let text = read("alerts.yml");
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut queries: Vec<String> = Vec::new();
    let mut below = None;
    for line in text.lines() {
        if let Some((before, expr)) = line.split_once("expr: ") {
            queries.push(expr.trim_start_matches('|').to_owned());
            below = Some(before.len());
        } else if below.is_some_and(|column| indent(line) > column) {
            let last = queries.last_mut().unwrap();
            *last = format!("{last} {}", line.trim());
        } else {
            below = None;
        }
    }
    assert_eq!(queries.len(), text.matches("- alert: ").count());
    queries
}

/// Words that look like names of metrics.
fn names(expr: &str) -> Vec<String> {
    let words = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_name = |word: &&str| {
        OWN.contains(word) || word.starts_with("tstar_") || word.starts_with("process_")
    };
    words.filter(is_name).map(str::to_owned).collect()
}

/// Labels that a query uses: in selectors, and after `by` and `on`.
fn labels(expr: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let word = |text: &str| text.trim().to_owned();
    for selector in expr.split('{').skip(1) {
        let inside = selector.split('}').next().unwrap();
        let pairs = inside.split("\",").map(|pair| pair.split(['=', '!']).next().unwrap());
        found.extend(pairs.map(word));
    }
    for keyword in [" by (", " on ("] {
        for rest in expr.split(keyword).skip(1) {
            found.extend(rest.split(')').next().unwrap().split(',').map(word));
        }
    }
    found
}

/// The errors of a query.
fn wrong(expr: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut known: BTreeSet<&str> = GIVEN.into();
    let names = names(expr);
    if names.is_empty() {
        wrong.push("no metric".to_owned());
    }
    for name in names.iter().filter(|name| !OWN.contains(&name.as_str())) {
        match metric_of(name) {
            Some(metric) => known.extend(labels_of(metric)),
            None => wrong.push(format!("no metric {name}")),
        }
    }
    let unknown = labels(expr).into_iter().filter(|label| !known.contains(label.as_str()));
    wrong.extend(unknown.map(|label| format!("no label {label}")));
    for (open, close) in [('(', ')'), ('{', '}'), ('[', ']')] {
        if expr.matches(open).count() != expr.matches(close).count() {
            wrong.push(format!("{open} and {close} do not match"));
        }
    }
    wrong
}

#[test]
fn the_dashboard_and_the_alerts_name_only_what_there_is() {
    assert_eq!(wrong("sum by (reason) (rate(tstar_dead_letters_total{job=\"x\"}[5m]))"), [""; 0]);
    assert_eq!(wrong("rate(tstar_dead_letter_total[5m])"), ["no metric tstar_dead_letter_total"]);
    assert_eq!(wrong("tstar_sample_delay_seconds > 1"), ["no metric tstar_sample_delay_seconds"]);
    assert_eq!(wrong("tstar_state_bytes_bucket"), ["no metric tstar_state_bytes_bucket"]);
    assert_eq!(wrong("sum by (device) (tstar_samples_total)"), ["no label device"]);
    assert_eq!(wrong("tstar_samples_total{reason=\"x\"}"), ["no label reason"]);
    assert_eq!(wrong("sum(up"), ["( and ) do not match"]);
    assert_eq!(wrong("vector(1)"), ["no metric"]);

    let (dashboard, alerts) = (dashboard_queries(), alert_queries());
    assert!(dashboard.len() >= 20 && alerts.len() >= 8, "{} {}", dashboard.len(), alerts.len());
    for expr in dashboard.iter().chain(&alerts) {
        assert!(wrong(expr).is_empty(), "{expr}: {:?}", wrong(expr));
    }
    // The dashboard shows every metric.
    let shown: BTreeSet<&str> = dashboard
        .iter()
        .flat_map(|expr| names(expr))
        .filter_map(|name| metric_of(&name).map(|metric| metric.name))
        .collect();
    let unseen: Vec<_> = TABLE.iter().filter(|metric| !shown.contains(metric.name)).collect();
    assert!(unseen.is_empty(), "{unseen:?}");
}
