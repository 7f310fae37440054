//! A visit to the page: what a person gives it, and what they see then.

use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use runseal_verifier_web::page::{self, Built};
use serde_json::{Value, json};

use crate::devtools::Chromium;

/// The page, built once for all tests.
pub(crate) fn page() -> &'static Built {
    static PAGE: OnceLock<Built> = OnceLock::new();
    PAGE.get_or_init(|| page::build(None).unwrap())
}

/// What a person sees of a result.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) word: String,
    pub(crate) tone: String,
    /// All of the verdict.
    pub(crate) verdict: String,
    /// All of the result.
    pub(crate) text: String,
    pub(crate) json: Option<String>,
    pub(crate) title: String,
}

/// One tab.
pub(crate) struct Visit {
    browser: Chromium,
    session: String,
}

impl Visit {
    pub(crate) fn new(mut browser: Chromium) -> Self {
        let target = browser.call(None, "Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session =
            browser.call(None, "Target.attachToTarget", attach)["sessionId"].as_str().unwrap().to_owned();
        let tab = Some(session.as_str());
        browser.call(tab, "Page.enable", json!({}));
        browser.call(tab, "Network.enable", json!({}));
        browser.call(tab, "DOM.enable", json!({}));
        let attach = json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true});
        browser.call(tab, "Target.setAutoAttach", attach);
        Self { browser, session }
    }

    /// Opens the page afresh, as a double click on the file does.
    pub(crate) fn open(&mut self) {
        self.go(&page().path);
    }

    pub(crate) fn go(&mut self, file: &Path) {
        self.go_to(&format!("file://{}", file.canonicalize().unwrap().display()));
    }

    pub(crate) fn go_to(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
        self.wait_for(&format!("location.href === {} && document.readyState === 'complete'", json!(url)));
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.browser.call(Some(&self.session), method, params)
    }

    /// The value of an expression, a promise's once it is kept.
    fn value(&mut self, session: &str, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let result = self.browser.call(Some(session), "Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let session = self.session.clone();
        self.value(&session, expression)
    }

    /// The value of an expression in a worker of the page.
    pub(crate) fn evaluate_in_worker(&mut self, expression: &str) -> Value {
        self.browser.events.clear();
        // It has answered once, so its script is there to the end.
        self.evaluate(
            "new Promise((answered) => { \
                globalThis.kept = new Worker(trusted); \
                kept.onmessage = answered; \
                kept.postMessage({ module, kindOf: new Uint8Array(1) }); \
            }).then(() => 'answered')",
        );
        let session = self.until(|visit| {
            let event =
                visit.browser.events.iter().find(|event| event["method"] == "Target.attachedToTarget")?;
            event["params"]["sessionId"].as_str().map(str::to_owned)
        });
        self.value(&session, expression)
    }

    fn until<T>(&mut self, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_mins(2);
        loop {
            // Takes in the events so far.
            self.evaluate("0");
            if let Some(value) = done(self) {
                return value;
            }
            assert!(Instant::now() < deadline, "it did not happen");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn wait_for(&mut self, expression: &str) {
        self.until(|visit| (visit.evaluate(expression) == true).then_some(()));
    }

    /// Chooses a file in a field.
    pub(crate) fn choose(&mut self, field: &str, file: &Path) {
        let root = self.call("DOM.getDocument", json!({"depth": 0}))["root"]["nodeId"].clone();
        let query = json!({"nodeId": root, "selector": format!("#{field}-file")});
        let node = self.call("DOM.querySelector", query)["nodeId"].clone();
        self.call("DOM.setFileInputFiles", json!({"nodeId": node, "files": [file]}));
    }

    /// Drags files over the page and lets them go.
    pub(crate) fn drop(&mut self, files: &[&Path]) {
        let data = json!({"items": [], "files": files, "dragOperationsMask": 1});
        for step in ["dragEnter", "dragOver", "drop"] {
            self.call("Input.dispatchDragEvent", json!({"type": step, "x": 300, "y": 300, "data": data}));
        }
    }

    /// Pastes a policy.
    pub(crate) fn paste(&mut self, text: &str) {
        self.evaluate("document.getElementById('paste').click(); 'clicked'");
        self.call("Input.insertText", json!({"text": text}));
    }

    /// The result, once there is one.
    pub(crate) fn seen(&mut self) -> Seen {
        self.wait_for("!document.getElementById('result').hidden");
        let seen = self.evaluate(
            "({ word: document.getElementById('verdict-word').textContent, \
                tone: document.getElementById('verdict').className, \
                verdict: document.getElementById('verdict').innerText, \
                text: document.getElementById('result').innerText, \
                json: document.getElementById('json')?.textContent ?? null, \
                title: document.title })",
        );
        let text = |name: &str| seen[name].as_str().unwrap().to_owned();
        Seen {
            word: text("word"),
            tone: text("tone").replacen("verdict ", "", 1),
            verdict: text("verdict"),
            text: text("text"),
            json: seen["json"].as_str().map(str::to_owned),
            title: text("title"),
        }
    }

    /// The result that replaces another.
    pub(crate) fn seen_after(&mut self, before: &Seen) -> Seen {
        self.until(|visit| Some(visit.seen()).filter(|seen| seen != before))
    }

    /// What the page and its workers asked for so far.
    pub(crate) fn requests(&mut self) -> Vec<String> {
        self.evaluate("0");
        let sent = self.browser.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| event["params"]["request"]["url"].as_str().map(str::to_owned)).collect()
    }
}
