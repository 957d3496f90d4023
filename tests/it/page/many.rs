//! A day of 300 trips, a path of 86,400 points, and 10,000 devices of a keyspace.

use std::fmt::Write as _;

use super::overview::recent;
use super::{World, opened};
use crate::cli::Folder;

/// 300 trips of `bus` in a day, four samples each.
fn busy() -> String {
    let mut lines = String::new();
    for second in (0..300).flat_map(|trip| (0..4).map(move |nth| trip * 288 + nth * 3)) {
        writeln!(lines, "bus,{},52.5,13.{second:05}", time(second)).unwrap();
    }
    lines
}

/// One trip of `train`, a sample per second for a day.
fn long() -> String {
    let mut lines = String::new();
    for second in 0_u32..86_400 {
        let turn = f64::from(second) / 700.0;
        let (lat, lon) = (47.0 + turn.sin() * 0.5, 8.0 + f64::from(second) / 4e4);
        writeln!(lines, "train,{},{lat:.6},{lon:.6}", time(second)).unwrap();
    }
    lines
}

fn time(second: u32) -> String {
    format!("2024-05-01T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[test]
fn much_is_moved_and_simplified() {
    let folder =
        Folder::with("samples.csv", format!("device_id,time,lat,lon\n{}{}", busy(), long()));
    folder.ingest("samples.csv --store sqlite:trips.db --max-gap 60s");
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.goto(&serve.url("#device=bus"));
    browser.until_count("rect.bar", 300);
    // A frame moves the existing bars. Its duration depends on the machine.
    let frame = "const bars = () => [...document.querySelectorAll('rect.bar')];
        for (const bar of bars()) bar.wasThere = true;
        const began = performance.now();
        document.querySelector('#zoom-in').click();
        document.querySelector('.track').getBoundingClientRect();
        return [bars().filter((bar) => bar.wasThere).length, performance.now() - began];";
    let frame = browser.js(frame, &[]);
    println!("300 trips moved in {:.0} ms", frame[1].as_f64().unwrap());
    assert_eq!(frame[0], 300, "bars were drawn again");
    browser.until_count("rect.bar", 300);
    browser.picture("busy");
    let begun = std::time::Instant::now();
    browser.goto(&serve.url("#trip=train~20240501T000000.000Z"));
    browser.until_count(".chart", 1);
    println!("a path of 86,400 points shown in {:?}", begun.elapsed());
    let points = "performance.getEntriesByType('resource')
        .filter((entry) => entry.name.includes('path=true')).at(-1).encodedBodySize";
    let size = browser.value(points).as_u64().unwrap();
    println!("its path came in {size} bytes");
    assert!(size < 300_000, "{size} bytes: the path was not simplified");
    browser.picture("long");
    // Zoomed in, it is requested at full resolution.
    let before = "performance.getEntriesByType('resource')
        .filter((entry) => entry.name.includes('path=true')).length";
    let requests = browser.value(before).as_u64().unwrap();
    (0..3).for_each(|_| browser.click(".leaflet-control-zoom-in"));
    browser.until(&format!("{before} > {requests}"));
    browser.until("!document.querySelector('#map-state').textContent");
}

#[test]
#[ignore = "a measurement, which tests/nightly/page prints"]
fn ten_thousand_devices_of_a_keyspace() {
    let samples: String =
        (0..10_000).map(|nth| recent(&format!("truck-{nth}"), &[180, 120, 60], true)).collect();
    let Some(World { serve, browser, .. }) = &World::of_keyspace(&samples) else { return };
    browser.until_says("#fleet-facts", "10,000 devices");
    let list = "let [found, cursor] = [0, ''];
        const began = performance.now();
        do {
            const asked = new XMLHttpRequest();
            const next = cursor && `&cursor=${cursor}`;
            asked.open('GET', `/v1/devices?last=true&limit=1000${next}`, false);
            asked.send();
            const page = JSON.parse(asked.responseText);
            found += page.devices.filter(({ last }) => last !== null).length;
            cursor = page.next;
        } while (cursor);
        return [found, performance.now() - began];";
    for _ in 0..5 {
        let listed = browser.js(list, &[]);
        assert_eq!(listed[0], 10_000);
        println!("10,000 devices listed in {:.0} ms", listed[1].as_f64().unwrap());
    }
    for _ in 0..3 {
        browser.goto("about:blank");
        browser.goto(&serve.url(""));
        browser.until_count(".device", 200);
        let first = browser.value("performance.now()").as_f64().unwrap();
        browser.until_says("#fleet-facts", "10,000 devices");
        let all = browser.value("performance.now()").as_f64().unwrap();
        println!("first content after {first:.0} ms, all devices after {all:.0} ms");
    }
}
