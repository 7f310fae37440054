//! The about page: what this witness is, its keys to copy, the logs it cosigned; the same as JSON.

use std::fmt::Write as _;

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::http::{Answer, text};
use crate::state::{Cosigned, StateError};
use crate::witness::Witness;

/// Most logs on one page.
pub(crate) const PAGE: usize = 1000;

/// The about page as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The witness's name.
    pub name: String,
    /// Its keys.
    pub vkeys: Vec<String>,
    /// How many logs it follows.
    pub following: usize,
    /// Logs it cosigned, by origin; at most a page of them.
    pub logs: Vec<LogStatus>,
    /// Where the next page starts (`/?after=`), if there is one.
    pub next: Option<String>,
}

/// One cosigned log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogStatus {
    /// The log's identity.
    pub origin: String,
    /// Leaves.
    pub size: u64,
    /// Root, base64.
    pub root: String,
    /// POSIX seconds of the last cosignature.
    pub time: u64,
    /// Distinct checkpoints that contradicted it.
    pub alarms: u64,
}

impl From<&Cosigned> for LogStatus {
    fn from(log: &Cosigned) -> Self {
        Self {
            origin: log.origin.clone(),
            size: log.head.size,
            root: log.head.root.to_base64(),
            time: log.head.time,
            alarms: log.alarms,
        }
    }
}

fn about(witness: &Witness, after: Option<&str>) -> Result<About, StateError> {
    let mut logs = witness.store().cosigned(after, PAGE + 1)?;
    let more = logs.len() > PAGE;
    logs.truncate(PAGE);
    let next = if more { logs.last().map(|log| log.origin.clone()) } else { None };
    Ok(About {
        name: witness.keys().name().to_string(),
        vkeys: witness.keys().verifiers().iter().map(ToString::to_string).collect(),
        following: witness.logs().len(),
        logs: logs.iter().map(LogStatus::from).collect(),
        next,
    })
}

pub(crate) fn answer(witness: &Witness, accept: Option<&HeaderValue>, query: Option<&str>) -> Answer {
    let after = query.and_then(|query| query.strip_prefix("after=")).map(percent_decoded);
    let about = match about(witness, after.as_deref()) {
        Ok(about) => about,
        Err(error) => {
            tracing::error!(target: "state", %error, "cannot list the logs");
            return text(StatusCode::SERVICE_UNAVAILABLE, "the witness could not read its state\n");
        }
    };
    let json = accept.and_then(|accept| accept.to_str().ok()).is_some_and(|accept| {
        accept.split(',').any(|kind| kind.split(';').next().unwrap_or("").trim() == "application/json")
    });
    let (kind, body) = if json {
        let body = serde_json::to_string(&about).expect("strings and numbers always serialise");
        ("application/json", body + "\n")
    } else {
        ("text/html; charset=utf-8", page(&about, witness.clock().now()))
    };
    let mut answer = text(StatusCode::OK, body);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert("content-security-policy", HeaderValue::from_static(POLICY));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    answer
}

/// Nothing is loaded, run or framed.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
code { font: 0.85em ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: 0.3rem 0.6rem 0.3rem 0; border-bottom: 1px solid #8884; vertical-align: top }
td.number { text-align: right; white-space: nowrap }
@media (max-width: 40rem) { thead { display: none } tr, td { display: block; border: 0; padding: 0 } tr { padding: 0.6rem 0; border-bottom: 1px solid #8884 } td.number { text-align: left } td::before { content: attr(data-label) " "; opacity: 0.6 } }
</style>
"#;

fn page(about: &About, now: u64) -> String {
    let name = escape(&about.name);
    let mut page = String::from(HEAD);
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "<title>{name}</title></head><body>\n<h1>{name}</h1>\n\
         <p>This is a <a href=\"https://c2sp.org/tlog-witness\">transparency log witness</a>. It cosigns a \
         checkpoint only after it has proven that it extends the last one it saw of that log.</p>\n\
         <h2>Verifier keys</h2>\n"
    );
    for vkey in &about.vkeys {
        let _ = writeln!(page, "<p><code>{}</code></p>", escape(vkey));
    }
    let _ = write!(
        page,
        "<h2>Logs</h2>\n<p>{} followed. Latest cosigned checkpoints:</p>\n\
         <table><thead><tr><th>Origin</th><th>Size</th><th>Age</th><th>Alarms</th></tr></thead><tbody>\n",
        about.following
    );
    for log in &about.logs {
        let _ = writeln!(
            page,
            "<tr><td><a href=\"/{}/checkpoint\"><code>{}</code></a></td><td class=\"number\" data-label=\"size\">{}</td><td class=\"number\" data-label=\"age\">{}</td><td class=\"number\" data-label=\"alarms\">{}</td></tr>",
            hex::encode(crate::state::origin_hash(&log.origin)),
            escape(&log.origin),
            log.size,
            age(now.saturating_sub(log.time)),
            log.alarms
        );
    }
    page.push_str("</tbody></table>\n");
    if let Some(next) = &about.next {
        let _ = writeln!(page, "<p><a href=\"/?after={}\">more</a></p>", percent_encoded(next));
    }
    page.push_str("</body></html>\n");
    page
}

fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Text for HTML, in content and in quoted attributes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

pub(crate) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Decodes what [`percent_encoded`] writes; what is no escape stays as it is.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let mut decoded = [0];
        let escape = after.get(..2).filter(|_| *first == b'%');
        if escape.is_some_and(|digits| hex::decode_to_slice(digits, &mut decoded).is_ok()) {
            bytes.push(decoded[0]);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_escapes_what_others_named() {
        let hostile = "<script>alert('x')</script>&\"";
        let about = About {
            name: hostile.into(),
            vkeys: vec![hostile.into()],
            following: 1,
            logs: vec![LogStatus {
                origin: hostile.into(),
                size: 5,
                root: String::new(),
                time: 1_800_000_000,
                alarms: 0,
            }],
            next: Some(hostile.into()),
        };
        let page = page(&about, 1_800_000_300);
        assert!(!page.contains("<script>") && !page.contains("alert('"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;"));
        assert!(page.contains("5 min"));
    }

    #[test]
    fn an_origin_survives_the_link_to_the_next_page() {
        for origin in ["example.com/log one", "a%b+c&d=e", "\u{65e5}\u{672c}", "%zz%", "%"] {
            assert_eq!(percent_decoded(&percent_encoded(origin)), origin);
        }
    }
}
