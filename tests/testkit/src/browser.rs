//! Drives Chromium without a window, through its `WebDriver` server.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper::Method;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::cli_runner::eventually;
use crate::middle::free_port;
use crate::servers::fetched;

/// The window of the browser.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
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

/// A browser with one window.
pub struct Browser {
    runtime: Runtime,
    /// None after the end.
    client: Option<Client>,
    driver: Child,
    /// The profile of the browser, which is removed at the end.
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser.
    #[track_caller]
    pub fn start(look: Look) -> Self {
        let port = free_port();
        let mut driver = Command::new(fetched("chromedriver"))
            .arg(format!("--port={port}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let output = driver.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(output).lines();
        let started = lines.find(|line| {
            line.as_ref()
                .is_ok_and(|line| line.contains("started successfully"))
        });
        assert!(started.is_some(), "chromedriver does not start");
        let profile = tempfile::tempdir().expect("a folder");
        let mut arguments = vec![
            "--headless=new".to_owned(),
            // The sandbox does not work for root.
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--hide-scrollbars".to_owned(),
            format!("--window-size={},{}", look.width, look.height),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        if look.is_dark {
            arguments.push("--blink-settings=preferredColorScheme=0".to_owned());
        }
        let options = json!({
            "binary": fetched("chromium"),
            "args": arguments,
            "mobileEmulation": {
                "deviceMetrics": { "width": look.width, "height": look.height, "pixelRatio": 1.0, "touch": false }
            },
        });
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the runtime starts");
        let mut capabilities = serde_json::Map::new();
        capabilities.insert("goog:chromeOptions".to_owned(), options);
        let client = runtime.block_on(async {
            let mut builder =
                ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new());
            let builder = builder.capabilities(capabilities);
            builder.connect(&format!("http://127.0.0.1:{port}")).await
        });
        let client = client.expect("the browser starts");
        Self {
            runtime,
            client: Some(client),
            driver,
            _profile: profile,
        }
    }

    fn client(&self) -> &Client {
        self.client.as_ref().expect("the browser runs")
    }

    /// Opens `url`.
    #[track_caller]
    pub fn open(&self, url: &str) {
        let opened = self.runtime.block_on(self.client().goto(url));
        opened.expect("the page opens");
    }

    /// Runs `script`, the body of a function, and returns its value.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        let value = self
            .runtime
            .block_on(self.client().execute(script, Vec::new()));
        value.expect("the script runs")
    }

    /// Runs `script` at the start of each page that is opened later, before the scripts of the page.
    #[track_caller]
    pub fn runs_first(&self, script: &str) {
        let command = DevToolsCommand {
            name: "Page.addScriptToEvaluateOnNewDocument",
            parameters: json!({ "source": script }),
        };
        let added = self.runtime.block_on(self.client().issue_cmd(command));
        added.expect("the browser accepts the script");
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
    pub fn shows(&self, selector: &str, text: &str) {
        eventually(
            &format!("{selector} contains {text:?}: {:?}", self.text("body")),
            || self.text(selector).contains(text),
        );
    }

    /// Types `keys` into the element that has the focus.
    #[track_caller]
    pub fn types(&self, keys: &str) {
        self.runtime.block_on(async {
            let element = self
                .client()
                .active_element()
                .await
                .expect("an element has the focus");
            element.send_keys(keys).await.expect("the keys are sent");
        });
    }

    /// Clicks the first element that `selector` selects.
    #[track_caller]
    pub fn clicks(&self, selector: &str) {
        self.runtime.block_on(async {
            let element = self.client().find(Locator::Css(selector)).await;
            let element = element.expect("the element exists");
            element.click().await.expect("the element can be clicked");
        });
    }

    /// Returns an image of the window in the format PNG.
    #[track_caller]
    pub fn screenshot(&self) -> Vec<u8> {
        let image = self.runtime.block_on(self.client().screenshot());
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
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            // The browser ends with its driver if this fails.
            let _ = self.runtime.block_on(client.close());
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
