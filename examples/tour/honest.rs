//! The honest day: journal, seal, checkpoint, cosign, serve, audit, grow, audit again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::stage::{Broken, Program, Server, Stage};
use crate::tell;

/// What the honest day leaves behind for the attacks.
pub(crate) struct Day {
    /// The plane as it stood when its last checkpoint was cosigned.
    pub(crate) plane: PathBuf,
    /// The plane a little earlier, before the last run: an honest backup.
    pub(crate) backup: PathBuf,
    /// Logs, witnesses, quorum: all that an auditor trusts.
    pub(crate) policy: PathBuf,
    /// The auditor's own memory of acme's log.
    pub(crate) history: PathBuf,
    /// A complete export of acme's log.
    pub(crate) export: PathBuf,
    /// Kept alive: they remember what they cosigned.
    _witnesses: Vec<Server>,
}

pub(crate) const BASE: &str = "tour.example/plane";
pub(crate) const ACME: &str = "tour.example/plane/log/acme";

pub(crate) fn day(stage: &Stage) -> Result<Day, Broken> {
    let plane = stage.path("plane");
    journal_runs(stage, &plane)?;
    let (policy, witnesses) = hire_witnesses(stage, &plane)?;

    tell::chapter("Checkpoints, cosigned by two witnesses that do not trust each other");
    for tenant in ["acme", "globex"] {
        let note = checkpoint(stage, &plane, tenant, &policy)?;
        tell::step(
            &format!("{tenant}'s log is checkpointed"),
            "One signature by the log, one by each witness over origin, size, root and time. \
             Both witnesses saw the same history, or there would be no quorum.",
        );
        if tenant == "acme" {
            tell::quote(&note);
        }
    }

    tell::chapter("An auditor who trusts only the policy file");
    let history = stage.path("auditor-acme.redb");
    let server = stage.serve(Program::Journal, ["serve".as_ref(), "--dir".as_ref(), plane.as_os_str()])?;
    for tenant in ["acme", "globex"] {
        let memory = stage.path(format!("auditor-{tenant}.redb"));
        let report = audit(stage, &policy, tenant, &server.url, &memory)?.verified()?;
        tell::step(
            &format!(
                "{tenant}: {} entries, {} runs, {} records checked over HTTP",
                report.count("entries"),
                report.count("runs"),
                report.count("records")
            ),
            "Signatures, quorum, every tile and entry against the signed root, and every record's \
             hash chain against its entry. The auditor now remembers this history.",
        );
    }
    drop(server);

    let export = prove_and_export(stage, &plane, &policy)?;
    let backup = stage.copy(&plane, "backup")?;
    grow(stage, &plane, &policy, &history)?;
    Ok(Day { plane, backup, policy, history, export, _witnesses: witnesses })
}

fn journal_runs(stage: &Stage, plane: &Path) -> Result<(), Broken> {
    tell::chapter("A plane journals the runs of two tenants");
    stage
        .run(
            Program::Journal,
            [
                "init".as_ref(),
                "--dir".as_ref(),
                plane.as_os_str(),
                "--origin".as_ref(),
                BASE.as_ref(),
                "--sign-records".as_ref(),
            ],
        )?
        .ended(0)?;
    tell::step(
        &format!("a plane is founded: {BASE}"),
        "One database, one master key. Every tenant's log gets its own key and its own origin from it.",
    );
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    for tenant in ["acme", "globex"] {
        let mut folders = vec![repository.join("examples/runs").join(tenant)];
        let shared = repository.join("../shared/data/trajectories");
        if tenant == "acme" && shared.is_dir() {
            folders.push(shared);
        }
        let mut files = Vec::new();
        for folder in folders {
            for entry in std::fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.extension().is_some_and(|ext| ext == "jsonl" || ext == "traj") {
                    files.push(path);
                }
            }
        }
        files.sort();
        let mut args = vec!["import".into(), "--dir".into(), plane.into(), "--tenant".into(), tenant.into()];
        args.extend(files.iter().map(|file| file.as_os_str().to_owned()));
        let imported = stage.run(Program::Journal, args)?.ended(0)?;
        let rows: Vec<Vec<&str>> = imported.stdout.lines().map(|line| line.split('\t').collect()).collect();
        let records: u64 = rows.iter().filter_map(|row| row.get(1)?.parse::<u64>().ok()).sum();
        let open = rows.iter().filter(|row| row.get(3) == Some(&"-")).count();
        tell::step(
            &format!("{tenant}: {} runs, {records} records, {open} runs still open", rows.len()),
            "Each record is chained to the one before it; each concluded run is frozen and sealed \
             into its tenant's Merkle log in the same transaction.",
        );
        if tenant == "acme" {
            let sample: Vec<String> = rows.iter().take(5).map(|row| row.join("  ")).collect();
            tell::quote(&sample.join("\n"));
        }
    }
    Ok(())
}

