//! What a running witness fetches from others: lists and logs, over http on loopback and over https,
//! from servers that a known authority vouches for and from no others.

use std::process::Command;
use std::time::Duration;

use crate::authority::{Authority, Identity, web_server};
use crate::place::{Place, Running, Serve, fails, log_of};
use crate::pull::FileServer;
use crate::wire::get;

/// Waits until the page at `path` is as it should be, which is called `what`.
fn until(running: &Running, path: &str, what: &str, holds: impl Fn(&str) -> bool) {
    for _ in 0..400 {
        if holds(get(running.address, path).text()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("{path} never showed {what}");
}

/// Waits until the about page shows this size.
fn until_cosigned(running: &Running, size: usize) {
    let size = format!("data-label=\"size\">{size}<");
    until(running, "/", &size, |page| page.contains(&size));
}

#[test]
fn a_witness_started_with_feed_pulls_and_raises_alarms() {
    let place = Place::ready();
    let log = log_of(700);
    let server = FileServer::default();
    let address = server.start();
    server.put("logs", log.list());
    server.publish(&log, 300);
    place.write("policy", &format!("log {} http://{address}/\nquorum none\n", log.vkey()));
    let list = format!("http://{address}/logs");
    let running = place.serving().logs(&list).logs("policy").with(&["--feed", "50ms"]).start();
    until_cosigned(&running, 300);
    server.publish(&log, 700);
    until_cosigned(&running, 700);
    server.publish(&log, 300);
    running.wait_for("INTEGRITY ALARM");
    assert_eq!(running.stop(), 0);
    assert_eq!((place.logs()[0].size, place.logs()[0].alarms), (700, 1));
    assert_eq!(std::fs::read_dir(place.path("w.redb.evidence")).unwrap().count(), 2);
}

#[test]
fn a_fetched_list_is_used_from_its_copy_when_its_server_is_gone() {
    let place = Place::ready();
    let log = log_of(2);
    let server = FileServer::default();
    let list = format!("http://{}/logs", server.start());
    let serving = || place.serving().logs(&list);
    let (code, said) = serving().fails();
    assert!(code == 3 && said.contains("status 404"), "{said}");
    server.put("logs", log.list());
    assert_eq!(serving().start().stop(), 0);
    server.put("logs", "not a list");
    let (code, said) = serving().fails();
    assert!(code == 2 && said.contains("line 1"), "{said}");
    server.take_down("logs");
    assert_eq!(serving().start().add_checkpoint(&log.request(0, 2)).status, 200);
}

/// The command, trusting the folder's authority and no other.
fn trusting(serving: &Serve<'_>) -> Command {
    let mut command = serving.command();
    command.env("SSL_CERT_FILE", "authority.pem");
    command
}

/// A folder with an authority's certificate, and files served over TLS as `identity`.
fn over_https(authority: &Authority, identity: Identity) -> (Place, FileServer, String) {
    let place = Place::ready();
    place.write("authority.pem", &authority.pem);
    let server = FileServer::default();
    let url = format!("https://{}", server.start_tls(web_server(identity)));
    (place, server, url)
}

#[test]
fn lists_and_logs_are_fetched_over_https_from_servers_that_a_trusted_authority_vouches_for() {
    let authority = Authority::new("authority");
    let (place, server, url) = over_https(&authority, authority.vouch_for("127.0.0.1"));
    let log = log_of(700);
    server.put("logs", log.list());
    server.publish(&log, 300);
    place.write("policy", &format!("log {} {url}/\nquorum none\n", log.vkey()));
    let list = format!("{url}/logs");
    let serving = place.serving().logs(&list).logs("policy").with(&["--feed", "50ms"]);
    let running = Running::start(trusting(&serving));
    until_cosigned(&running, 300);
    server.publish(&log, 700);
    until_cosigned(&running, 700);
    // A list is read again over https too.
    server.put("logs", "logs/v0\n");
    running.signal("-HUP");
    running.wait_for("read again");
    assert_eq!(running.stop(), 0);
    assert_eq!(place.logs()[0].size, 700);
}

#[test]
fn a_server_without_a_good_certificate_is_believed_nothing() {
    let authority = Authority::new("authority");
    for (why, identity) in authority.not_good() {
        let (place, server, url) = over_https(&authority, identity);
        let log = log_of(3);
        server.put("logs", log.list());
        server.publish(&log, 3);
        let list = format!("{url}/logs");
        let (code, said) = fails(trusting(&place.serving().logs(&list)));
        assert_eq!(code, 3, "{why}: {said}");
        assert!(said.contains(why) && said.contains(&list), "{why}: {said}");

        place.write("policy", &format!("log {} {url}/\nquorum none\n", log.vkey()));
        let running = Running::start(trusting(&place.serving().logs("policy").with(&["--feed", "50ms"])));
        let none = "runseal_witness_pulls_total{outcome=\"failed\"} 0\n";
        until(&running, "/metrics", "a failed pull", |page| !page.contains(none));
        assert_eq!(running.stop(), 0);
        assert!(place.logs().is_empty(), "{why}");
        assert!(server.asked().is_empty(), "{why}: a request was sent");
    }
}

#[test]
fn a_redirect_from_https_to_http_is_not_followed() {
    let authority = Authority::new("authority");
    let (place, server, url) = over_https(&authority, authority.vouch_for("127.0.0.1"));
    let plain = FileServer::default();
    plain.put("logs", log_of(1).list());
    let target = format!("http://{}/logs", plain.start());
    server.redirect("logs", &target);
    let list = format!("{url}/logs");
    let (code, said) = fails(trusting(&place.serving().logs(&list)));
    assert!(code == 3 && said.contains("status 302"), "{said}");
    assert!(plain.asked().is_empty());
}
