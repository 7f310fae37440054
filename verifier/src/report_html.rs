//! Reports as one self-contained page: no script, nothing from elsewhere.

use std::fmt::Write as _;

use runseal_evidence::amount::amount;
use runseal_evidence::report::{CheckStatus, CosignatureStatus, Report, Scope, Verdict};

use crate::clock;
use crate::report_text::{harmless, headline, newly_checked};
use crate::timeline::Point;

const STYLE: &str = include_str!("report.css");

/// Writes the page. `now` is when the report was made, POSIX seconds.
pub fn render(report: &Report, timeline: &[Point], now: u64) -> String {
    let (word, sentence) = headline(report);
    let verdict = match report.verdict() {
        Verdict::Verified => "good",
        Verdict::Tampered => "bad",
        Verdict::Incomplete => "open",
    };
    let origin = report.log.as_ref().map_or("no log", |log| &log.origin);
    let mut page = String::new();
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{word}: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape(origin)
    );
    let _ =
        write!(page, "<header class=\"verdict {verdict}\">\n<h1>{word}</h1>\n<p>{sentence}</p>\n</header>\n");
    summary(&mut page, report, now);
    findings(&mut page, report);
    not_checked(&mut page, report);
    plot(&mut page, timeline);
    cosignatures(&mut page, report);
    checks(&mut page, report);
    method(&mut page, report);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// Text for HTML, without what a reader could be misled by.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in harmless(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn summary(page: &mut String, report: &Report, now: u64) {
    let scope = match report.scope {
        Scope::Log => "the log alone; what the records say was not looked at",
        Scope::LogAndRecords => "the log and the records of its runs",
        Scope::Export => "a complete export",
        Scope::ExportPartial => "an export of chosen runs",
        Scope::Proof => "one proof",
        Scope::FraudProof => "two signed checkpoints",
    };
    page.push_str("<section>\n<h2>What this is about</h2>\n<dl>\n");
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(page, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    };
    if let Some(log) = &report.log {
        row("Log", &escape(&log.origin));
        row("Size", &amount(log.size, "entry"));
        row("Root", &format!("<code>{}</code>", escape(&log.root)));
    }
    if let Some(previous) = &report.previous {
        row("Remembered", &amount(previous.size, "entry"));
    }
    if let Some(quorum) = &report.quorum {
        let met = if quorum.met { "met" } else { "not met" };
        row("Quorum", &format!("{}: {met}", escape(&quorum.name)));
    }
    row("Scope", scope);
    row("Newly checked", &newly_checked(report));
    row("Made", &format!("{} by runseal-verifier {}", clock::spell(now), env!("CARGO_PKG_VERSION")));
    page.push_str("</dl>\n</section>\n");
}

fn findings(page: &mut String, report: &Report) {
    page.push_str("<section>\n<h2>Found</h2>\n");
    if report.findings.is_empty() {
        page.push_str("<p>Nothing.</p>\n</section>\n");
        return;
    }
    page.push_str(
        "<div class=\"scroll\"><table class=\"stack\">\n<thead><tr><th>Kind</th><th>Run</th><th>Entry</th><th>Record</th><th>What</th></tr></thead>\n<tbody>\n",
    );
    for finding in &report.findings {
        let number = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
        let run = finding.run.as_ref().map_or("", |run| run.as_str());
        let _ = writeln!(
            page,
            "<tr><td><span class=\"tag bad\">{}</span></td><td data-label=\"run\">{}</td><td data-label=\"entry\">{}</td><td data-label=\"record\">{}</td><td>{}</td></tr>",
            finding.kind,
            escape(run),
            number(finding.index),
            number(finding.seq),
            escape(&finding.detail)
        );
    }
    page.push_str("</tbody>\n</table></div>\n</section>\n");
}

fn not_checked(page: &mut String, report: &Report) {
    page.push_str("<section>\n<h2>Not checked</h2>\n");
    if report.not_checked.is_empty() {
        page.push_str("<p>Nothing in scope was left out.</p>\n</section>\n");
        return;
    }
    page.push_str("<ul>\n");
    for gap in &report.not_checked {
        let tag = if gap.is_gap { " <span class=\"tag open\">in scope</span>" } else { "" };
        let _ = writeln!(page, "<li><strong>{}</strong>{tag}: {}</li>", escape(&gap.what), escape(&gap.why));
    }
    page.push_str("</ul>\n</section>\n");
}

