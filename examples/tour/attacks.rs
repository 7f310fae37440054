//! The attacks, each on a fresh copy of the honest history, and who must catch them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::honest::{ACME, Day, audit, audit_with, run_file};
use crate::stage::{Broken, Program, Ran, Report, Stage};
use crate::tell;

/// An attack that was noticed.
pub(crate) struct Caught {
    pub(crate) attack: &'static str,
    pub(crate) how: &'static str,
    pub(crate) by: Vec<Catch>,
}

/// Who noticed, and in which words.
pub(crate) struct Catch {
    pub(crate) who: String,
    pub(crate) said: String,
}

fn catch(who: impl Into<String>, said: impl Into<String>) -> Catch {
    Catch { who: who.into(), said: said.into() }
}

type Attack = (&'static str, &'static str, fn(&Scene<'_>) -> Result<Vec<Catch>, Broken>);

const ATTACKS: &[Attack] = &[
    (
        "a record is edited in the database",
        "One payload byte of refund-4471 is changed on disk; the stored hashes are left alone.",
        |scene| scene.records_attack(&["edit", "refund-4471", "3"], "run-edited", "refund-4471"),
    ),
    (
        "a record is edited and everything after it re-hashed",
        "The attacker recomputes the whole chain of refund-4471, so that it is consistent in itself.",
        |scene| scene.records_attack(&["rehash", "refund-4471", "3"], "run-edited", "refund-4471"),
    ),
    (
        "an open run is edited and re-hashed",
        "refund-4473 has not ended, so no seal pins it. A head entry of the last checkpoint does.",
        |scene| scene.records_attack(&["rehash", "refund-4473", "2"], "run-edited", "refund-4473"),
    ),
    (
        "the tail of an open run is cut",
        "The last records of refund-4473 vanish: what the agent did last never happened.",
        |scene| scene.records_attack(&["truncate", "refund-4473", "4"], "run-truncated", "refund-4473"),
    ),
    (
        "a run is deleted, the tree left alone",
        "All records of refund-4472 and its seal are removed. Its entry is still in the log.",
        |scene| scene.records_attack(&["delete", "refund-4472"], "run-deleted", "refund-4472"),
    ),
    (
        "a run is deleted, the tree rebuilt and signed again",
        "Records, seal and entry of refund-4472 go; every tile is recomputed; the plane's memory of \
         what it signed is wiped; the attacker has the log's key and signs.",
        |scene| scene.rebuild(),
    ),
    ("two entries change places", "Tiles are rebuilt after the swap and the tree signed again.", |scene| {
        scene.swap()
    }),
    (
        "the database is rolled back to a backup",
        "The last run is undone by restoring yesterday's file.",
        |scene| scene.rollback(),
    ),
    (
        "a split view: two auditors, two histories",
        "A copy of the plane grows with another run to the same size, signed with the same key, and \
         is shown to the second auditor.",
        |scene| scene.split_view(),
    ),
    (
        "a run is left out of an export",
        "The compliance export loses every line of refund-4472; entries are renumbered and the \
         trailer's counts corrected.",
        |scene| scene.doctored_export(Omit::Everything),
    ),
    (
        "a run's records are left out of an export",
        "The entry stays, the run's block goes, the trailer's counts are corrected.",
        |scene| scene.doctored_export(Omit::Records),
    ),
    ("an export is cut short", "The file ends in the middle, as if the disk had been full.", |scene| {
        scene.cut_export()
    }),
    (
        "an old checkpoint is served for ever",
        "The server shows a genuine, witnessed checkpoint and never a newer one.",
        |scene| scene.stale(),
    ),
    (
        "a witness's signature is forged",
        "The note carries a line under a trusted witness's name, made by nobody.",
        |scene| scene.forged_witness(),
    ),
    (
        "one tenant's run is shown as another's",
        "The auditor of acme is given the records of globex for acme's log.",
        |scene| scene.other_tenant(),
    ),
];

pub(crate) fn all(stage: &Stage, day: &Day) -> Result<Vec<Caught>, Broken> {
    tell::chapter("The history is attacked");
    let mut caught = Vec::new();
    for (number, (attack, how, run)) in ATTACKS.iter().enumerate() {
        let scene = Scene { stage, day, name: format!("attack-{:02}", number + 1) };
        let by = run(&scene).map_err(|Broken(why)| Broken(format!("attack {attack:?}: {why}")))?;
        if by.is_empty() {
            return Err(Broken(format!("attack {attack:?} went unnoticed")));
        }
        let seen = Caught { attack, how, by };
        tell::attack(number + 1, &seen);
        caught.push(seen);
    }
    Ok(caught)
}

#[derive(Clone, Copy)]
enum Omit {
    Everything,
    Records,
}

struct Scene<'s> {
    stage: &'s Stage,
    day: &'s Day,
    name: String,
}

impl Scene<'_> {
    /// A copy of the honest plane for this attack.
    fn plane(&self) -> Result<PathBuf, Broken> {
        self.stage.copy(&self.day.plane, &self.name)
    }

    /// A copy of the auditor's memory, so that attacks do not see each other.
    fn history(&self) -> Result<PathBuf, Broken> {
        let copy = self.stage.path(format!("{}.history.redb", self.name));
        std::fs::copy(&self.day.history, &copy)?;
        Ok(copy)
    }

    fn tamper(&self, plane: &Path, action: &[&str]) -> Result<Ran, Broken> {
        let mut args: Vec<&OsStr> = vec![
            "tamper".as_ref(),
            "--dir".as_ref(),
            plane.as_os_str(),
            "--tenant".as_ref(),
            "acme".as_ref(),
        ];
        args.extend(action.iter().map(|arg| OsStr::new(*arg)));
        self.stage.run(Program::Journal, args)?.ended(0)
    }

    fn audit(&self, plane: &Path, history: &Path) -> Result<Report, Broken> {
        let server =
            self.stage.serve(Program::Journal, ["serve".as_ref(), "--dir".as_ref(), plane.as_os_str()])?;
        audit(self.stage, &self.day.policy, "acme", &server.url, history)
    }

    fn records_attack(&self, action: &[&str], kind: &str, run: &str) -> Result<Vec<Catch>, Broken> {
        let plane = self.plane()?;
        self.tamper(&plane, action)?;
        let report = self.audit(&plane, &self.history()?)?.tampered()?;
        Ok(vec![catch(format!("verifier: {kind} {run}"), report.finds(kind, Some(run))?)])
    }

    fn checkpoint(&self, plane: &Path, policy: Option<&Path>) -> Result<Ran, Broken> {
        let mut args: Vec<&OsStr> = vec![
            "checkpoint".as_ref(),
            "--dir".as_ref(),
            plane.as_os_str(),
            "--tenant".as_ref(),
            "acme".as_ref(),
        ];
        if let Some(policy) = policy {
            args.extend([OsStr::new("--policy"), policy.as_os_str()]);
        }
        self.stage.run(Program::Journal, args)
    }

    /// The plane refuses, its memory is wiped, the witnesses refuse, it publishes all the same, and
    /// the verifier names what changed.
    fn rewritten(
        &self,
        plane: &Path,
        witness_word: &str,
        kind: &str,
        run: Option<(&str, &str)>,
    ) -> Result<Vec<Catch>, Broken> {
        let refused = self.checkpoint(plane, Some(&self.day.policy))?.ended(1)?;
        let said = refused.says("sign")?;
        let said = said.split_inclusive("nothing was signed").next().unwrap_or_default().to_owned();
        let mut by = vec![catch("plane: will not sign", said)];
        self.tamper(plane, &["forget"])?;
        let alarm = self.checkpoint(plane, Some(&self.day.policy))?.ended(1)?;
        by.push(catch("witnesses: will not cosign", alarm.says(witness_word)?));
        self.checkpoint(plane, None)?.ended(0)?;
        let proof = self.stage.path(format!("{}.fraud-proof", self.name));
        let history = self.history()?;
        let server =
            self.stage.serve(Program::Journal, ["serve".as_ref(), "--dir".as_ref(), plane.as_os_str()])?;
        let more = [OsStr::new("--fraud-proof"), proof.as_os_str()];
        let report =
            audit_with(self.stage, &self.day.policy, "acme", &server.url, &history, &more)?.tampered()?;
        by.push(catch(format!("verifier: {kind}"), report.finds(kind, None)?));
        if let Some((kind, run)) = run {
            by.push(catch(format!("verifier: {kind} {run}"), report.finds(kind, Some(run))?));
        }
        if kind == "fork" {
            by.push(self.convict(&proof)?);
        }
        Ok(by)
    }

    /// Anyone can check the fraud proof, with the policy file alone.
    fn convict(&self, proof: &Path) -> Result<Catch, Broken> {
        let args = ["fraud".as_ref(), proof.as_os_str(), "--policy".as_ref(), self.day.policy.as_os_str()];
        let checked = self.stage.run(Program::Verifier, args)?.ended(1)?;
        let bytes = std::fs::metadata(proof)?.len();
        let words = checked.stdout.lines().chain(checked.stderr.lines()).find(|line| !line.trim().is_empty());
        Ok(catch(
            format!("fraud proof: {bytes} bytes, checked offline"),
            words.unwrap_or("the log is proven to have signed two histories").trim(),
        ))
    }

    fn rebuild(&self) -> Result<Vec<Catch>, Broken> {
        let plane = self.plane()?;
        self.tamper(&plane, &["rebuild", "refund-4472"])?;
        // One entry fewer; so that the tree is not merely shorter, the attacker lets it grow again.
        for run in ["refund-9001", "refund-9002"] {
            self.import(&plane, run, "nothing to see here")?;
        }
        self.rewritten(&plane, "422", "fork", Some(("run-deleted", "refund-4472")))
    }

    fn swap(&self) -> Result<Vec<Catch>, Broken> {
        let plane = self.plane()?;
        self.tamper(&plane, &["swap", "0", "1"])?;
        self.import(&plane, "refund-9003", "nothing to see here")?;
        self.rewritten(&plane, "422", "fork", None)
    }

    fn rollback(&self) -> Result<Vec<Catch>, Broken> {
        // Only the database comes from the backup, as a careless restore does it.
        let plane = self.plane()?;
        std::fs::copy(self.day.backup.join("journal.redb"), plane.join("journal.redb"))?;
        self.rewritten(&plane, "roll", "rollback", Some(("run-deleted", "refund-4480")))
    }

    fn split_view(&self) -> Result<Vec<Catch>, Broken> {
        let plane = self.stage.copy(&self.day.backup, &self.name)?;
        self.import(&plane, "refund-4480", "a quite different reason")?;
        self.checkpoint(&plane, None)?.ended(0)?;
        let server =
            self.stage.serve(Program::Journal, ["serve".as_ref(), "--dir".as_ref(), plane.as_os_str()])?;
        // The second auditor has never seen this log; only the witnesses can warn her.
        let fresh = self.stage.path(format!("{}.fresh.redb", self.name));
        let report = audit(self.stage, &self.day.policy, "acme", &server.url, &fresh)?.tampered()?;
        let mut by = vec![catch("second auditor: quorum-not-met", report.finds("quorum-not-met", None)?)];
        // The first one compares it with what he remembers.
        let proof = self.stage.path(format!("{}.fraud-proof", self.name));
        let more = [OsStr::new("--fraud-proof"), proof.as_os_str()];
        let history = self.history()?;
        let report =
            audit_with(self.stage, &self.day.policy, "acme", &server.url, &history, &more)?.tampered()?;
        by.push(catch("first auditor: fork", report.finds("fork", None)?));
        by.push(catch(
            "first auditor: run-edited refund-4480",
            report.finds("run-edited", Some("refund-4480"))?,
        ));
        by.push(self.convict(&proof)?);
        Ok(by)
    }

    fn import(&self, plane: &Path, run: &str, reason: &str) -> Result<(), Broken> {
        let file = self.stage.write(&format!("{}-{run}.jsonl", self.name), &run_file(run, reason))?;
        let args = [
            "import".as_ref(),
            "--dir".as_ref(),
            plane.as_os_str(),
            "--tenant".as_ref(),
            "acme".as_ref(),
            file.as_os_str(),
        ];
        self.stage.run(Program::Journal, args)?.ended(0)?;
        Ok(())
    }

    fn verify_export(&self, name: &str, lines: &[String]) -> Result<Report, Broken> {
        let file = self.stage.write(name, &(lines.join("\n") + "\n"))?;
        self.stage.report([
            "export".as_ref(),
            file.as_os_str(),
            "--policy".as_ref(),
            self.day.policy.as_os_str(),
        ])
    }

    fn doctored_export(&self, omit: Omit) -> Result<Vec<Catch>, Broken> {
        const RUN: &str = "refund-4472";
        let text = std::fs::read_to_string(&self.day.export)?;
        let (mut kept, mut inside, mut index) = (Vec::new(), false, 0u64);
        let (mut entries, mut runs, mut records) = (0u64, 0u64, 0u64);
        for line in text.lines() {
            let mut value: Value = serde_json::from_str(line)?;
            match value["kind"].as_str().unwrap_or_default() {
                "runseal.export.entry" => {
                    let entry = value["entry"].as_str().unwrap_or_default();
                    let of_run = entry.contains(&format!("\"run\":\"{RUN}\""));
                    if of_run && matches!(omit, Omit::Everything) {
                        continue;
                    }
                    // Entries after the hole close up.
                    let changed = value["index"] != index;
                    value["index"] = index.into();
                    index += 1;
                    entries += 1;
                    kept.push(if changed { renumbered(line, index - 1) } else { line.to_owned() });
                    continue;
                }
                "runseal.export.run" => {
                    inside = value["run"] == RUN;
                    runs += u64::from(!inside);
                }
                "runseal.export.record" => records += u64::from(!inside),
                "runseal.export.end" => {
                    kept.push(format!(
                        r#"{{"kind":"runseal.export.end","entries":{entries},"runs":{runs},"records":{records},"unreadable":[]}}"#
                    ));
                    continue;
                }
                _ => {}
            }
            if !inside {
                kept.push(line.to_owned());
            }
        }
        let report = self.verify_export(&format!("{}.jsonl", self.name), &kept)?.tampered()?;
        let said = report.finds("export-incomplete", None)?;
        let named = match omit {
            Omit::Records => format!(" {RUN}"),
            Omit::Everything => String::new(),
        };
        if matches!(omit, Omit::Records) {
            report.finds("export-incomplete", Some(RUN))?;
        }
        Ok(vec![catch(format!("verifier: export-incomplete{named}"), said)])
    }

    fn cut_export(&self) -> Result<Vec<Catch>, Broken> {
        let text = std::fs::read_to_string(&self.day.export)?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let report = self.verify_export(&format!("{}.jsonl", self.name), &lines[..lines.len() / 2])?;
        if report.code == 0 || report.verdict() == "verified" {
            return Err(Broken("half an export was taken for a whole one".to_owned()));
        }
        let why = report.json["not_checked"][0]["why"].as_str().map(str::to_owned);
        let why = why.or_else(|| report.findings().next().map(|(_, _, detail)| detail.to_owned()));
        Ok(vec![catch(format!("verifier: {}", report.verdict()), why.unwrap_or_default())])
    }

    fn stale(&self) -> Result<Vec<Catch>, Broken> {
        let server = self
            .stage
            .serve(Program::Journal, ["serve".as_ref(), "--dir".as_ref(), self.day.plane.as_os_str()])?;
        // The honest log itself, judged by somebody impatient. Times are whole seconds: after two of
        // them one second is over, however they are rounded.
        std::thread::sleep(std::time::Duration::from_millis(2_100));
        let more = [OsStr::new("--max-age"), OsStr::new("1s")];
        let history = self.history()?;
        let report =
            audit_with(self.stage, &self.day.policy, "acme", &server.url, &history, &more)?.tampered()?;
        Ok(vec![catch("verifier: stale", report.finds("stale", None)?)])
    }

    fn forged_witness(&self) -> Result<Vec<Catch>, Broken> {
        let tree = self.stage.path(format!("{}.tree", self.name));
        let args = [
            "publish".as_ref(),
            "--dir".as_ref(),
            self.day.plane.as_os_str(),
            "--to".as_ref(),
            tree.as_os_str(),
        ];
        self.stage.run(Program::Journal, args)?.ended(0)?;
        let file = tree.join("acme/checkpoint");
        let note = std::fs::read_to_string(&file)?;
        // One character in the middle of the last line: a signature that nobody made.
        let (head, last) =
            note.trim_end().rsplit_once('\n').ok_or_else(|| Broken("no signature line".into()))?;
        let at = last.len() - 20;
        let other = if last.as_bytes()[at] == b'A' { "B" } else { "A" };
        let forged = format!("{head}\n{}{other}{}\n", &last[..at], &last[at + 1..]);
        std::fs::write(&file, forged)?;
        let report = self
            .stage
            .report([
                "audit".as_ref(),
                "--policy".as_ref(),
                self.day.policy.as_os_str(),
                "--log".as_ref(),
                ACME.as_ref(),
                "--url".as_ref(),
                tree.join("acme").as_os_str(),
            ])?
            .tampered()?;
        Ok(vec![catch("verifier: checkpoint-signature", report.finds("checkpoint-signature", None)?)])
    }

    fn other_tenant(&self) -> Result<Vec<Catch>, Broken> {
        let server = self
            .stage
            .serve(Program::Journal, ["serve".as_ref(), "--dir".as_ref(), self.day.plane.as_os_str()])?;
        let (log, records) = (format!("{}/log/acme", server.url), format!("{}/audit/globex", server.url));
        let report = self
            .stage
            .report([
                "audit".as_ref(),
                "--policy".as_ref(),
                self.day.policy.as_os_str(),
                "--log".as_ref(),
                ACME.as_ref(),
                "--url".as_ref(),
                OsStr::new(&log),
                "--records".as_ref(),
                OsStr::new(&records),
            ])?
            .tampered()?;
        // globex has none of acme's runs, and could not lend them: a tenant is inside every hash.
        Ok(vec![catch(
            "verifier: run-deleted refund-4471",
            report.finds("run-deleted", Some("refund-4471"))?,
        )])
    }
}

/// An entry line with another index and nothing else changed.
fn renumbered(line: &str, index: u64) -> String {
    let marker = "\"index\":";
    let Some(at) = line.find(marker) else { return line.to_owned() };
    let digits = at + marker.len();
    let end = line[digits..].find(|c: char| !c.is_ascii_digit()).map_or(line.len(), |end| digits + end);
    format!("{}{index}{}", &line[..digits], &line[end..])
}
