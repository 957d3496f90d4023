//! The table of the library's API names what `src/lib.rs` exports, and nothing else.

use std::collections::BTreeSet;

use super::{page, root};

const HIDDEN: &str = "#[doc(hidden)]";

/// The names that the text of `lib.rs` exports: those of `pub use`, and public modules that the
/// documentation shows. Items of a module are indented, and not among them.
fn exported(lib: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut before = "";
    for line in lib.lines() {
        if let Some(path) = line.strip_prefix("pub use ") {
            let list = path.rsplit("::").next().unwrap_or(path);
            let list = list.trim_matches(|c: char| "{};".contains(c)).split(',');
            names.extend(list.map(|name| name.trim().to_owned()));
        } else if let Some(module) = line.strip_prefix("pub mod ").filter(|_| before != HIDDEN) {
            names.insert(module.trim_end_matches(['{', ';', ' ']).to_owned());
        }
        before = line;
    }
    names
}

/// The names in the first column of the table under a heading.
fn listed(page: &str, heading: &str) -> BTreeSet<String> {
    let (_, section) = page.split_once(heading).expect("the page has the heading");
    let rows = section.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
    let first = rows.map(|row| row.split('|').nth(1).unwrap());
    first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn the_page_names_what_the_library_exports() {
    let planted = "pub use a::b::{Day, LogTime};\npub use a::Sample;\n#[doc(hidden)]\n\
                   pub mod cli;\nmod codec;\npub mod id {\n    pub use c::Inner;\n}\n";
    let names = |text: &str| text.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(exported(planted), names("Day LogTime Sample id"));
    let planted = "# A\n| `X` | x |\n# B\n| item | what |\n|---|---|\n\
                   | `Day`, `id` | a `T` |\n\n| `Y` | y |\n";
    assert_eq!(listed(planted, "# B"), names("Day id"));

    let lib = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    assert_eq!(listed(&page("docs/library.md").text, "## What is public"), exported(&lib));
}