fn cosignatures(page: &mut String, report: &Report) {
    if report.cosignatures.is_empty() {
        return;
    }
    page.push_str(
        "<section>\n<h2>Cosignatures</h2>\n<div class=\"scroll\"><table class=\"stack\">\n<thead><tr><th>Witness</th><th>When</th><th>Worth</th></tr></thead>\n<tbody>\n",
    );
    for line in &report.cosignatures {
        let (tag, word) = match line.status {
            CosignatureStatus::Valid => ("good", "valid"),
            CosignatureStatus::Invalid => ("bad", "invalid"),
            CosignatureStatus::Unknown => ("", "does not count"),
        };
        let time = line.time.map_or(String::new(), clock::spell);
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{time}</td><td><span class=\"tag {tag}\">{word}</span></td></tr>",
            escape(&line.witness)
        );
    }
    page.push_str("</tbody>\n</table></div>\n</section>\n");
}

fn checks(page: &mut String, report: &Report) {
    page.push_str("<section>\n<h2>Checks</h2>\n<ul class=\"checks\">\n");
    for check in &report.checks {
        let (tag, word) = match check.status {
            CheckStatus::Passed => ("good", "passed"),
            CheckStatus::Failed => ("bad", "failed"),
            CheckStatus::Skipped => ("", "not made"),
        };
        let _ = writeln!(
            page,
            "<li><span class=\"tag {tag}\">{word}</span> <strong>{}</strong> {}</li>",
            escape(&check.check),
            escape(&check.detail)
        );
    }
    page.push_str("</ul>\n</section>\n");
}

fn method(page: &mut String, report: &Report) {
    page.push_str(
        "<section>\n<h2>Method and limits</h2>\n\
         <p>Trust comes from the keys in one policy file. A checkpoint counts when the log signed it and the \
         quorum of witnesses cosigned it. Tiles and entries count when they hash to its root (RFC 6962), a run's \
         records when their hash chain ends where the log's entry says. History counts when the new tree contains \
         every tree remembered before.</p>\n\
         <p>This shows what was recorded and that it stayed as recorded. It does not show that what was recorded is \
         true, that everything that happened was recorded, or that a log nobody else has seen is shown to everybody. \
         The end of an open run is pinned only up to the run's last entry.</p>\n",
    );
    if let Some(log) = report.log.as_ref().filter(|log| !log.checkpoint.is_empty()) {
        // A note's own line ends are kept; each line is made harmless by itself.
        let note: Vec<String> = log.checkpoint.lines().map(escape).collect();
        let _ = write!(
            page,
            "<details><summary>The signed checkpoint</summary>\n<pre>{}</pre>\n</details>\n",
            note.join("\n")
        );
    }
    page.push_str("</section>\n");
}

/// A plot's place: a picture scaled to a phone would scale its labels down too, so there is one for each width.
struct Frame {
    class: &'static str,
    width: f64,
    height: f64,
    /// Where the first time begins: further left where two times hardly fit beside each other.
    times_from: f64,
}

const FRAMES: [Frame; 2] = [
    Frame { class: "wide", width: 720.0, height: 240.0, times_from: LEFT },
    Frame { class: "narrow", width: 360.0, height: 240.0, times_from: 12.0 },
];
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 34.0;

/// The sizes over time as steps, a mark for each cosignature.
fn plot(page: &mut String, timeline: &[Point]) {
    if timeline.is_empty() {
        return;
    }
    page.push_str("<section>\n<h2>Checkpoints and cosignatures</h2>\n<figure>\n");
    for frame in &FRAMES {
        plot_in(page, timeline, frame);
    }
    page.push_str(
        "<figcaption>Line and circles: sizes as this auditor saw them first. Triangles: cosignatures of \
         witnesses, at the time each states.</figcaption>\n</figure>\n</section>\n",
    );
}

