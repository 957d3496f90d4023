//! The map: coast lines, grid, tiles, and what it shows when the server has gone.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};

use super::browser::Browser;
use super::serve::Serve;
use super::{merged, opened, stored};
use crate::cli::minutes;

/// Visible pixels of the layer that trips are drawn on.
const DRAWN: &str = "(() => {
    const canvas = document.querySelector('.leaflet-overlay-pane canvas');
    const context = canvas.getContext('2d');
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    return data.filter((value, at) => at % 4 === 3 && value > 0).length;
})()";

/// Runs a script of a module, which returns its result.
#[track_caller]
fn in_module(browser: &Browser, script: &str) -> Value {
    let wrapped = format!(
        "window.result = undefined;
        const keep = (it) => (window.result = it);
        (async () => {{ {script} }})().then(keep, (fault) => keep(String(fault)));"
    );
    browser.js(&wrapped, &[]);
    browser.until("window.result !== undefined");
    browser.value("window.result")
}

#[test]
fn no_land_is_drawn_across_the_globe() {
    let folder = merged();
    let Some((_serve, browser)) = opened(&folder) else { return };
    browser.until_count(".device", 1);
    let found = in_module(
        &browser,
        "
        const { outlines } = await import('/assets/base.js');
        const world = await (await fetch('/assets/world.json')).json();
        const shapes = outlines(world);
        let widest = 0;
        for (const ring of shapes.flat()) {
          for (let at = 1; at < ring.length; at += 1) {
            widest = Math.max(widest, Math.abs(ring[at][1] - ring[at - 1][1]));
          }
        }
        // By the even-odd rule, as the canvas fills.
        const crosses = ([aLat, aLon], [bLat, bLon], lat, lon) =>
          aLat > lat !== bLat > lat && lon < aLon + ((lat - aLat) / (bLat - aLat)) * (bLon - aLon);
        const isIn = (ring, lat, lon) => ring.reduce(
          (odd, point, at) => odd !== crosses(point, ring.at(at - 1), lat, lon), false);
        const isLand = ([lat, lon]) => shapes.some((rings) => isIn(rings[0], lat, lon));
        const sea = [[-16.5, -20], [-17, 90], [73, -165], [75, -150], [0, -30], [-65, -150]];
        const land = [[66, -175], [66, 178], [61, 90], [48, 2], [-80, 0], [-80, 150], [-85, -120]];
        return { widest, sea: sea.map(isLand), land: land.map(isLand) };",
    );
    // An edge along the pole closes a continent around it, and is out of sight.
    assert!(found["widest"].as_f64().is_some_and(|it| it <= 360.0), "{found}");
    assert_eq!(found["sea"], json!(vec![false; 6]), "{found}");
    assert_eq!(found["land"], json!(vec![true; 7]), "{found}");
}

#[test]
fn grid_labels_are_whole_at_every_zoom() {
    let folder = merged();
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.goto(&serve.url("#trip=van~20240501T080000.000Z"));
    browser.until_count(".chart", 1);
    let labels = "[...document.querySelectorAll('.map .grid-label')].map((el) => {
        const [box, map] = [el, el.closest('.map')].map((it) => it.getBoundingClientRect());
        const isInside = box.left >= map.left - 1 && box.right <= map.right + 1 &&
            box.top >= map.top - 1 && box.bottom <= map.bottom + 1;
        const scale = box.width / el.offsetWidth;
        return [el.textContent, isInside, Math.abs(scale - 1) < 0.01];
    })";
    // The wheel and pinches stop at half zooms.
    for _ in 0..6 {
        let shown = browser.value(labels);
        let shown = shown.as_array().unwrap();
        assert!(shown.len() >= 2, "{shown:?}");
        for label in shown {
            assert_eq!(label[1], json!(true), "{label} is cut");
            assert_eq!(label[2], json!(true), "{label} is scaled");
            let text = label[0].as_str().unwrap();
            assert!(text.ends_with('°') && text.len() > 2, "{label}");
        }
        let zoom = "document.querySelector('#map').dataset.zoom";
        let before = browser.value(zoom);
        browser.wheel("#map", -60);
        browser.until(&format!("{zoom} !== {before}"));
    }
    browser.picture("grid");
}

