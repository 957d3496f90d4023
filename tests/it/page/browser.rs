//! A headless Chromium, driven as a person would: by what is on the screen.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fantoccini::actions::{
    InputSource, KeyAction, KeyActions, MOUSE_BUTTON_LEFT, MouseActions, PointerAction,
};
use fantoccini::key::Key;
use fantoccini::wd::WindowHandle;
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::servers::ready::until;
use crate::servers::{LIMIT, skip};

/// Nothing but the page: no update checks, no requests of the browser's own, no name resolution.
const FLAGS: [&str; 12] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--hide-scrollbars",
    "--window-size=1280,880",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// Becomes the driver. When its standard input closes, for whatever reason, the whole process group
/// ends: the driver and its browser.
const LIFELINE: &str = r#"
exec 3<&0 </dev/null
( while read -r -u 3 _; do :; done; kill -9 0 ) >/dev/null 2>&1 &
exec chromedriver --port=0 3<&-
"#;

/// The browser of this process, once a case has started it: starting one takes more of the
/// processor than most cases do. They use it one at a time, each with an origin of its own.
static SHARED: Mutex<Option<Session>> = Mutex::new(None);

/// A driver with one browser. Both end with this process.
struct Session {
    runtime: Runtime,
    client: Client,
    id: String,
    /// Port of the driver on 127.0.0.1.
    port: u16,
    driver: Child,
}

