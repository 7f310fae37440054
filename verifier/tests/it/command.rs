//! The real command in its own process.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use runseal_evidence::finding::FindingKind;
use runseal_evidence::report::Report;

use crate::plane::Plane;

pub(crate) fn verifier() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runseal-verifier"));
    command.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) report: Option<Report>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn report(&self) -> &Report {
        self.report.as_ref().unwrap_or_else(|| panic!("no report: {}", self.stderr))
    }

    pub(crate) fn kinds(&self) -> Vec<FindingKind> {
        self.report().findings.iter().map(|finding| finding.kind).collect()
    }

    /// The runs named under a kind.
    pub(crate) fn runs(&self, kind: FindingKind) -> Vec<String> {
        let findings = self.report().findings.iter().filter(|finding| finding.kind == kind);
        findings.filter_map(|finding| finding.run.as_ref().map(ToString::to_string)).collect()
    }

    pub(crate) fn show(&self) -> String {
        format!("exit {}\n{}\n{}", self.code, self.stdout, self.stderr)
    }
}

/// Runs a command with `--json` to a file.
pub(crate) fn run(plane: &Plane, args: &[&str]) -> Run {
    let json = plane.path("report.json");
    let _ = std::fs::remove_file(&json);
    let mut command = verifier();
    command.args(args);
    if !matches!(args.first(), Some(&"history")) {
        command.arg("--json").arg(&json);
    }
    finish(&command.output().unwrap(), &json)
}

fn finish(output: &Output, json: &Path) -> Run {
    let report = std::fs::read(json).ok().map(|bytes| serde_json::from_slice(&bytes).unwrap());
    Run {
        code: output.status.code().unwrap_or(-1),
        report,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// An audit of the plane's static tree, with a history and the records of an export.
pub(crate) struct Auditor<'p> {
    pub(crate) plane: &'p Plane,
    pub(crate) log: PathBuf,
    pub(crate) policy: PathBuf,
}

impl Auditor<'_> {
    pub(crate) fn audit(&self, more: &[&str]) -> Run {
        let history = self.plane.path("history.redb");
        let mut args = vec!["audit", "--policy", text(&self.policy), "--url", text(&self.log)];
        if !more.contains(&"--no-history") {
            args.extend(["--history", text(&history)]);
        }
        args.extend(more.iter().filter(|arg| **arg != "--no-history"));
        run(self.plane, &args)
    }
}

pub(crate) fn auditor(plane: &Plane) -> Auditor<'_> {
    Auditor { plane, log: plane.publish(), policy: plane.policy() }
}
