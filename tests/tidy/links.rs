//! Links and anchors, offline; the summary; the size of the README.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use pulldown_cmark::{Event, Tag, TagEnd};

use crate::page::{Page, page, pages};
use crate::root;

/// The README is what a newcomer reads first.
const README_BYTES: usize = 10_000;

/// The anchor of a heading, as mdBook and GitHub generate it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// Anchors of a page. Equal headings would get numbers, so they are not allowed.
fn anchors(page: &Page) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading = None;
    for (event, _) in page.events() {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(text) | Event::Code(text), Some(heading)) => *heading += &text,
            (Event::End(TagEnd::Heading(_)), Some(found)) => {
                let is_new = anchors.insert(anchor(found));
                assert!(is_new, "{}: two headings `{found}`", page.path);
                heading = None;
            }
            _ => (),
        }
    }
    anchors
}

/// Targets of the links and images of a page.
fn targets(page: &Page) -> Vec<String> {
    let target = |event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some(dest_url.into_string())
        }
        _ => None,
    };
    page.events().filter_map(|(event, _)| target(event)).collect()
}

/// The path from the top of the repository that a link leads to; `None` if it leaves the
/// repository.
fn resolved(page: &Page, link: &str) -> Option<PathBuf> {
    let mut path = Path::new(&page.path).parent().unwrap().to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir if path.pop() => (),
            Component::CurDir => (),
            _ => return None,
        }
    }
    Some(path)
}

/// The broken links of a page, given the anchors of all pages.
fn wrong(page: &Page, all: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for target in targets(page) {
        if target.starts_with("http://") || target.starts_with("https://") {
            continue;
        }
        let (link, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let path = match link {
            "" => Some(PathBuf::from(&page.path)),
            link => resolved(page, link),
        };
        let path = path.filter(|path| root().join(path).is_file());
        let Some(path) = path.and_then(|path| Some(path.to_str()?.to_owned())) else {
            wrong.push(format!("{}: no file {target}", page.path));
            continue;
        };
        // The book contains its own folder only.
        if page.path.starts_with("docs/") && !path.starts_with("docs/") {
            wrong.push(format!("{}: {target} leads out of the book", page.path));
        }
        let has_anchor = || all.get(&path).is_some_and(|anchors| anchors.contains(anchor));
        if !anchor.is_empty() && !has_anchor() {
            wrong.push(format!("{}: no anchor {target}", page.path));
        }
    }
    wrong
}

#[test]
fn every_link_and_anchor_resolves() {
    assert_eq!(anchor("Check everything: `doctor`, a_b"), "check-everything-doctor-a_b");
    let all = pages().into_iter().map(|page| (page.path.clone(), anchors(&page))).collect();
    let planted = "# A\n[a](#a) [b](#b) [c](files.md#memory) [d](files.md#none) [e](none.md)\n\
                   [f](../README.md) ![g](pictures/light.png) [h](https://example.com/none)\n";
    let planted = Page { path: "docs/concepts.md".to_owned(), text: planted.to_owned() };
    let own = BTreeMap::from([("docs/concepts.md".to_owned(), anchors(&planted))]);
    let found: BTreeMap<_, _> = [all, own].into_iter().flatten().collect();
    let expected = ["no anchor #b", "no anchor files.md#none", "no file none.md", "leads out"];
    let planted = wrong(&planted, &found);
    assert_eq!(planted.len(), expected.len(), "{planted:?}");
    assert!(planted.iter().zip(expected).all(|(it, part)| it.contains(part)), "{planted:?}");

    let pages = pages();
    let all = pages.iter().map(|page| (page.path.clone(), anchors(page))).collect();
    let found: Vec<_> = pages.iter().flat_map(|page| wrong(page, &all)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    println!("{} links resolve", pages.iter().map(|page| targets(page).len()).sum::<usize>());
}

#[test]
fn the_summary_and_the_readme_name_every_page() {
    let names = |page: Page, folder: &str| -> Vec<_> {
        let targets = targets(&page).into_iter();
        targets.filter_map(|it| it.strip_prefix(folder).map(str::to_owned)).collect()
    };
    let is_page = |name: &String| name.ends_with(".md");
    let summary: Vec<_> = names(page("docs/SUMMARY.md"), "");
    let listed: BTreeSet<_> = summary.iter().cloned().collect();
    assert_eq!(listed.len(), summary.len(), "a page is listed twice: {summary:?}");
    let there = pages().into_iter().filter_map(|page| {
        let name = page.path.strip_prefix("docs/")?;
        (name != "SUMMARY.md").then(|| name.to_owned())
    });
    let there: BTreeSet<_> = there.collect();
    assert_eq!(listed, there);
    let index: BTreeSet<_> =
        names(page("README.md"), "docs/").into_iter().filter(is_page).collect();
    assert_eq!(index, there);
}

#[test]
fn every_page_opens_with_what_the_reader_gets() {
    for page in pages().iter().filter(|page| page.path != "docs/SUMMARY.md") {
        let starts = page.events().filter_map(|(event, _)| match event {
            Event::Start(Tag::Heading { .. }) => Some("heading"),
            Event::Start(Tag::Paragraph) => Some("paragraph"),
            Event::Start(Tag::Table(_) | Tag::CodeBlock(_) | Tag::List(_)) => Some("other"),
            _ => None,
        });
        let opening: Vec<_> = starts.take(2).collect();
        assert_eq!(opening, ["heading", "paragraph"], "{}", page.path);
    }
}

#[test]
fn the_readme_is_short() {
    let readme = page("README.md").text;
    assert!(readme.len() <= README_BYTES, "{} bytes; move something to docs/", readme.len());
}

/// Pages in `docs/` that a text names.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("docs/").filter_map(|(at, _)| {
        let rest = &text[at..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let name = rest[..end].trim_end_matches('.');
        name.ends_with(".md").then_some(name)
    })
}

#[test]
fn code_names_only_pages_that_are_there() {
    assert_eq!(named("see docs/a.md, docs/b and (docs/c-d.md).").count(), 2);
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut seen = 0;
    // Third-party data name pages of their own.
    let is_ours = |path: &&str| *path != "tests/tidy/links.rs" && !path.starts_with("tests/data/");
    for path in listed.split_terminator('\0').filter(is_ours) {
        let Ok(text) = std::fs::read_to_string(root().join(path)) else { continue };
        for name in named(&text) {
            assert!(root().join(name).is_file(), "{path} names {name}");
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen}");
}