fn hire_witnesses(stage: &Stage, plane: &Path) -> Result<(PathBuf, Vec<Server>), Broken> {
    let mut policy = String::from("# what the auditor trusts: two logs, two witnesses, both needed\n");
    let vkey = |tenant: &str| -> Result<String, Broken> {
        let args =
            ["vkey".as_ref(), "--dir".as_ref(), plane.as_os_str(), "--tenant".as_ref(), tenant.as_ref()];
        Ok(stage.run(Program::Journal, args)?.ended(0)?.stdout.trim().to_owned())
    };
    for tenant in ["acme", "globex"] {
        writeln!(policy, "log {}", vkey(tenant)?)?;
    }
    let logs = stage.write("logs.policy", &format!("{policy}quorum none\n"))?;
    let mut servers = Vec::new();
    for name in ["north", "south"] {
        let (key, db) = (stage.path(format!("{name}.key")), stage.path(format!("{name}.redb")));
        let witness = format!("{name}.example/witness");
        let made = stage
            .run(
                Program::Witness,
                ["keygen".as_ref(), "--name".as_ref(), witness.as_ref(), "--out".as_ref(), key.as_os_str()],
            )?
            .ended(0)?;
        stage.run(Program::Witness, ["init".as_ref(), "--db".as_ref(), db.as_os_str()])?.ended(0)?;
        let server = stage.serve(
            Program::Witness,
            [
                "serve".as_ref(),
                "--key".as_ref(),
                key.as_os_str(),
                "--logs".as_ref(),
                logs.as_os_str(),
                "--db".as_ref(),
                db.as_os_str(),
            ],
        )?;
        writeln!(policy, "witness {name} {} {}", made.stdout.trim(), server.url)?;
        servers.push(server);
    }
    policy += "group both all north south\nquorum both\n";
    let policy = stage.write("trust.policy", &policy)?;
    Ok((policy, servers))
}

pub(crate) fn checkpoint(stage: &Stage, plane: &Path, tenant: &str, policy: &Path) -> Result<String, Broken> {
    let args = [
        "checkpoint".as_ref(),
        "--dir".as_ref(),
        plane.as_os_str(),
        "--tenant".as_ref(),
        tenant.as_ref(),
        "--policy".as_ref(),
        policy.as_os_str(),
    ];
    Ok(stage.run(Program::Journal, args)?.ended(0)?.stdout)
}

/// An audit of one tenant over HTTP, with records.
pub(crate) fn audit(
    stage: &Stage,
    policy: &Path,
    tenant: &str,
    url: &str,
    history: &Path,
) -> Result<crate::stage::Report, Broken> {
    audit_with(stage, policy, tenant, url, history, &[])
}

pub(crate) fn audit_with(
    stage: &Stage,
    policy: &Path,
    tenant: &str,
    url: &str,
    history: &Path,
    more: &[&std::ffi::OsStr],
) -> Result<crate::stage::Report, Broken> {
    let origin = format!("{BASE}/log/{tenant}");
    let (log, records) = (format!("{url}/log/{tenant}"), format!("{url}/audit/{tenant}"));
    let mut args: Vec<&std::ffi::OsStr> = vec![
        "audit".as_ref(),
        "--policy".as_ref(),
        policy.as_os_str(),
        "--log".as_ref(),
        origin.as_ref(),
        "--url".as_ref(),
        log.as_ref(),
        "--records".as_ref(),
        records.as_ref(),
        "--history".as_ref(),
        history.as_os_str(),
    ];
    args.extend(more);
    stage.report(args)
}