/// The turn of a case.
pub struct Browser(MutexGuard<'static, Option<Session>>);

impl Browser {
    /// `None`, with a message, where Chromium is not installed.
    pub fn start() -> Option<Self> {
        let mut turn = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        if turn.is_none() && !["chromedriver", "chromium"].iter().all(is_there) {
            return skip("no Chromium: apt-get install -y chromium chromium-driver");
        }
        turn.get_or_insert_with(Session::start);
        Some(Self(turn))
    }

    fn session(&self) -> &Session {
        self.0.as_ref().expect("a case has a session")
    }

    fn client(&self) -> &Client {
        &self.session().client
    }

    /// Waits for what the client does.
    fn wait<T>(&self, done: impl Future<Output = T>) -> T {
        self.session().runtime.block_on(done)
    }

    pub fn goto(&self, url: &str) {
        self.wait(self.client().goto(url)).unwrap();
    }

    /// The result of a script with these arguments.
    #[track_caller]
    pub fn js(&self, script: &str, arguments: &[Value]) -> Value {
        let ran = self.wait(self.client().execute(script, arguments.to_vec()));
        ran.unwrap_or_else(|fault| panic!("{script}: {fault}"))
    }

    /// The value of an expression.
    #[track_caller]
    pub fn value(&self, expression: &str) -> Value {
        self.js(&format!("return {expression}"), &[])
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn until(&self, expression: &str) {
        let is_true = || (self.value(expression) == json!(true)).then_some(());
        until(expression, LIMIT, is_true, || None);
    }

    /// The text of an element, trimmed.
    #[track_caller]
    pub fn text(&self, css: &str) -> String {
        let script = "return document.querySelector(arguments[0]).textContent.trim()";
        self.js(script, &[json!(css)]).as_str().unwrap().to_owned()
    }

    /// Waits until the text of an element contains a text.
    #[track_caller]
    pub fn until_says(&self, css: &str, text: &str) {
        let (css, text) = (json!(css), json!(text));
        self.until(&format!(
            "[...document.querySelectorAll({css})].some((el) => el.textContent.includes({text}))"
        ));
    }

    #[track_caller]
    pub fn count(&self, css: &str) -> u64 {
        let found = self.js("return document.querySelectorAll(arguments[0]).length", &[json!(css)]);
        found.as_u64().unwrap()
    }

    /// Waits until a selector matches this number of elements.
    #[track_caller]
    pub fn until_count(&self, css: &str, count: u64) {
        self.until(&format!("document.querySelectorAll({}).length === {count}", json!(css)));
    }

    /// A mouse click in the middle of an element.
    #[track_caller]
    pub fn click(&self, css: &str) {
        self.click_at(css, 0.5);
    }

    /// A click at a share of the width of an element, which has to be visible and on top.
    #[track_caller]
    pub fn click_at(&self, css: &str, share: f64) {
        let script = "
            const el = document.querySelector(arguments[0]);
            el.scrollIntoView({ block: 'nearest' });
            const box = el.getBoundingClientRect();
            const x = box.left + box.width * arguments[1];
            const y = box.top + box.height / 2;
            const top = document.elementFromPoint(x, y);
            return [x, y, el.contains(top) || top.contains(el)];";
        let place = self.js(script, &[json!(css), json!(share)]);
        assert_eq!(place[2], json!(true), "{css} is hidden by something: {place}");
        let (x, y) = (place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
        let duration = Some(Duration::ZERO);
        let click = MouseActions::new("mouse".to_owned())
            .then(PointerAction::MoveTo { duration, x, y })
            .then(PointerAction::Down { button: MOUSE_BUTTON_LEFT })
            .then(PointerAction::Up { button: MOUSE_BUTTON_LEFT });
        self.wait(self.client().perform_actions(click)).unwrap();
    }

    /// Drags over an element, from one share of its width and height to another.
    #[track_caller]
    pub fn drag(&self, css: &str, from: [f64; 2], to: [f64; 2]) {
        let script = "
            const box = document.querySelector(arguments[0]).getBoundingClientRect();
            return [box.left, box.top, box.width, box.height];";
        let found = self.js(script, &[json!(css)]);
        let number = |at: usize| found[at].as_f64().unwrap();
        let duration = Some(Duration::ZERO);
        let move_to = |[x, y]: [f64; 2]| PointerAction::MoveTo {
            duration,
            x: number(0) + number(2) * x,
            y: number(1) + number(3) * y,
        };
        let drag = MouseActions::new("mouse".to_owned())
            .then(move_to(from))
            .then(PointerAction::Down { button: MOUSE_BUTTON_LEFT })
            .then(move_to(to))
            .then(PointerAction::Up { button: MOUSE_BUTTON_LEFT });
        self.wait(self.client().perform_actions(drag)).unwrap();
    }

    /// Turns the wheel over an element: down for a positive number of pixels.
    #[track_caller]
    pub fn wheel(&self, css: &str, pixels: i32) {
        let script = "
            const box = document.querySelector(arguments[0]).getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2];";
        let middle = self.js(script, &[json!(css)]);
        let turn = json!({
            "type": "mouseWheel", "x": middle[0], "y": middle[1], "deltaX": 0, "deltaY": pixels,
        });
        self.devtools("Input.dispatchMouseEvent", &turn);
    }

    /// Presses and releases keys, one after the other, wherever the focus is.
    #[track_caller]
    pub fn keys(&self, keys: &str) {
        let pressed = keys.chars().fold(KeyActions::new("keys".to_owned()), |actions, value| {
            actions.then(KeyAction::Down { value }).then(KeyAction::Up { value })
        });
        self.wait(self.client().perform_actions(pressed)).unwrap();
    }

    #[track_caller]
    pub fn key(&self, key: Key) {
        self.keys(&char::from(key).to_string());
    }

    /// Pastes a text into a field, replacing its content, and presses Enter.
    #[track_caller]
    pub fn paste(&self, css: &str, text: &str) {
        let script = "const el = document.querySelector(arguments[0]);
            el.focus(); el.value = arguments[1];
            el.dispatchEvent(new InputEvent('input', { bubbles: true }));";
        self.js(script, &[json!(css), json!(text)]);
        self.key(Key::Enter);
    }

    /// A command of the DevTools protocol.
    #[track_caller]
    pub fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.post("goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// The screen of a phone, in CSS pixels.
    pub fn phone(&self, width: u32, height: u32) {
        let screen =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": true });
        self.devtools("Emulation.setDeviceMetricsOverride", &screen);
    }

    /// Back to the page before.
    pub fn go_back(&self) {
        self.wait(self.client().back()).unwrap();
    }

    /// The tab that the case controls.
    pub fn tab(&self) -> WindowHandle {
        self.wait(self.client().window()).unwrap()
    }

    /// Opens a tab in front of the others, which are hidden.
    pub fn new_tab(&self) {
        let tab = self.wait(self.client().new_window(true)).unwrap().handle;
        self.front(&tab);
    }

    /// Brings a tab to the front.
    pub fn front(&self, tab: &WindowHandle) {
        self.wait(self.client().switch_to_window(tab.clone())).unwrap();
        let target = json!({ "targetId": String::from(tab.clone()) });
        self.devtools("Target.activateTarget", &target);
        self.until("!document.hidden");
    }

    /// The system's colour scheme, dark or light.
    pub fn scheme(&self, value: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": value });
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }

    /// URLs of the requests since the last call.
    #[track_caller]
    pub fn requests(&self) -> Vec<String> {
        let entries = self.post("se/log", &json!({ "type": "performance" }));
        let message = |entry: &Value| -> Value {
            serde_json::from_str(entry["message"].as_str().unwrap()).unwrap()
        };
        let messages = entries.as_array().unwrap().iter().map(message);
        let sent = messages.filter(|it| it["message"]["method"] == "Network.requestWillBeSent");
        let url =
            |it: Value| it["message"]["params"]["request"]["url"].as_str().unwrap().to_owned();
        sent.map(url).collect()
    }

    /// A command of the session that the client has no method for.
    #[track_caller]
    fn post(&self, command: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.session().port)).unwrap();
        let body = body.to_string();
        let head = format!(
            "POST /session/{}/{command} HTTP/1.1\r\nHost: 127.0.0.1\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.session().id,
            body.len()
        );
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all((head + &body).as_bytes()).unwrap();
        // The driver keeps the connection open: its response has a known length.
        let mut stream = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let from = head.len();
            assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{command}: {head}");
            let line = head[from..].to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{command}: {answer}");
        answer["value"].clone()
    }

    /// A screenshot, for people: `target/screenshots/NAME.png`.
    pub fn picture(&self, name: &str) {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots");
        std::fs::create_dir_all(&folder).unwrap();
        let picture = self.wait(self.client().screenshot()).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), picture).unwrap();
    }

    /// Opens a tab for the next case: what a case asked the DevTools for ends with its own tabs.
    fn reset(&self) {
        // Cookies are those of all ports.
        self.devtools("Network.clearBrowserCookies", &json!({}));
        self.wait(async {
            let tabs = self.client().windows().await?;
            let next = self.client().new_window(true).await?;
            for tab in tabs {
                self.client().switch_to_window(tab).await?;
                self.client().close_window().await?;
            }
            self.client().switch_to_window(next.handle).await
        })
        .unwrap();
        self.requests();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return self.reset();
        }
        self.picture("failed");
        // Whatever the case has left behind ends with the browser.
        drop(self.0.take());
    }
}

