//! What the cross-crate tests share: a stage with the three built commands, and an honest plane on it.
#![allow(dead_code, reason = "each test binary uses the part it needs")]

#[path = "../../examples/tour/stage.rs"]
pub(crate) mod stage;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use stage::{Broken, Launcher, Program, Ran, Report, Server, Stage};

/// A fresh stage that runs the binaries of this build.
pub(crate) fn stage() -> Stage {
    Stage::build(None, Launcher::Binaries(binaries().to_owned())).expect("a temporary folder can be made")
}

/// The folder of the three binaries. Cargo builds the journal's for this package's tests; the other
/// two are built here, in the same profile, and with the features that `./check` tests with, so that
/// there is nothing left to build. A test is among the targets because with one the dependencies get
/// the features that tests ask of them, as in `cargo test`.
fn binaries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let journal = Path::new(env!("CARGO_BIN_EXE_runseal"));
        let folder = journal.parent().expect("a binary lies in a folder");
        let target = folder.parent().expect("a profile folder lies in the target folder");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--workspace", "--all-features", "--bins", "--test", "steps_idle"]);
        build.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
        // Cargo says here which package is tested. Build scripts that read the name of their own would be run again,
        // and all that depends on them compiled again, now and by the next command after this.
        for (name, _) in std::env::vars_os() {
            let of_package = ["CARGO_PKG_", "CARGO_MANIFEST_"];
            if of_package.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                build.env_remove(name);
            }
        }
        if folder.file_name().is_some_and(|name| name == "release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success(), "the witness and the verifier do not build");
        folder.to_owned()
    })
}

pub(crate) const BASE: &str = "test.example/plane";

/// A plane with one tenant's log, two witnesses, and an auditor's memory of it.
pub(crate) struct House {
    pub(crate) stage: Stage,
    pub(crate) plane: PathBuf,
    pub(crate) policy: PathBuf,
    pub(crate) history: PathBuf,
    pub(crate) witnesses: Vec<Server>,
}

impl House {
    pub(crate) const TENANT: &'static str = "acme";

    /// Imports `runs` (jsonl), has the log cosigned and audited once.
    pub(crate) fn with_runs(runs: &str) -> Result<Self, Broken> {
        let stage = stage();
        let plane = stage.path("plane");
        journal(&stage, &plane, "init", &["--origin", BASE])?.ended(0)?;
        let mut house = Self {
            policy: stage.path("trust.policy"),
            history: stage.path("auditor.redb"),
            plane,
            witnesses: Vec::new(),
            stage,
        };
        let vkey = house.journal("vkey", &["--tenant", Self::TENANT])?.ended(0)?.stdout;
        let log = format!("log {}\n", vkey.trim());
        let logs = house.stage.write("logs.policy", &format!("{log}quorum none\n"))?;
        let mut policy = log;
        for name in ["north", "south"] {
            let key = house.stage.path(format!("{name}.key"));
            let db = house.stage.path(format!("{name}.redb"));
            let (key, db) = (text(&key), text(&db));
            let made = house
                .stage
                .run(Program::Witness, ["keygen", "--name", &format!("{name}.example/w"), "--out", key])?;
            let witness = made.ended(0)?.stdout;
            house.stage.run(Program::Witness, ["init", "--db", db])?.ended(0)?;
            let server = house
                .stage
                .serve(Program::Witness, ["serve", "--key", key, "--db", db, "--logs", text(&logs)])?;
            writeln!(policy, "witness {name} {} {}", witness.trim(), server.url)?;
            house.witnesses.push(server);
        }
        policy += "group both all north south\nquorum both\n";
        house.stage.write("trust.policy", &policy)?;
        house.import("runs", runs)?;
        house.checkpoint(&house.plane, true)?.ended(0)?;
        house.audit(&house.plane, &house.history)?.verified()?;
        Ok(house)
    }

    pub(crate) fn journal(&self, command: &str, args: &[&str]) -> Result<Ran, Broken> {
        journal(&self.stage, &self.plane, command, args)
    }

    pub(crate) fn import(&self, name: &str, runs: &str) -> Result<(), Broken> {
        self.import_into(&self.plane, name, runs)
    }

    pub(crate) fn import_into(&self, plane: &Path, name: &str, runs: &str) -> Result<(), Broken> {
        let file = self.stage.write(&format!("{name}.jsonl"), runs)?;
        journal(&self.stage, plane, "import", &["--tenant", Self::TENANT, text(&file)])?.ended(0)?;
        Ok(())
    }

    pub(crate) fn checkpoint(&self, plane: &Path, witnessed: bool) -> Result<Ran, Broken> {
        let mut args = vec!["--tenant", Self::TENANT];
        if witnessed {
            args.extend(["--policy", text(&self.policy)]);
        }
        journal(&self.stage, plane, "checkpoint", &args)
    }

    /// A copy of the plane and of the auditor's memory, to attack.
    pub(crate) fn copy(&self, name: &str) -> Result<(PathBuf, PathBuf), Broken> {
        let plane = self.stage.copy(&self.plane, name)?;
        let history = self.stage.path(format!("{name}.history.redb"));
        std::fs::copy(&self.history, &history)?;
        Ok((plane, history))
    }

    /// An audit over HTTP, with records.
    pub(crate) fn audit(&self, plane: &Path, history: &Path) -> Result<Report, Broken> {
        let server = self.stage.serve(Program::Journal, ["serve", "--dir", text(plane)])?;
        let log = format!("{}/log/{}", server.url, Self::TENANT);
        let records = format!("{}/audit/{}", server.url, Self::TENANT);
        self.stage.report([
            "audit",
            "--policy",
            text(&self.policy),
            "--url",
            &log,
            "--records",
            &records,
            "--history",
            text(history),
        ])
    }

    pub(crate) fn tamper(&self, plane: &Path, action: &[&str]) -> Result<Ran, Broken> {
        let mut args = vec!["--tenant", Self::TENANT];
        args.extend(action);
        journal(&self.stage, plane, "tamper", &args)
    }
}

pub(crate) fn journal(stage: &Stage, plane: &Path, command: &str, args: &[&str]) -> Result<Ran, Broken> {
    let mut all = vec![command, "--dir", text(plane)];
    all.extend(args);
    stage.run(Program::Journal, all)
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("the stage's paths are text")
}

/// A run of `records` records in the import format; open unless `outcome` is given.
pub(crate) fn run(name: &str, records: usize, outcome: Option<&str>) -> String {
    let mut lines = vec![format!(
        r#"{{"run":"{name}","kind":"RunAdmitted","payload":{{"admission_key":"{name}","goal":"test"}}}}"#
    )];
    let steps = records - 1 - usize::from(outcome.is_some());
    for step in 0..steps {
        lines.push(format!(
            r#"{{"run":"{name}","kind":"Message","payload":{{"step":{step},"text":"héllo"}}}}"#
        ));
    }
    if let Some(outcome) = outcome {
        lines
            .push(format!(r#"{{"run":"{name}","kind":"RunConcluded","payload":{{"outcome":"{outcome}"}}}}"#));
    }
    lines.join("\n") + "\n"
}