fn plot_in(page: &mut String, timeline: &[Point], frame: &Frame) {
    let Frame { class, width, height, times_from } = frame;
    let times = timeline
        .iter()
        .flat_map(|point| std::iter::once(point.seen).chain(point.cosigned.iter().map(|(_, time)| *time)));
    let (Some(first), Some(last)) = (times.clone().min(), times.max()) else { return };
    let span = (last - first).max(1);
    let largest = timeline.iter().map(|point| point.size).max().unwrap_or(0).max(1);
    let x = |time: u64| LEFT + (width - LEFT - RIGHT) * ratio(time - first, span);
    let y = |size: u64| height - BOTTOM - (height - TOP - BOTTOM) * ratio(size, largest);
    let _ = writeln!(
        page,
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"Size of the log over time, with cosignatures\">"
    );
    for size in [0, largest / 2, largest] {
        let at = y(size);
        let _ = writeln!(
            page,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{size}</text>",
            width - RIGHT,
            LEFT - 8.0,
            at + 4.0
        );
    }
    for (time, anchor, at) in [(first, "start", *times_from), (last, "end", width - RIGHT)] {
        let spelled = clock::spell(time);
        let _ = writeln!(
            page,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{spelled}</text>",
            height - 10.0
        );
        if first == last {
            break;
        }
    }
    let mut steps = String::new();
    let mut level = None;
    for point in timeline {
        let (at, height) = (x(point.seen), y(point.size));
        let _ = match level {
            None => write!(steps, "M{at:.1} {height:.1}"),
            Some(before) => write!(steps, "L{at:.1} {before:.1}L{at:.1} {height:.1}"),
        };
        level = Some(height);
    }
    let _ = writeln!(page, "<path class=\"size\" d=\"{steps}\"/>");
    for point in timeline {
        let _ = writeln!(
            page,
            "<circle class=\"seen\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>size {} seen {}</title></circle>",
            x(point.seen),
            y(point.size),
            point.size,
            clock::spell(point.seen)
        );
        for (witness, time) in &point.cosigned {
            let (at, height) = (x(*time), y(point.size));
            let _ = writeln!(
                page,
                "<path class=\"cosigned\" d=\"M{:.1} {:.1}l8 0l-4 -7z\"><title>size {} cosigned by {} {}</title></path>",
                at - 4.0,
                height + 4.0,
                point.size,
                escape(witness),
                clock::spell(*time)
            );
        }
    }
    page.push_str("</svg>\n");
}

#[expect(clippy::cast_precision_loss, reason = "a plot shows no more than a thousand steps")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use runseal_evidence::finding::{Finding, FindingKind};
    use runseal_evidence::report::{Command, Cosignature, LogState, NotChecked};

    use super::*;

    #[test]
    fn nothing_from_elsewhere_becomes_markup() {
        let evil = "<script>alert(1)</script>\"'&\u{202e}";
        let mut report = Report::new(Command::Audit, Scope::Log);
        report.log = Some(LogState {
            origin: evil.to_owned(),
            size: 3,
            root: evil.to_owned(),
            checkpoint: format!("{evil}\n3\n{evil}\n"),
        });
        report.findings.push(Finding::new(FindingKind::Fork, evil));
        report.not_checked.push(NotChecked::gap(evil, evil));
        report.passed(evil, evil);
        let status = CosignatureStatus::Unknown;
        report.cosignatures.push(Cosignature { witness: evil.to_owned(), time: None, status });
        let point = Point { size: 3, seen: 5, cosigned: vec![(evil.to_owned(), 4)] };
        let page = render(&report, &[point], 10);
        assert!(!page.contains("<script") && !page.contains('\u{202e}'), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;\\u{202e}"));
        assert!(!page.contains("http:") && !page.contains("https:"), "nothing is fetched");
    }

    #[test]
    fn one_moment_and_no_moment_can_be_plotted() {
        let report = Report::new(Command::Audit, Scope::Log);
        assert!(!render(&report, &[], 10).contains("<svg"));
        let at = |size, seen| Point { size, seen, cosigned: Vec::new() };
        let page = render(&report, &[at(0, 5)], 10);
        assert!(page.contains("<svg") && !page.contains("NaN") && !page.contains("inf"), "{page}");
        // A step goes along at the size before and up where the new one was seen.
        let page = render(&report, &[at(0, 0), at(10, 100)], 200);
        assert!(page.contains("d=\"M64.0 206.0L704.0 206.0L704.0 16.0\""), "{page}");
    }
}