#[test]
fn tracks_go_when_another_device_cannot_be_loaded() {
    let folder = stored(&(minutes("bus", &[0, 2, 4]) + &minutes("van", &[0, 2, 6])));
    let Some((mut serve, browser)) = opened(&folder) else { return };
    browser.until_count(".device", 2);
    browser.click("tr:nth-child(2) .device");
    browser.until_count("rect.bar", 1);
    browser.click_at(".track", 483.0 / 1440.0);
    browser.until_count(".chart", 1);
    browser.until(&format!("{DRAWN} > 0"));
    serve.stop();
    browser.click("tr:nth-child(1) .device");
    browser.until_says("#lanes-state", "Cannot load the trips");
    assert_eq!(browser.text("#device-name"), "bus");
    browser.until(&format!("{DRAWN} === 0"));
    assert_eq!(browser.count("rect.bar"), 0);
    browser.picture("unreachable");
}

/// A tile server: every request gets one white pixel, and the names of the headers that it had.
struct Tiles {
    address: String,
}

impl Tiles {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || answer(stream));
            }
        });
        Self { address }
    }

    fn url(&self) -> String {
        format!("http://{}/{{z}}/{{x}}/{{y}}.png", self.address)
    }
}

/// A PNG of one white pixel.
const PIXEL: [u8; 67] = [
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0, 0, 0,
    1, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0, 0x0a, 0x49, 0x44, 0x41, 0x54,
    0x78, 0x9c, 0x63, 0xf8, 0x0f, 0, 1, 1, 1, 0, 0xb1, 0x38, 0xf6, 0x14, 0, 0, 0, 0, 0x49, 0x45,
    0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

fn answer(mut stream: TcpStream) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    while lines.next().is_some_and(|line| !line.is_empty()) {}
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        PIXEL.len()
    );
    // The browser may have gone.
    stream.write_all(&[head.as_bytes(), &PIXEL].concat()).ok();
}

#[test]
fn tiles_have_their_attribution_and_are_dark_in_the_dark() {
    let folder = merged();
    let tiles = Tiles::start();
    let Some(browser) = Browser::start() else { return };
    let attribution = "© [Mappers](https://maps.example.com/copyright) <b>&";
    let serve = Serve::with(
        &folder,
        &format!("--store sqlite:trips.db --tiles {}", tiles.url()),
        &["--tiles-attribution", attribution],
    );
    browser.scheme("light");
    browser.goto(&serve.url("#trip=van~20240501T080000.000Z"));
    browser.until_count(".chart", 1);
    browser.until("document.querySelector('.leaflet-tile-loaded') !== null");
    browser.until_says(".leaflet-control-attribution", "© Mappers <b>&");
    let link = "document.querySelector('.leaflet-control-attribution a').href";
    assert_eq!(browser.value(link), "https://maps.example.com/copyright");
    let filter = "getComputedStyle(document.querySelector('.leaflet-tile')).filter";
    assert_eq!(browser.value(filter), "none");
    let scale = "(() => {
        const style = getComputedStyle(document.querySelector('.leaflet-control-scale-line'));
        return [style.color, style.backgroundColor];
    })()";
    let light = browser.value(scale);
    browser.scheme("dark");
    browser.until(&format!("{filter}.includes('invert')"));
    let dark = browser.value(scale);
    assert_ne!(light, dark);
    for pair in [light, dark] {
        let back = pair[1].as_str().unwrap();
        assert!(!back.starts_with("rgba("), "text over tiles has no background: {back}");
        assert_ne!(pair[0], pair[1]);
    }
    browser.picture("tiles-dark");
}
