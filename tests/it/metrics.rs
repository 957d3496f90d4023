//! Metrics as Prometheus scrapes them, and the dashboard and alerts over them.

mod deploy;
mod exposed;
mod lag;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tstar::internals::telemetry::{Kind, Metric};

/// One value of a series.
#[derive(Clone, Debug, PartialEq)]
struct Value {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// One response of `/metrics`.
struct Scrape {
    text: String,
    /// By name, from `# TYPE`.
    types: BTreeMap<String, String>,
    values: Vec<Value>,
}

/// The body of an HTTP response.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    assert!(!is_chunked, "an answer of known length: {head}");
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

impl Scrape {
    /// Fetches the metrics; `None` while nothing listens.
    fn fetch(address: &str) -> Option<Self> {
        let text = get(address, "/metrics")?;
        let (mut types, mut values) = (BTreeMap::new(), Vec::new());
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("# HELP ")) {
            match line.strip_prefix("# TYPE ") {
                Some(kind) => {
                    let (name, kind) = kind.split_once(' ').unwrap();
                    let twice = types.insert(name.to_owned(), kind.to_owned());
                    assert!(twice.is_none(), "{name} comes twice");
                }
                None => values.push(value(line)),
            }
        }
        Some(Self { text, types, values })
    }

    /// The values of a metric.
    fn all(&self, name: &str) -> Vec<&Value> {
        self.values.iter().filter(|value| value.name == name).collect()
    }

    /// The sum of the values that have a label.
    #[track_caller]
    fn sum(&self, name: &str, label: Option<(&str, &str)>) -> f64 {
        let has_label = |value: &&&Value| {
            label.is_none_or(|(key, is)| value.labels.get(key).is_some_and(|found| found == is))
        };
        let all = self.all(name);
        let found: Vec<_> = all.iter().filter(has_label).map(|value| value.value).collect();
        assert!(!found.is_empty(), "no {name} {label:?} in\n{}", self.text);
        found.iter().sum()
    }
}

/// `name{label="value",...} 1`
fn value(line: &str) -> Value {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let value = value.parse().unwrap_or_else(|_| panic!("no value: {line}"));
    let (name, labels) = match series.split_once('{') {
        None => (series, ""),
        Some((name, rest)) => (name, rest.strip_suffix('}').unwrap()),
    };
    let pairs = labels.split("\",").filter(|pair| !pair.is_empty());
    let labels = pairs.map(|pair| {
        let (key, value) = pair.split_once("=\"").unwrap_or_else(|| panic!("labels of {line}"));
        (key.to_owned(), value.trim_end_matches('"').to_owned())
    });
    Value { name: name.to_owned(), labels: labels.collect(), value }
}

/// The metric that a series belongs to.
fn metric_of(series: &str) -> Option<&'static Metric> {
    let parts = ["_bucket", "_sum", "_count"].into_iter();
    let of_histogram = || {
        let whole = parts.filter_map(|part| Metric::by_name(series.strip_suffix(part)?)).next()?;
        (whole.kind == Kind::Histogram).then_some(whole)
    };
    Metric::by_name(series).filter(|it| it.kind != Kind::Histogram).or_else(of_histogram)
}

/// Labels of a metric's series.
fn labels_of(metric: &Metric) -> BTreeSet<&str> {
    metric.labels.iter().copied().collect()
}
