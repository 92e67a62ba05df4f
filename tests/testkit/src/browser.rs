//! Drives Chromium without a window, through its `WebDriver` server.

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::cli_runner::eventually;
use crate::middle::free_port;
use crate::servers::fetched;

/// The window of the browser.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub width: u32,
    pub height: u32,
    /// True if the user prefers dark colours.
    pub is_dark: bool,
}

impl Look {
    /// The window of a computer.
    pub const WIDE: Self = Self {
        width: 1280,
        height: 900,
        is_dark: false,
    };
}

/// Runs the `WebDriver` server `$0` on the port `$1`, with the folder `$2` for its files and those of the browser. When
/// standard input is closed, as the kernel does at the end of the test process, kills the server and the browser, which
/// are in the same process group, and removes the folder.
const DRIVER: &str = r#"
    TMPDIR=$2 setsid "$0" --port="$1" 2>/dev/null &
    read -r _
    kill -s KILL -- "-$!"
    wait
    rm -rf "$2""#;

/// Maximum number of browsers that run at the same time. A browser needs seconds of processor time to start.
const MAX_BROWSERS: usize = 2;

/// The browsers that no test uses, and the number of those that a test uses.
static POOL: Mutex<(Vec<Session>, usize)> = Mutex::new((Vec::new(), 0));
static RETURNED: Condvar = Condvar::new();

/// A running browser, which one test at a time uses.
struct Session {
    runtime: Runtime,
    client: Client,
    driver: Child,
}

/// A browser with one window. Another test uses the browser when this value is dropped.
pub struct Browser {
    /// None after the end.
    session: Option<Session>,
    /// True if [`runs_first`](Self::runs_first) was called, so that no other test can use the browser.
    has_script: Cell<bool>,
    _turn: Turn,
}

/// The right to use a browser. It ends with the value, also if a test or the browser fails.
struct Turn;

impl Turn {
    /// Waits while [`MAX_BROWSERS`] browsers are used. Also returns an idle browser.
    fn start() -> (Self, Option<Session>) {
        let waited = RETURNED.wait_while(pool(), |(_, used)| *used >= MAX_BROWSERS);
        let mut pool = waited.unwrap_or_else(PoisonError::into_inner);
        pool.1 += 1;
        (Self, pool.0.pop())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        pool().1 -= 1;
        RETURNED.notify_one();
    }
}

fn pool() -> MutexGuard<'static, (Vec<Session>, usize)> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    #[track_caller]
    fn start() -> Self {
        let port = free_port();
        let folder = tempfile::tempdir().expect("a folder").keep();
        let mut driver = Command::new("sh")
            .args(["-c", DRIVER])
            .arg(fetched("chromedriver"))
            .arg(port.to_string())
            .arg(&folder)
            // Ctrl-C ends the tests, and must not end the script.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh runs");
        let output = driver.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let is_started = lines.any(|line| line.contains("started successfully"));
        assert!(is_started, "chromedriver does not start");
        let options = json!({
            "binary": fetched("chromium"),
            "args": [
                "--headless=new",
                // The sandbox does not work for root.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                format!("--user-data-dir={}/profile", folder.display()),
            ],
        });
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the runtime starts");
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(
            [("goog:chromeOptions".to_owned(), options)]
                .into_iter()
                .collect(),
        );
        let url = format!("http://127.0.0.1:{port}");
        let client = runtime.block_on(builder.connect(&url));
        Self {
            runtime,
            client: client.expect("the browser starts"),
            driver,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.driver.stdin.take());
        // The wait fails only if the process no longer exists.
        let _ = self.driver.wait();
    }
}

impl Browser {
    /// Returns a browser with an empty window. Waits for a turn.
    #[track_caller]
    pub fn start(look: Look) -> Self {
        let (turn, session) = Turn::start();
        let browser = Self {
            session: Some(session.unwrap_or_else(Session::start)),
            has_script: Cell::new(false),
            _turn: turn,
        };
        browser.looks(look);
        browser
    }

    #[track_caller]
    pub fn looks(&self, look: Look) {
        let (width, height) = (look.width, look.height);
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", size);
        let colours = if look.is_dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": colours }] });
        self.devtools("Emulation.setEmulatedMedia", media);
    }

    fn session(&self) -> &Session {
        self.session.as_ref().expect("the browser runs")
    }

    fn client(&self) -> &Client {
        &self.session().client
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.session().runtime.block_on(future)
    }

    /// Sends a command of the protocol of the developer tools.
    #[track_caller]
    fn devtools(&self, name: &'static str, parameters: Value) {
        let command = DevToolsCommand { name, parameters };
        let result = self.block_on(self.client().issue_cmd(command));
        result.expect("the browser accepts the command");
    }

    #[track_caller]
    pub fn open(&self, url: &str) {
        let opened = self.block_on(self.client().goto(url));
        opened.expect("the page opens");
    }

    /// Runs `script`, the body of a function, and returns its value.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        let value = self.block_on(self.client().execute(script, Vec::new()));
        value.expect("the script runs")
    }

    /// Runs `script` at the start of each page that is opened later, before the scripts of the page.
    #[track_caller]
    pub fn runs_first(&self, script: &str) {
        let name = "Page.addScriptToEvaluateOnNewDocument";
        self.devtools(name, json!({ "source": script }));
        self.has_script.set(true);
    }

    /// Returns the visible text of the first element that `selector` selects. Empty if there is none.
    #[track_caller]
    pub fn text(&self, selector: &str) -> String {
        let selector = json!(selector);
        let script = format!(
            "const node = document.querySelector({selector}); return node ? node.innerText : '';"
        );
        self.run(&script).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the visible text of the element that `selector` selects contains `text`.
    #[track_caller]
    pub fn shows(&self, selector: &str, text: &str) -> &Self {
        eventually(
            &format!("{selector} contains {text:?}: {:?}", self.text("body")),
            || self.text(selector).contains(text),
        );
        self
    }

    /// Types `keys` into the element that has the focus.
    #[track_caller]
    pub fn types(&self, keys: &str) -> &Self {
        let element = self.block_on(self.client().active_element());
        let element = element.expect("an element has the focus");
        self.block_on(element.send_keys(keys))
            .expect("the keys are sent");
        self
    }

    #[track_caller]
    pub fn clicks(&self, selector: &str) -> &Self {
        let element = self.block_on(self.client().find(Locator::Css(selector)));
        let element = element.expect("the element exists");
        self.block_on(element.click())
            .expect("the element can be clicked");
        self
    }

    #[track_caller]
    pub fn screenshot(&self) -> Vec<u8> {
        let image = self.block_on(self.client().screenshot());
        image.expect("the browser draws the window")
    }
}

/// A command of the protocol of the developer tools.
#[derive(Debug)]
struct DevToolsCommand {
    name: &'static str,
    parameters: Value,
}

impl WebDriverCompatibleCommand for DevToolsCommand {
    fn endpoint(
        &self,
        base_url: &url::Url,
        session_id: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        let session = session_id.unwrap_or_default();
        base_url.join(&format!("session/{session}/goog/cdp/execute"))
    }

    fn method_and_body(&self, _: &url::Url) -> (Method, Option<String>) {
        let body = json!({ "cmd": self.name, "params": self.parameters });
        (Method::POST, Some(body.to_string()))
    }
}

impl Drop for Browser {
    /// Keeps the browser for the next test. After a panic, the browser ends, because its state is not known.
    fn drop(&mut self) {
        if !thread::panicking() && !self.has_script.get() {
            self.open("about:blank");
            pool().0.extend(self.session.take());
        }
    }
}