impl Session {
    fn start() -> Self {
        let (driver, port) = spawn();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let wanted = json!({
            "goog:chromeOptions": { "args": FLAGS },
            "goog:loggingPrefs": { "performance": "ALL" },
            "unhandledPromptBehavior": "ignore",
        });
        let (client, id) = runtime.block_on(async {
            let mut builder = ClientBuilder::new(HttpConnector::new());
            builder.capabilities(wanted.as_object().unwrap().clone());
            let client = builder.connect(&format!("http://127.0.0.1:{port}")).await.unwrap();
            let id = client.session_id().await.unwrap().unwrap();
            (client, id)
        });
        Self { runtime, client, id, port, driver }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.driver.stdin.take());
        self.driver.wait().ok();
    }
}

/// The driver, in a process group of its own, and its port.
fn spawn() -> (Child, u16) {
    // It takes a free port of one address family for both: another process may have the second.
    (0..5).find_map(|_| try_spawn()).expect("chromedriver says its port")
}

/// The same; `None` if the driver ended at once.
fn try_spawn() -> Option<(Child, u16)> {
    let mut command = Command::new("bash");
    command.args(["-c", LIFELINE]).process_group(0);
    // The zone of the pages, unless a case sets another one.
    command.env("TZ", "UTC");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut driver = command.spawn().unwrap();
    let said = BufReader::new(driver.stdout.take().unwrap()).lines();
    let port = said.map_while(Result::ok).find_map(|line| {
        let (_, port) = line.split_once("successfully on port ")?;
        Some(port.trim().trim_end_matches('.').parse().unwrap())
    });
    if port.is_none() {
        driver.wait().unwrap();
    }
    Some((driver, port?))
}
