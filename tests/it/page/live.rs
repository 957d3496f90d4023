//! Live changes on the page.

use fantoccini::key::Key;
use serde_json::json;

use super::browser::Browser;
use super::serve::Serve;
use super::{World, on_both, opened, stored};
use crate::cli::{Folder, minutes};

#[test]
fn a_merge_is_seen() {
    on_both(&minutes("van", &[0, 2, 4, 12, 14]), see_a_merge);
}

fn see_a_merge(world: &World) {
    let World { serve, browser, .. } = world;
    let retired = "van~20240501T081200.000Z";
    browser.goto(&serve.url(&format!("#trip={retired}")));
    browser.until_count("rect.bar", 2);
    browser.until_says("#live-text", "Live");
    browser.until_says(".asked[data-match=current]", retired);
    // Zoomed in far enough to see it.
    (0..4).for_each(|_| browser.click("#zoom-in"));
    browser.picture("merge-before");
    // Which bars existed on the way, and where they went.
    browser.js(
        "window.seen = [];
         new MutationObserver((all) => {
           for (const { target } of all)
             if (target.classList?.contains('retiring')) window.seen.push(target.style.width);
         }).observe(document.querySelector('#lanes'), { subtree: true, attributes: true });",
        &[],
    );
    world.add(&minutes("van", &[8]));
    browser.until("window.seen.length > 0");
    browser.picture("merge-during");
    browser.until_count("rect.bar", 1);
    assert_eq!(browser.count("circle.retired"), 1);
    browser.until_says("#says", "Trips merged: van~20240501T080000.000Z");
    browser.until_says(".toast", retired);
    // The selected trip continues under the surviving id.
    browser.until_says(".asked[data-match=retired]", retired);
    assert_eq!(browser.text(".trip-id"), "van~20240501T080000.000Z");
    browser.picture("merge-after");
    browser.click_at(".toast .button", 0.5);
    browser.until_says(".asked[data-match=retired]", retired);
    browser.paste("#find-id", retired);
    browser.until_says(".absorbed", retired);
}

/// Holds events of merges back until `release()`, which hands them to the page at once: whatever
/// the machine is busy with, they are in one update of the page.
const HOLD: &str = "
    window.held = [];
    window.release = () => window.held.splice(0).forEach((deliver) => deliver());
    EventSource.prototype.addEventListener = function (type, listener) {
      const hold = (message) => window.held.push(() => listener(message));
      const wanted = type === 'merged' ? hold : listener;
      EventTarget.prototype.addEventListener.call(this, type, wanted);
    };";

#[test]
fn a_selected_trip_is_followed_through_several_merges_of_one_update() {
    on_both(&minutes("van", &[0, 2, 10, 12, 20, 22]), follow_two_merges);
}

fn follow_two_merges(world: &World) {
    let World { serve, browser, .. } = world;
    let [first, second, third] = [0, 10, 20].map(|at| format!("van~20240501T08{at:02}00.000Z"));
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": HOLD }));
    browser.goto("about:blank");
    browser.goto(&serve.url(&format!("#trip={third}")));
    browser.until_count("rect.bar", 3);
    browser.until_says("#live-text", "Live");
    browser.until_says(".asked[data-match=current]", &third);
    // The third trip merges into the second, which then merges into the first.
    for (sent, minute) in [(1, 16), (2, 6)] {
        world.add(&minutes("van", &[minute]));
        browser.until(&format!("window.held.length === {sent}"));
    }
    assert_eq!(browser.count("rect.bar"), 3, "the page has not seen the events");
    browser.js("window.release()", &[]);
    browser.until_says(".asked[data-match=retired]", &third);
    assert_eq!(browser.text(".trip-id"), first);
    browser.until_count("rect.bar", 1);
    assert_eq!(browser.count("rect.bar.selected"), 1);
    assert_eq!(browser.count("circle.retired"), 2);
    browser.until_says(".absorbed", &second);
    browser.until_says(".absorbed", &third);
}

#[test]
fn a_trip_grows_and_another_starts() {
    on_both(&minutes("van", &[0, 2]), see_growth);
}

fn see_growth(world: &World) {
    let World { serve, browser, .. } = world;
    browser.goto(&serve.url("#trip=van~20240501T080000.000Z"));
    browser.until_says(".numbers", "2 min");
    browser.until_says("#live-text", "Live");
    world.add(&(minutes("van", &[5, 40]) + &minutes("bus", &[1])));
    browser.until_count("rect.bar", 2);
    browser.until_says(".numbers", "5 min");
    browser.until_says("#device-list", "bus");
    assert_eq!(browser.count(".toast"), 0, "nothing merged");
}

/// Number of tabs that a browser has no connection left for if each holds one: it opens six to a
/// server.
const TABS: usize = 7;

