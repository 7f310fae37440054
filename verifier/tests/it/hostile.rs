//! Servers that mean harm: whatever they send, an audit ends in time and within its memory.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use runseal_evidence::report::Report;

use crate::command::{text, verifier};
use crate::plane::Plane;
use crate::server::{Answer, Server};

/// Most memory of any such audit. Eight units of sixteen bundles of 1.25 MiB are the greatest part of it.
const PEAK_MIB_MAX: u64 = 256;
/// What the audit is given, and what it may take beyond that to start and to say so.
const TIMEOUT: &str = "3s";
const TOOK_MAX: Duration = Duration::from_secs(20);

struct Ended {
    code: i32,
    peak_mib: u64,
    took: Duration,
    report: Report,
}

/// Audits, looking again and again at the most memory that the process ever had.
fn audit(plane: &Plane, name: &str, url: &str, records: Option<&str>) -> Ended {
    let json = plane.path(&format!("{name}.json"));
    let policy = plane.path("policy.txt");
    let mut command = verifier();
    command.args(["audit", "--policy", text(&policy), "--url", url, "--timeout", TIMEOUT, "--quiet"]);
    command.args(records.iter().flat_map(|records| ["--records", records]));
    command.arg("--json").arg(&json).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    let code = loop {
        let shown = fs::read_to_string(&status).unwrap_or_default();
        let line = shown.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak_kib = peak_kib.max(kib.unwrap_or(0u64));
        if let Some(status) = child.try_wait().unwrap() {
            break status.code().unwrap_or(-1);
        }
        thread::sleep(Duration::from_millis(2));
    };
    let report = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    Ended { code, peak_mib: peak_kib / 1024, took: started.elapsed(), report }
}

fn gzip_bomb() -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let zeros = vec![0; 1 << 20];
    for _ in 0..1_024 {
        encoder.write_all(&zeros).unwrap();
    }
    encoder.finish().unwrap()
}

#[test]
fn no_server_decides_how_much_memory_or_time_an_audit_takes() {
    // Enough tiles that as many are fetched at a time as ever.
    let mut plane = Plane::new();
    for run in 0..64 {
        plane.sealed(&format!("r{run}"), 2);
    }
    plane.entries.extend((0..40_000u32).map(|at| at.to_be_bytes().to_vec()));
    plane.policy_with("all", &[]);
    let log = plane.publish();
    let bomb = gzip_bomb();
    let answers = [
        ("stalls", Answer::Stall),
        ("drips", Answer::Drip),
        ("hangs up", Answer::Hangup),
        ("cuts short", Answer::Short(vec![b'x'; 100], 8_192)),
        ("claims 2^63 bytes and never ends", Answer::Claims(1 << 63)),
        ("never ends", Answer::Endless),
        ("never ends its header", Answer::EndlessHeader),
        ("redirects to itself", Answer::Redirect("checkpoint".to_owned())),
        ("sends a gzip bomb of 1 GiB", Answer::Gzip(bomb)),
    ];
    let parts = ["/checkpoint", "/tile/0/", "/tile/1/", "/tile/entries/", "/records"];
    let mut table = String::new();
    for (what, answer) in &answers {
        // One process for each part, all at once: most of them wait.
        let ended: Vec<Ended> = thread::scope(|scope| {
            let audits = parts.map(|part| {
                let (plane, log, answer) = (&plane, &log, answer.clone());
                scope.spawn(move || {
                    let server = Server::start();
                    server.tree("/log/acme", log);
                    server.rule(part, answer);
                    let records = format!("{}/audit/acme", server.url);
                    let records = (part == "/records").then_some(records.as_str());
                    audit(plane, &part.replace('/', "-"), &format!("{}/log/acme", server.url), records)
                })
            });
            audits.into_iter().map(|audit| audit.join().unwrap()).collect()
        });
        for (part, Ended { code, peak_mib, took, report }) in parts.iter().zip(&ended) {
            let _ = writeln!(table, "{what:<34} {part:<16} exit {code}  {peak_mib:>4} MiB  {took:>6.1?}");
            assert_eq!((*code, report.findings.len()), (3, 0), "{what} {part}: {report:?}");
            assert!(*peak_mib > 0 && *peak_mib <= PEAK_MIB_MAX, "{what} {part}: {peak_mib} MiB\n{table}");
            assert!(*took <= TOOK_MAX, "{what} {part}: {took:?}\n{table}");
        }
    }
    println!("{table}");
}
