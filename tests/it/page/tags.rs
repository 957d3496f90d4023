//! Tags of the selected trip.

use super::{World, on_both};
use crate::cli::minutes;

const ID: &str = "van~20240501T080000.000Z";
const SECOND: &str = "van~20240501T081000.000Z";

#[test]
fn tags_are_shown_and_follow_a_merge() {
    on_both(&minutes("van", &[0, 2, 10, 12]), follow_a_merge);
}

fn follow_a_merge(world: &World) {
    let World { serve, browser, .. } = world;
    world.tag(ID, &["purpose=business"]);
    world.tag(SECOND, &["purpose=private", "note=<b>\u{202e}toll</b>"]);
    browser.goto(&serve.url(&format!("#trip={ID}")));
    browser.until_says("#detail .tags", "purpose");
    browser.until_says("#detail .tags", "business");
    browser.until_says("#live-text", "Live");
    // The trips meet: the newest value of each key counts.
    world.add(&minutes("van", &[6]));
    browser.until_count("rect.bar", 1);
    browser.until_says("#detail .tags", "private");
    browser.until_says("#detail .tags", "<b>");
    assert_eq!(browser.count("#detail .tags b"), 0, "what users wrote is text");
    assert!(
        !browser.text("#detail .tags").contains('\u{202e}'),
        "it cannot turn what follows around"
    );
    assert!(!browser.text("#detail .tags").contains("business"));
    browser.picture("tags");
    // One that is set while the page shows the trip.
    world.tag(ID, &["driver-changed=yes"]);
    browser.until_says("#detail .tags", "driver-changed");
}

#[test]
fn why_the_tags_of_a_device_are_missing_is_said() {
    let folder = super::merged();
    let Some((serve, browser)) = super::opened(&folder) else { return };
    let broken = "const sent = window.fetch;
        window.fetch = (path, ...more) => path.endsWith('/tags') && !window.isWhole
            ? Promise.resolve(new Response('{\"detail\": \"the disk is broken\"}', { status: 500 }))
            : sent(path, ...more);";
    browser.js(broken, &[]);
    browser.js("location.hash = '#device=van'", &[]);
    browser.until_says("#device-tags .fault", "Cannot read name, group and other tags: the disk");
    assert_eq!(browser.value("document.querySelector('#device-tags').open"), true);
    browser.picture("no-tags");
    browser.js("window.isWhole = true", &[]);
    browser.click("#device-tags .button");
    browser.until_count("#device-tags .tag-section", 1);
    drop(serve);
}