#[test]
fn each_of_many_tabs_is_live_once_it_is_shown() {
    let Some(world) = World::of_file(&minutes("van", &[0, 2, 4, 12, 14])) else { return };
    let World { serve, browser, .. } = &world;
    let retired = "van~20240501T081200.000Z";
    let first = browser.tab();
    for _ in 0..TABS {
        browser.goto(&serve.url(&format!("#trip={retired}")));
        browser.until_count("rect.bar", 2);
        browser.until_says("#live-text", "Live");
        browser.until_says(".asked[data-match=current]", retired);
        browser.new_tab();
    }
    // The first tab is hidden while the trip is merged and a device is new.
    world.add(&(minutes("van", &[8]) + &minutes("bus", &[1])));
    browser.front(&first);
    browser.until_count("rect.bar", 1);
    browser.until_says(".asked[data-match=retired]", retired);
    browser.until_says("#device-list", "bus");
    // It is live again.
    world.add(&minutes("van", &[40, 42]));
    browser.until_count("rect.bar", 2);
}

#[test]
fn a_page_that_the_back_button_returns_to_is_live_again() {
    let Some(world) = World::of_file(&minutes("van", &[0, 2, 4, 12, 14])) else { return };
    let World { serve, browser, .. } = &world;
    let retired = "van~20240501T081200.000Z";
    browser.goto("about:blank");
    browser.goto(&serve.url(&format!("#trip={retired}")));
    browser.until_says("#live-text", "Live");
    browser.until_says(".asked[data-match=current]", retired);
    browser.js("window.isKept = true", &[]);
    browser.goto("about:blank");
    world.add(&minutes("van", &[8]));
    browser.go_back();
    assert_eq!(browser.value("window.isKept"), json!(true), "the browser has kept the page");
    browser.until_count("rect.bar", 1);
    browser.until_says(".asked[data-match=retired]", retired);
    world.add(&minutes("van", &[40, 42]));
    browser.until_count("rect.bar", 2);
}

#[test]
fn a_server_that_goes_away_is_reported_until_it_returns() {
    let folder = stored(&minutes("van", &[0, 2]));
    let Some(browser) = Browser::start() else { return };
    let mut serve = Serve::start(&folder, "--store sqlite:trips.db");
    let address = serve.address();
    browser.goto(&serve.url("#device=van"));
    browser.until_count("rect.bar", 1);
    browser.until("document.querySelector('#banner').hidden");
    serve.stop();
    browser.until("!document.querySelector('#banner').hidden");
    browser.until_says("#live-text", "Offline");
    browser.picture("offline");
    folder.write("more.ndjson", minutes("van", &[30]));
    folder.ingest("more.ndjson --store sqlite:trips.db");
    let _again = Serve::at(&folder, "--store sqlite:trips.db", &address);
    browser.until("document.querySelector('#banner').hidden");
    browser.until_count("rect.bar", 2);
}

#[test]
fn a_token_is_asked_for_once() {
    let folder = stored(&minutes("van", &[0, 2]));
    folder.write("token", "ops:read,write:a-secret-of-some-length-0123456789\n");
    let Some(browser) = Browser::start() else { return };
    let serve = Serve::start(&folder, "--store sqlite:trips.db --token-file token");
    browser.goto(&serve.url("#trip=van~20240501T080000.000Z"));
    browser.until("document.querySelector('#login').open");
    browser.keys("wrong");
    browser.key(Key::Enter);
    browser.until_says("#login-fault", "token is wrong");
    browser.picture("login");
    browser.paste("#login-token", "a-secret-of-some-length-0123456789");
    browser.until("!document.querySelector('#login').open");
    browser.until_count("rect.bar.selected", 1);
    assert_eq!(browser.value("document.cookie"), "", "no script reads it");
    browser.goto("about:blank");
    browser.goto(&serve.url("#device=van"));
    browser.until_count("rect.bar", 1);
    assert_eq!(browser.value("document.querySelector('#login').open"), false);
}

#[test]
fn a_logout_locks_the_page() {
    let folder = stored(&minutes("van", &[0, 2]));
    folder.write("token", "ops:read,write:a-secret-of-some-length-0123456789\n");
    let Some(browser) = Browser::start() else { return };
    let serve = Serve::start(&folder, "--store sqlite:trips.db --token-file token");
    browser.goto(&serve.url("#device=van"));
    browser.until("document.querySelector('#login').open");
    assert_eq!(browser.value("document.querySelector('#logout').hidden"), true);
    browser.paste("#login-token", "a-secret-of-some-length-0123456789");
    browser.until_count("rect.bar", 1);
    browser.click("#logout");
    browser.until("document.querySelector('#login').open");
    assert_eq!(browser.count("rect.bar"), 0);
    // The server has ended the session, too.
    browser.goto("about:blank");
    browser.goto(&serve.url("#device=van"));
    browser.until("document.querySelector('#login').open");
}

#[test]
fn an_empty_store_says_what_to_do() {
    let folder = Folder::with("none.ndjson", "");
    folder.ingest("none.ndjson --store sqlite:trips.db");
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.until_says("#welcome", "tstar ingest");
    browser.until_says("#device-state", "No devices yet.");
    browser.goto(&serve.url("#device=unknown"));
    browser.until_says("#lanes-state", "This device is unknown");
}
