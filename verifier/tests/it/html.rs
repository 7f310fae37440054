//! The report as a page.

use std::fs;

use crate::command::{auditor, text};
use crate::plane::Plane;

#[test]
fn the_page_says_the_same_as_the_report_and_fetches_nothing() {
    let mut plane = Plane::sample();
    let page = plane.path("report.html");
    let verified = auditor(&plane).audit(&["--html", text(&page)]);
    assert_eq!(verified.code, 0, "{}", verified.show());
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("<h1>VERIFIED</h1>") && html.contains("<svg"), "{html}");
    plane.sealed("later", 2);
    auditor(&plane).audit(&["--html", text(&page)]);
    plane.entries.remove(2);
    let forked = auditor(&plane).audit(&["--html", text(&page)]);
    assert_eq!(forked.code, 1);
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("<h1>TAMPERED</h1>") && html.contains("run-deleted"), "{html}");
    assert_eq!(
        html.matches("class=\"seen\"").count(),
        2 * 2,
        "both checkpoints are plotted, for both widths"
    );
    // For people who want to look at the pages in a browser.
    if let Some(folder) = std::env::var_os("RUNSEAL_TEST_PAGES") {
        fs::copy(&page, std::path::Path::new(&folder).join("tampered.html")).unwrap();
        let mut grown = Plane::sample();
        for day in 0..12u64 {
            grown.time += 43_200;
            grown.sealed(&format!("day-{day}"), 3);
            auditor(&grown).audit(&["--html", text(&grown.path("report.html"))]);
        }
        fs::copy(grown.path("report.html"), std::path::Path::new(&folder).join("verified.html")).unwrap();
        auditor(&grown).audit(&[
            "--max-age",
            "1h",
            "--records",
            "http://127.0.0.1:9/audit/acme",
            "--html",
            text(&grown.path("report.html")),
        ]);
        fs::copy(grown.path("report.html"), std::path::Path::new(&folder).join("stale.html")).unwrap();
    }
    for outside in ["http:", "https:", "src=", "<script", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
}
