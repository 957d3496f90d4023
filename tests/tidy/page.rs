//! README and the pages in `docs/`, as Markdown.

use std::path::PathBuf;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::root;

/// A page, by its path from the top of the repository.
pub struct Page {
    /// From the top of the repository, such as `docs/kafka.md`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// A fenced block: its language, its text, and its first line.
pub struct Block {
    /// After the fence, such as `sh`.
    pub language: String,
    /// Its text.
    pub text: String,
    /// Where its fence is, from 1.
    pub line: usize,
}

/// Reads a page.
pub fn page(path: &str) -> Page {
    let text = std::fs::read_to_string(root().join(path));
    Page { path: path.to_owned(), text: text.unwrap_or_else(|error| panic!("{path}: {error}")) }
}

/// README and every page in `docs/`, the summary included, by name.
pub fn pages() -> Vec<Page> {
    let folder = std::fs::read_dir(root().join("docs")).unwrap();
    let paths = folder.map(|entry| PathBuf::from("docs").join(entry.unwrap().file_name()));
    let is_page = |path: &PathBuf| path.extension().is_some_and(|it| it == "md");
    let mut paths: Vec<_> = paths.filter(is_page).collect();
    paths.sort();
    assert!(paths.len() > 10, "{paths:?}");
    paths.insert(0, "README.md".into());
    paths.iter().map(|path| page(path.to_str().unwrap())).collect()
}

impl Page {
    /// The Markdown events of the page, each with its range.
    pub fn events(&self) -> impl Iterator<Item = (Event<'_>, std::ops::Range<usize>)> {
        Parser::new_ext(&self.text, Options::ENABLE_TABLES).into_offset_iter()
    }

    /// Its fenced blocks. Each needs a language, for a block without one could hide commands.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut is_inside = false;
        for (event, range) in self.events() {
            let line = self.text[..range.start].matches('\n').count() + 1;
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                    assert!(!language.is_empty(), "{}:{line}: name the language", self.path);
                    let language = language.into_string();
                    blocks.push(Block { language, text: String::new(), line });
                    is_inside = true;
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => {
                    panic!("{}:{line}: use a fence instead of an indent", self.path)
                }
                Event::End(TagEnd::CodeBlock) => is_inside = false,
                Event::Text(text) if is_inside => blocks.last_mut().unwrap().text += &text,
                _ => (),
            }
        }
        blocks
    }
}
