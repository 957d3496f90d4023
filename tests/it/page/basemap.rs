//! The base map of the server under the trips, and what is said of one that cannot be read.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::browser::Browser;
use super::hosts::strangers;
use super::merged;
use super::serve::Serve;
use crate::cli::Folder;
use crate::http::basemap::archive;

/// Colours of the tiles of a map, without what is transparent.
fn colours(browser: &Browser, map: &str) -> u64 {
    let found = browser.value(&format!(
        "(() => {{
            const found = new Set();
            for (const canvas of document.querySelectorAll('{map} canvas.leaflet-tile-loaded')) {{
                const {{ width, height }} = canvas;
                const {{ data }} = canvas.getContext('2d').getImageData(0, 0, width, height);
                for (let at = 0; at < data.length; at += 4) {{
                    if (data[at + 3] === 255) found.add(data.slice(at, at + 3).join());
                }}
            }}
            return found.size;
        }})()"
    ));
    found.as_u64().unwrap()
}

#[test]
fn the_demo_shows_the_streets_of_its_town() {
    let Some(browser) = Browser::start() else { return };
    let folder = Folder::new();
    folder.run("demo").ends(0);
    let served = "--store sqlite:tstar-demo.db --basemap tstar-demo.pmtiles";
    let serve = Serve::start(&folder, served);
    for scheme in ["light", "dark"] {
        browser.scheme(scheme);
        browser.goto(&serve.url("#map=52.1,12.6,14"));
        browser.until_says("#fleet-map .leaflet-control-attribution", "A town made by chance");
        browser.until("document.querySelector('#fleet-map canvas.leaflet-tile-loaded') !== null");
        // Main streets, others, and their outlines.
        browser.until(
            "[...document.querySelectorAll('#fleet-map canvas.leaflet-tile')]
                .every((el) => el.classList.contains('leaflet-tile-loaded'))",
        );
        let count = colours(&browser, "#fleet-map");
        assert!(count >= 3, "{scheme}: {count} colours");
        assert_eq!(browser.text("#fleet-map .base-note"), "");
        browser.picture(&format!("basemap-{scheme}"));
    }
    // The map of trips has it, too.
    browser.goto(&serve.url("#device=bus-5"));
    browser.until("document.querySelector('#map canvas.leaflet-tile-loaded') !== null");
    browser.until_says("#map .leaflet-control-attribution", "A town made by chance");
    assert!(strangers(serve.origin(), &browser.requests()).is_empty());
}

#[test]
fn a_base_map_that_cannot_be_read_is_named_on_the_map() {
    let Some(browser) = Browser::start() else { return };
    let folder = merged();
    // The tile is malformed, and the attribution HTML.
    let attribution = json!({
        "attribution": "<img src=x onerror='window.ran = 1'>&copy; [Mappers](https://evil.example) \
            \u{202e}<b>x</b>",
    });
    folder.write("town.pmtiles", archive(&attribution.to_string(), b"\xff\xff\xff"));
    let serve = Serve::start(&folder, "--store sqlite:trips.db --basemap town.pmtiles");
    browser.goto(&serve.url(""));
    browser.until_says("#fleet-map .base-note", "A part of the base map cannot be read");
    let credits = "#fleet-map .leaflet-control-attribution";
    let written = "Leaflet · Natural Earth · © [Mappers](https://evil.example) ⟨U+202E⟩x";
    browser.until_says(credits, written);
    assert_eq!(browser.count(&format!("{credits} :is(a, img, b)")), 0);
    assert_eq!(browser.value("window.ran === undefined"), json!(true));
    // The file is overwritten while the server runs.
    folder.write("town.pmtiles", "no map at all");
    browser.goto("about:blank");
    browser.goto(&serve.url("#trip=van~20240501T080000.000Z"));
    browser.until_says("#map .base-note", "it is not a PMTiles file of version 3");
    browser.until_count(".chart", 1);
    browser.until("document.querySelectorAll('#map .grid-lines line').length > 2");
    browser.picture("basemap-broken");
    std::fs::remove_file(folder.path("town.pmtiles")).unwrap();
    browser.goto("about:blank");
    browser.goto(&serve.url(""));
    browser.until_says("#fleet-map .base-note", "cannot be read now");
}

/// What is short in the file is long in memory: a million features of two bytes each.
#[test]
fn a_tile_of_too_many_features_is_refused() {
    let Some(browser) = Browser::start() else { return };
    let folder = merged();
    let features = [0x12, 0].repeat(1_000_000);
    // Layer: field 3 of the tile, with the length of its features as a varint.
    let length = [0x80, 0x89, 0x7a];
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&[&[0x1a], &length[..], &features].concat()).unwrap();
    let mut bytes = archive("{}", &gzip.finish().unwrap());
    // The compression of tiles: gzip.
    bytes[98] = 2;
    folder.write("town.pmtiles", bytes);
    let serve = Serve::start(&folder, "--store sqlite:trips.db --basemap town.pmtiles");
    browser.goto(&serve.url("#trip=van~20240501T080000.000Z"));
    browser.until_says("#map .base-note", "a tile has too many features");
    browser.until_count(".chart", 1);
}

/// A link to far outside of the world would let the map look for tiles without end.
#[test]
fn a_link_to_a_place_outside_of_the_world_shows_all_devices() {
    let Some(browser) = Browser::start() else { return };
    let folder = merged();
    folder.write("town.pmtiles", archive("{}", b""));
    let serve = Serve::start(&folder, "--store sqlite:trips.db --basemap town.pmtiles");
    for place in ["0,1e300,5", "0,1e15,18", "91,0,3", "1,2,NaN", "1,2,3,4,Infinity"] {
        browser.goto("about:blank");
        browser.goto(&serve.url(&format!("#map={place}")));
        browser.until_says("#fleet-facts", "1 device");
        browser.until("document.querySelectorAll('#fleet-map .grid-lines line').length > 2");
    }
}
