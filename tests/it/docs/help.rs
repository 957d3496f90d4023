//! Help pages, as the program prints them, without the flags that are settings.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::{Command, Stdio};

/// The short help of a command.
fn help(command: &[String]) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tstar"));
    // A fixed width: without a terminal, the help uses COLUMNS.
    let program = program.args(command).arg("-h").env("COLUMNS", "100").stdin(Stdio::null());
    let output = program.output().unwrap();
    assert!(output.status.success(), "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that a help page lists.
fn listed(help: &str) -> Vec<String> {
    let section = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.is_empty());
    // A longer description continues on lines that are indented further.
    let entries = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = entries.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// A page without the entries of settings, and the names of those settings.
fn without_settings(help: &str) -> (String, Vec<&'static str>) {
    let flags: BTreeSet<_> =
        tstar::internals::settings::TABLE.iter().map(|it| it.flag.as_str()).collect();
    let (mut kept, mut found, mut is_setting) = (String::new(), Vec::new(), false);
    for line in help.lines() {
        let indent = line.len() - line.trim_start().len();
        let is_entry = line.trim_start().starts_with('-') && (2..=6).contains(&indent);
        if is_entry {
            let words = line.split([' ', ',', '=', '[']);
            let flag = words.filter(|word| word.starts_with("--")).find_map(|it| flags.get(it));
            found.extend(flag);
            is_setting = flag.is_some();
        } else if line.is_empty() {
            is_setting = false;
        }
        if !is_setting {
            kept.push_str(line.trim_end());
            kept.push('\n');
        }
    }
    (kept, found)
}

/// The section of a command, and those of its subcommands.
fn section(command: &[String]) -> String {
    let help = help(command);
    let (text, settings) = without_settings(&help);
    let (about, rest) = text.split_once("\n\n").unwrap();
    let mut section = format!(
        "### tstar {}\n\n{}.\n\n```text\n{}\n```\n",
        command.join(" "),
        about.replace('\n', " "),
        rest.trim_end()
    );
    if !settings.is_empty() {
        let names: Vec<_> = settings.iter().map(|flag| format!("`{flag}`")).collect();
        writeln!(section, "\nSettings: {}.", names.join(", ")).unwrap();
    }
    for name in listed(&help) {
        let below: Vec<_> = command.iter().cloned().chain([name]).collect();
        section = format!("{section}\n{}", self::section(&below));
    }
    section
}

/// All pages.
pub fn sections() -> String {
    let commands = listed(&help(&[]));
    assert!(commands.len() > 15, "{commands:?}");
    let sections: Vec<_> = commands.into_iter().map(|name| section(&[name])).collect();
    sections.join("\n")
}

/// The exit codes that `tstar --help` lists, with their meaning.
pub fn exit_codes() -> Vec<(String, String)> {
    let help = help(&[]);
    let codes = help.split("Exit codes: ").nth(1).expect("the help lists exit codes");
    let codes = codes.trim().trim_end_matches('.').replace('\n', " ");
    let entry = |entry: &str| {
        let is_code = |word: &&str| *word == "and" || word.parse::<u8>().is_ok();
        let words: Vec<_> = entry.split_whitespace().collect();
        let codes: Vec<_> = words.iter().copied().take_while(is_code).collect();
        let meaning = words[codes.len()..].join(" ");
        (codes.join(" ").replace(" and ", ", "), meaning)
    };
    codes.split("; ").map(entry).collect()
}

#[test]
fn settings_are_left_out_of_help() {
    let help = "Usage: x\n\nOptions:\n      --store <URL>  Where\n                     it is\n      \
                --strict       Exit\n  -h, --help         Print\n\nExamples:\n  tstar x\n";
    let (kept, found) = without_settings(help);
    assert_eq!(found, ["--store"]);
    assert!(kept.contains("--strict") && kept.contains("-h, --help"), "{kept}");
    assert!(!kept.contains("it is") && kept.contains("tstar x"), "{kept}");
    let codes = exit_codes();
    assert_eq!(codes[0].0, "0");
    assert_eq!(codes.last().unwrap().0, "130, 143");
}
