//! The page in a real Chromium: what a person sees, clicks and types.
//!
//! Each case starts the real binary; they use one browser, one at a time. Screenshots are in
//! `target/screenshots`.

mod basemap;
pub mod browser;
mod days;
mod fleet;
mod fleet_trips;
mod hostile;
mod hosts;
mod ids;
mod live;
mod looks;
mod lookup;
mod many;
mod map;
mod marks;
mod news;
mod overview;
mod overview_more;
mod serve;
mod small;
mod spans;
mod tags;
mod trip;
mod what_if;
mod world;

use browser::Browser;
use serve::Serve;
use world::{World, on_both};

use crate::cli::{Folder, minutes};

/// A merged trip of `van` at minutes 0 to 12 that retired 10, and one at 40 to 44.
fn merged_samples() -> String {
    minutes("van", &[10, 12, 0, 2, 6]) + &minutes("van", &[40, 42, 44])
}

/// A folder with a store of these samples.
fn merged() -> Folder {
    stored(&merged_samples())
}

/// A folder with a store of the given samples.
fn stored(samples: &str) -> Folder {
    let folder = Folder::with("samples.ndjson", samples);
    folder.ingest("samples.ndjson --store sqlite:trips.db");
    folder
}

/// The page over the store of [`stored`]; `None`, with a message, without a browser.
fn opened(folder: &Folder) -> Option<(Serve, Browser)> {
    let browser = Browser::start()?;
    let serve = Serve::start(folder, "--store sqlite:trips.db");
    browser.goto(&serve.url(""));
    Some((serve, browser))
}