fn prove_and_export(stage: &Stage, plane: &Path, policy: &Path) -> Result<PathBuf, Broken> {
    let proof = stage.path("refund-4471.tlog-proof");
    let args = [
        "prove".as_ref(),
        "--dir".as_ref(),
        plane.as_os_str(),
        "--tenant".as_ref(),
        "acme".as_ref(),
        "refund-4471".as_ref(),
    ];
    let made = stage.run(Program::Journal, args)?.ended(0)?;
    std::fs::write(&proof, &made.stdout)?;
    stage
        .report(["proof".as_ref(), proof.as_os_str(), "--policy".as_ref(), policy.as_os_str()])?
        .verified()?;
    tell::step(
        "one run, proven in one small file",
        "A c2sp.org/tlog-proof of refund-4471: entry, path to the root, cosigned checkpoint. \
         It verifies offline, for anyone, with anyone's tools.",
    );
    let export = stage.path("acme.export.jsonl");
    let args = [
        "export".as_ref(),
        "--dir".as_ref(),
        plane.as_os_str(),
        "--tenant".as_ref(),
        "acme".as_ref(),
        "-o".as_ref(),
        export.as_os_str(),
    ];
    stage.run(Program::Journal, args)?.ended(0)?;
    let report = stage
        .report(["export".as_ref(), export.as_os_str(), "--policy".as_ref(), policy.as_os_str()])?
        .verified()?;
    tell::step(
        &format!("acme's whole history exported and checked offline: {} records", report.count("records")),
        "Every entry, every chain and the root against the witnessed checkpoint, without a server.",
    );
    Ok(export)
}

/// One more run, a new checkpoint, and an audit that proves the new tree extends the remembered one.
fn grow(stage: &Stage, plane: &Path, policy: &Path, history: &Path) -> Result<(), Broken> {
    let late = stage.write("late.jsonl", &run_file("refund-4480", "the customer was charged twice"))?;
    let args = [
        "import".as_ref(),
        "--dir".as_ref(),
        plane.as_os_str(),
        "--tenant".as_ref(),
        "acme".as_ref(),
        late.as_os_str(),
    ];
    stage.run(Program::Journal, args)?.ended(0)?;
    checkpoint(stage, plane, "acme", policy)?;
    let server = stage.serve(Program::Journal, ["serve".as_ref(), "--dir".as_ref(), plane.as_os_str()])?;
    let report = audit(stage, policy, "acme", &server.url, history)?.verified()?;
    let (from, to) = (&report.json["previous"]["size"], &report.json["log"]["size"]);
    tell::step(
        &format!("the log grew from {from} to {to} entries, and the second audit proves it only grew"),
        "A consistency proof from the remembered checkpoint to the new one: nothing that was ever \
         in the log has been changed, moved or removed.",
    );
    Ok(())
}

/// A small run in the import format.
pub(crate) fn run_file(run: &str, reason: &str) -> String {
    let effect =
        format!("{:0>64}", run.bytes().fold(7u64, |sum, byte| sum * 31 % 999_999_937 + u64::from(byte)));
    [
        format!(r#"{{"run":"{run}","kind":"RunAdmitted","payload":{{"admission_key":"ticket/{run}","goal":"decide the refund"}}}}"#),
        format!(r#"{{"run":"{run}","kind":"EffectStarted","effect":"{effect}","payload":{{"tool":"payments.refund","amount":"42.00","currency":"EUR"}}}}"#),
        format!(r#"{{"run":"{run}","kind":"EffectDone","effect":"{effect}","payload":{{"status":"accepted"}}}}"#),
        format!(r#"{{"run":"{run}","kind":"RunConcluded","payload":{{"outcome":"succeeded","reason":"{reason}"}}}}"#),
    ]
    .join("\n")
        + "\n"
}
