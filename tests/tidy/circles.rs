//! Files of a module import each other without large circles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::repository::{read, rust_files};

/// Maximum number of files that may import each other in a circle.
const MAX_FILES: usize = 3;

/// Folders whose files are checked. What a child uses of its parents does not count.
const FOLDERS: &[&str] = &["src/source"];

/// The names of a module below the folder, such as `file`, `reader`.
type Module = Vec<String>;

/// What a file imports, and what it passes on from its children: names with their modules.
#[derive(Default)]
struct File {
    imports: Vec<Vec<String>>,
    passed_on: BTreeMap<String, Module>,
}

/// The paths of a tree of imports, such as `a::{b, c::d}`.
fn expand(tree: &str) -> Vec<String> {
    let Some((before, inner)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let inner = inner.strip_suffix('}').unwrap_or(inner);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in inner.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().unwrap().push(c),
        }
    }
    parts.iter().flat_map(|part| expand(part)).map(|part| before.to_owned() + &part).collect()
}

/// Reads a file of the folder with this name.
fn parse(folder: &str, own: &Module, text: &str) -> File {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let code: Vec<_> = code.lines().map(|line| line.split("//").next().unwrap()).collect();
    let code = code.join("\n");
    let split = |path: &str| path.split("::").map(|part| part.trim().to_owned()).collect();
    let mut file = File::default();
    for statement in code.split(';') {
        let Some((before, tree)) = statement.split_once("use ") else { continue };
        let tree: String = tree.chars().filter(|c| !c.is_whitespace()).collect();
        let is_public = before.lines().last().is_some_and(|line| line.trim().starts_with("pub"));
        for path in expand(&tree) {
            let mut path: Vec<String> = split(&path);
            if is_public && let Some(name) = path.pop() {
                let below = path.into_iter().filter(|part| part != "self");
                file.passed_on.insert(name, own.iter().cloned().chain(below).collect());
            } else {
                file.imports.push(path);
            }
        }
    }
    let words = code.split(|c: char| !c.is_alphanumeric() && !"_:".contains(c));
    file.imports.extend(words.filter(|word| word.contains("::")).map(split));
    let prefix = ["crate".to_owned(), folder.rsplit('/').next().unwrap().to_owned()];
    for path in &mut file.imports {
        let mut from = own.clone();
        match path.first().map(String::as_str) {
            Some("crate") if path.starts_with(&prefix) => from.clear(),
            Some("super" | "self") => {
                for up in path.iter().take_while(|part| *part == "super" || *part == "self") {
                    from.truncate(from.len().saturating_sub(usize::from(up == "super")));
                }
            }
            _ => {}
        }
        let is_step = |part: &String| ["crate", "super", "self", &prefix[1]].contains(&&**part);
        from.extend(path.drain(..).skip_while(is_step));
        *path = from;
    }
    file
}

/// The files that lead from one by its imports and theirs.
fn reachable<'a>(
    imports: &'a BTreeMap<Module, Vec<Module>>,
    from: &'a Module,
) -> BTreeSet<&'a Module> {
    let (mut open, mut seen) = (vec![from], BTreeSet::new());
    while let Some(own) = open.pop() {
        open.extend(imports[own].iter().filter(|other| seen.insert(*other)));
    }
    seen
}

/// The circles of more than [`MAX_FILES`] files.
fn circles(files: &BTreeMap<Module, File>) -> Vec<String> {
    let target = |path: &Vec<String>| {
        let mut found = Module::new();
        for part in path {
            found.push(part.clone());
            if !files.contains_key(&found) {
                let name = found.pop().unwrap();
                let passed_on = files.get(&found).and_then(|file| file.passed_on.get(&name));
                return passed_on.cloned().unwrap_or(found);
            }
        }
        found
    };
    let imports = |(own, file): (&Module, &File)| {
        let others = file.imports.iter().map(target).filter(|other| !own.starts_with(other));
        (own.clone(), others.filter(|other| files.contains_key(other)).collect::<Vec<_>>())
    };
    let imports: BTreeMap<Module, Vec<Module>> = files.iter().map(imports).collect();
    let reach: BTreeMap<&Module, BTreeSet<&Module>> =
        imports.keys().map(|own| (own, reachable(&imports, own))).collect();
    let circle = |own: &&Module| -> Vec<String> {
        let back = reach[*own].iter().filter(|other| reach[**other].contains(own));
        back.map(|other| other.join("/")).collect()
    };
    let all: BTreeSet<Vec<String>> = reach.keys().map(circle).collect();
    all.into_iter().filter(|it| it.len() > MAX_FILES).map(|it| it.join(", ")).collect()
}

fn files_of(folder: &str, texts: &[(String, String)]) -> BTreeMap<Module, File> {
    let module = |path: &str| -> Module {
        let path = path.strip_prefix(folder).unwrap().trim_start_matches('/');
        let path = path.strip_suffix(".rs").unwrap();
        let path = if path == "mod" { "" } else { path.strip_suffix("/mod").unwrap_or(path) };
        path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let own = texts.iter().map(|(path, text)| (module(path), text));
    own.map(|(own, text)| (own.clone(), parse(folder, &own, text))).collect()
}

#[test]
fn no_large_circle_of_files_is_left() {
    let planted = [
        ("src/x/mod.rs", "mod a;\nmod b;\npub use a::A;\npub use c::{C, D};"),
        ("src/x/a.rs", "use super::{B, b::{self, E}};"),
        ("src/x/b.rs", "use super::C;\nuse crate::y::a;"),
        ("src/x/c/mod.rs", "fn f() -> crate::x::d::D {}"),
        ("src/x/c/inner.rs", "use super::C;\nuse super::super::a;"),
        (
            "src/x/d.rs",
            "use super::A;\n// use super::e;\n#[cfg(test)]\nmod tests { use super::e; }",
        ),
        ("src/x/e.rs", "use super::a;"),
    ];
    let planted = planted.map(|(path, text)| (path.to_owned(), text.to_owned()));
    assert_eq!(circles(&files_of("src/x", &planted)), ["a, b, c, d"]);
    assert_eq!(circles(&files_of("src/x", &planted[..4])), [""; 0]);

    for folder in FOLDERS {
        let is_test = |path: &Path| path.file_stem().unwrap().to_str().unwrap().ends_with("tests");
        let paths = rust_files(folder).into_iter().filter(|path| !is_test(path));
        let texts = paths.map(|path| (path.to_str().unwrap().to_owned(), read(&path)));
        let found = circles(&files_of(folder, &texts.collect::<Vec<_>>()));
        assert!(found.is_empty(), "{folder}: files import each other:\n{}", found.join("\n"));
    }
}
