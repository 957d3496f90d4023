//! Parts of pages that the program generates: settings, metrics, routes, reasons, help pages.
//! And the handwritten table of exit codes, compared by its codes.

use std::fmt::Write as _;

use tstar::internals::model::reason::{DeadReason, DropReason};
use tstar::internals::telemetry;

use super::{help, pages, root, scoreboard};

const GENERATED: &str = "<!-- generated: ";
const COMPARED: &str = "<!-- compared: ";

/// A marked part: its name, and the lines between its marks.
struct Part<'a> {
    name: &'a str,
    text: &'a str,
}

/// The parts of a page that a mark opens.
fn parts<'a>(page: &'a str, mark: &str) -> Vec<Part<'a>> {
    let end = mark.replace("<!-- ", "<!-- end of ").replace(": ", " -->");
    let part = |rest: &'a str| {
        let (name, rest) = rest.split_once(" -->\n").expect("a mark ends its line");
        let (text, _) = rest.split_once(&end).unwrap_or_else(|| panic!("{name} has no end"));
        Part { name, text }
    };
    page.split(mark).skip(1).map(part).collect()
}

/// The table of settings.
fn settings() -> String {
    let mut table =
        String::from("| flag | variable, key | default | what it does |\n|---|---|---|---|\n");
    for setting in tstar::internals::settings::TABLE.iter() {
        let default = if setting.default.is_empty() { "none" } else { setting.default };
        table += &format!(
            "| `{}` | `{}`, `{}` | {default} | {} |\n",
            setting.flag, setting.env, setting.key, setting.help
        );
    }
    table
}

fn metrics() -> String {
    let mut table = String::from("| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for metric in telemetry::TABLE {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels) = (metric.name, metric.kind.name(), labels.join(", "));
        writeln!(table, "| `{name}` | {kind} | {labels} | {} |", metric.help).unwrap();
    }
    table
}

/// The routes in the description of the API. Those that differ in their suffix share a row.
fn routes() -> String {
    let api = serde_json::to_value(tstar::internals::http::openapi::document()).unwrap();
    let mut rows: Vec<(String, String, Vec<String>)> = Vec::new();
    for (path, methods) in api["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let summary = operation["summary"].as_str().unwrap_or_default();
            let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or(&[]);
            let query = parameters.iter().filter(|it| it["in"] == "query");
            let query: Vec<_> =
                query.filter_map(|it| Some(format!("`{}`", it["name"].as_str()?))).collect();
            let summary = summary.trim_end_matches('.').replace('\n', " ");
            let rest = format!("{} | {summary}", query.join(", "));
            let route = format!("{} {path}", method.to_uppercase());
            match (rows.last_mut(), route.rsplit_once('.')) {
                (Some((base, same, suffixes)), Some((stem, suffix)))
                    if base == stem && *same == rest =>
                {
                    suffixes.push(suffix.to_owned());
                }
                _ => rows.push((route, rest, Vec::new())),
            }
        }
    }
    let mut table = String::from("| route | parameters | what it gives |\n|---|---|---|\n");
    for (route, rest, suffixes) in rows {
        let suffixes: String = suffixes.iter().map(|suffix| format!(", `.{suffix}`")).collect();
        writeln!(table, "| `{route}`{suffixes} | {rest} |").unwrap();
    }
    table
}

/// The table of reasons with their meanings, which are sentences.
fn reasons(named: impl Iterator<Item = (&'static str, &'static str)>) -> String {
    let mut table = String::from("| reason | meaning |\n|---|---|\n");
    for (name, meaning) in named {
        let (first, rest) = meaning.trim_end_matches('.').split_at(1);
        writeln!(table, "| `{name}` | {}{rest} |", first.to_lowercase()).unwrap();
    }
    table
}

/// The text for the marks of a name.
fn generated(name: &str) -> String {
    match name {
        "settings" => settings(),
        "metrics" => metrics(),
        "routes" => routes(),
        "dead-letter reasons" => {
            reasons(DeadReason::ALL.iter().map(|it| (it.name(), it.meaning())))
        }
        "drop reasons" => reasons(DropReason::ALL.iter().map(|it| (it.name(), it.meaning()))),
        "scoreboard" => scoreboard::table(),
        "help" => format!("\n{}\n", help::sections()),
        other => panic!("nothing generates `{other}`"),
    }
}

#[test]
fn generated_parts_are_those_of_the_program() {
    let is_to_write = std::env::var_os("TSTAR_WRITE_DOCS").is_some_and(|it| it == "1");
    let (mut seen, mut stale) = (Vec::new(), Vec::new());
    for page in pages() {
        let mut text = page.text.clone();
        for part in parts(&page.text, GENERATED) {
            let fresh = generated(part.name);
            if part.text != fresh {
                stale.push(format!("{}: {}", page.path, part.name));
                let mark = format!("{GENERATED}{} -->\n", part.name);
                text = text.replacen(&format!("{mark}{}", part.text), &format!("{mark}{fresh}"), 1);
            }
            seen.push(part.name.to_owned());
        }
        if is_to_write && text != page.text {
            std::fs::write(root().join(&page.path), text).unwrap();
        }
    }
    seen.sort();
    let all = "dead-letter reasons, drop reasons, help, metrics, routes, scoreboard, settings";
    assert_eq!(seen.join(", "), all);
    let how = "TSTAR_WRITE_DOCS=1 cargo test --locked --test it -- docs::generated";
    assert!(stale.is_empty() || is_to_write, "not those of the program: {stale:?}; run {how}");
    println!("{} parts are those of the program, {} written", seen.len(), stale.len());
}

#[test]
fn the_table_of_exit_codes_has_those_of_the_help() {
    let codes: Vec<_> = help::exit_codes().into_iter().map(|(codes, _)| codes).collect();
    let mut tables = 0;
    for page in pages() {
        for part in parts(&page.text, COMPARED) {
            let rows = part.text.lines().skip(2);
            let found: Vec<_> = rows.map(|row| row.split('|').nth(1).unwrap().trim()).collect();
            assert_eq!(found, codes, "{}: {}", page.path, part.name);
            tables += 1;
        }
    }
    assert_eq!(tables, 1);
}
