//! The audit of one log: fetch, authenticate, hold against what is remembered, look at every entry, and
//! where records can be had, at every run.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::name::Base;
use runseal_evidence::report::{Command, NotChecked, Report, Scope, TreeState};
use runseal_tlog::bundle::BUNDLE_BYTES_MAX;
use runseal_tlog::consistency;
use runseal_tlog::fraud::FraudProof;
use runseal_tlog::note::Note;
use runseal_tlog::tile::TileNodes;

use crate::blocking::blocking;
use crate::checkpoint::{self, Age, Signed};
use crate::clock::Clock;
use crate::diagnose::{self, Diagnosis};
use crate::directory;
use crate::entries::{Examined, Examiner};
use crate::error::Failure;
use crate::export;
use crate::finder::Finder;
use crate::history::{History, LogHistory, Remembered};
use crate::judge;
use crate::ledger::Ledger;
use crate::mark::MarkSorter;
use crate::progress::Progress;
use crate::recorder::Recorder;
use crate::records::RecordSource;
use crate::runs;
use crate::source::{BUNDLE_BYTES_USUAL, LogSource};
use crate::steps::{self, Against, Held};
use crate::tree::{FetchedTree, SignedTree, TreeError};
use crate::trust::Trust;
use crate::walk::RunWalk;

/// Leaf tiles in one unit of work.
const UNIT_TILES: u64 = 16;
/// Findings and gaps listed; beyond that they are counted.
const LISTED_MAX: usize = 1_000;

/// Where records come from.
#[derive(Debug)]
pub enum Records {
    /// A journal's audit routes.
    Http(RecordSource),
    /// An export file.
    Export(PathBuf),
}

/// What to audit, and by what.
#[derive(Debug)]
pub struct Audit {
    /// The trust configuration.
    pub trust: Trust,
    /// The log's origin.
    pub origin: String,
    /// The log.
    pub source: LogSource,
    /// What is remembered, if anything is to be.
    pub history: Option<Arc<History>>,
    /// The records, if they are in scope.
    pub records: Option<Records>,
    /// The base of the plane whose directory this is, if what it lists is in scope.
    pub directory: Option<Base>,
    /// What records are held against besides the log.
    pub against: Against,
    /// How old the newest cosignature may be.
    pub max_age: Option<Duration>,
    /// Fetches at a time.
    pub jobs: usize,
    /// Longest time for the whole.
    pub timeout: Duration,
}

/// What an audit came to.
#[derive(Debug)]
pub struct Audited {
    /// The report.
    pub report: Report,
    /// A fraud proof, where two signed checkpoints contradict each other. It was checked.
    pub fraud: Option<FraudProof>,
}

impl Audit {
    /// Runs the audit.
    ///
    /// # Errors
    /// [`Failure`] of the history or of this process. Whatever the log or the records source does is in
    /// the report.
    pub async fn run(&self, clock: &dyn Clock, progress: Progress) -> Result<Audited, Failure> {
        let scope = if self.records.is_some() { Scope::LogAndRecords } else { Scope::Log };
        let history = if let Some(history) = &self.history {
            Arc::clone(history)
        } else {
            let keeps_entries = self.records.is_some() || self.directory.is_some();
            Arc::new(blocking(move || History::scratch(keeps_entries)).await??)
        };
        let origin = self.origin.clone();
        let history = blocking(move || history.log(&origin)).await??;
        let mut run =
            Run { audit: self, history, report: Report::new(Command::Audit, scope), fraud: None, progress };
        let before = self.bytes_read();
        let in_time = tokio::time::timeout(self.timeout, run.all(clock)).await;
        if let Ok(done) = in_time {
            done?;
        } else {
            let why = format!("the audit did not end within {}", humantime::format_duration(self.timeout));
            run.report.failed("time", why.clone());
            run.unchecked_after("what was not reached in time", &why);
        }
        let Run { mut report, fraud, .. } = run;
        // What a local export file took is counted already.
        report.counts.bytes += self.bytes_read() - before;
        bound(&mut report);
        Ok(Audited { report, fraud })
    }
}

impl Audit {
    fn bytes_read(&self) -> u64 {
        let records = match &self.records {
            Some(Records::Http(source)) => source.bytes_read(),
            _ => 0,
        };
        self.source.bytes_read() + records
    }
}

/// Keeps a report readable whatever the log did.
fn bound(report: &mut Report) {
    let more = report.findings.len().saturating_sub(LISTED_MAX);
    report.findings.truncate(LISTED_MAX);
    if more > 0 {
        let why = format!("only the first {LISTED_MAX} are listed");
        report.not_checked.push(NotChecked::out_of_scope(format!("{more} more findings"), why));
    }
    let gaps = report.not_checked.len().saturating_sub(LISTED_MAX);
    if gaps > 0 {
        report.not_checked.truncate(LISTED_MAX);
        let why = format!("only the first {LISTED_MAX} are listed");
        report.not_checked.push(NotChecked::gap(format!("{gaps} more"), why));
    }
}

/// What the entries of one audit come to.
#[derive(Default)]
struct EntrySum {
    entries: u64,
    foreign: u64,
    faults: usize,
    /// Whether every tile so far is the signed tree's.
    gapless: bool,
}

struct Run<'a> {
    audit: &'a Audit,
    history: LogHistory,
    report: Report,
    fraud: Option<FraudProof>,
    progress: Progress,
}

impl Run<'_> {
    async fn all(&mut self, clock: &dyn Clock) -> Result<(), Failure> {
        let now = clock.now();
        let bytes = match self.audit.source.checkpoint().await {
            Ok(bytes) => bytes,
            Err(error) => {
                self.report.failed("checkpoint", error.to_string());
                self.report.not_checked.push(NotChecked::gap("the log", format!("no checkpoint: {error}")));
                return Ok(());
            }
        };
        let (trust, origin) = (&self.audit.trust, &self.audit.origin);
        let Some(signed) = checkpoint::examine(&mut self.report, trust, origin, &bytes) else {
            self.unchecked_after("the log", "nothing of it can be trusted without its signature");
            return Ok(());
        };
        let history = self.history.clone();
        let latest = blocking(move || history.latest()).await??;
        self.report.previous =
            latest.as_ref().map(|latest| TreeState { size: latest.size, root: latest.root.to_base64() });
        let size = signed.checkpoint.size();
        let grown = match &latest {
            Some(latest) if size <= latest.size => Some(latest.seen),
            _ => Some(now),
        };
        let limits = Age { now, max: self.audit.max_age };
        checkpoint::age(&mut self.report, &signed, limits, grown.filter(|_| latest.is_some()));
        let holds = match &latest {
            None => {
                let detail = if self.audit.history.is_some() {
                    "first observation: history not checked"
                } else {
                    "no --history was given: history not checked"
                };
                self.report.skipped("history", detail);
                true
            }
            Some(latest) => self.against(latest, &signed).await?,
        };
        if !holds {
            self.unchecked_after("entries and records", "the log contradicts what is remembered of it");
            return Ok(());
        }
        if !self.log(&signed, latest.as_ref(), now).await? {
            return Ok(());
        }
        match &self.audit.directory {
            Some(base) => self.directory(base, size, now).await,
            None => self.records().await,
        }
    }

    /// Holds what a directory lists against the policy and what is remembered.
    async fn directory(&mut self, base: &Base, size: u64, now: u64) -> Result<(), Failure> {
        let finder = Finder::new(&self.history, &self.audit.source, size);
        let (listed, gaps) = directory::listed(&finder, size).await?;
        let (history, of) = (Arc::clone(&self.history.history), base.clone());
        let known = blocking(move || directory::known(&history, &of)).await??;
        let judged = directory::judge(base, &listed, &self.audit.trust, &known, now);
        let summary = judged.summary();
        if judged.findings.is_empty() && gaps.is_empty() {
            self.report.passed("directory", summary);
        } else {
            self.report.failed("directory", summary);
        }
        self.report.findings.extend(judged.findings);
        self.report.not_checked.extend(gaps);
        self.report.not_checked.extend(judged.not_checked);
        Ok(())
    }

    /// Names the tenants that a contradicted directory listed and no longer does. Without another tree it only
    /// went back to `size`.
    async fn vanished(&mut self, size: u64, tree: Option<SignedTree>) -> Result<(), Failure> {
        if self.audit.directory.is_none() {
            return Ok(());
        }
        let history = self.history.clone();
        let before = blocking(move || directory::remembered(&history)).await??;
        let Audit { source, origin, .. } = self.audit;
        let (after, whole) = match tree {
            Some(tree) => directory::of_tree(&self.history, source, tree, origin).await?,
            None => (before.iter().filter(|listed| listed.index < size).cloned().collect(), true),
        };
        if whole {
            self.report.findings.extend(directory::vanished(&before, &after));
        } else {
            self.unchecked_after("tenants that vanished", "the entries of the new tree cannot be had");
        }
        Ok(())
    }

    fn unchecked_after(&mut self, what: &str, why: &str) {
        self.report.not_checked.push(NotChecked::gap(what, why));
    }

    /// Holds a checkpoint that is not larger against the latest remembered one.
    async fn against(&mut self, latest: &Remembered, signed: &Signed) -> Result<bool, Failure> {
        let (size, root) = (signed.checkpoint.size(), signed.checkpoint.root());
        if size > latest.size {
            return Ok(true);
        }
        if size == latest.size {
            if *root == latest.root {
                self.report.passed("history", format!("unchanged at size {size}"));
                return Ok(true);
            }
            let detail = format!("two roots were signed for size {size}: {} and {root}", latest.root);
            self.contradiction(FindingKind::Fork, detail);
            self.prove(&latest.note, &signed.note, Vec::new());
            self.diagnose(signed).await?;
            return Ok(false);
        }
        let history = self.history.clone();
        let (ours, at_size) = blocking(move || {
            Ok::<_, Failure>((history.root_at(size)?, history.at_size(size)?.map(|at| at.root)))
        })
        .await??;
        match ours.or(at_size) {
            Some(ours) if ours != *root => {
                let detail = format!(
                    "the log, once at size {}, shows size {size} with root {root}; its first {size} entries gave {ours}",
                    latest.size
                );
                self.contradiction(FindingKind::Fork, detail);
                let (kept, size_now) = (self.history.clone(), latest.size);
                let hashes =
                    blocking(move || FraudProof::hashes(size, size_now, &TileNodes::new(&kept, size_now)));
                if let Ok(hashes) = hashes.await? {
                    self.prove(&signed.note, &latest.note, hashes);
                }
                self.diagnose(signed).await?;
            }
            ours => {
                let sure = if ours.is_some() {
                    ""
                } else {
                    "; too few of its leaves are kept to tell whether they are the same"
                };
                let detail = format!("the log went back from size {} to size {size}{sure}", latest.size);
                self.contradiction(FindingKind::Rollback, detail);
                let (history, policy) = (self.history.clone(), self.audit.trust.policy.clone());
                let diagnosis = blocking(move || diagnose::rolled_back(&history, &policy, size)).await??;
                self.diagnosed(diagnosis);
                self.vanished(size, None).await?;
            }
        }
        Ok(false)
    }

    fn contradiction(&mut self, kind: FindingKind, detail: String) {
        self.report.failed("history", detail.clone());
        self.report.findings.push(Finding::new(kind, detail));
    }

    /// Makes a fraud proof and believes it only once it stands by itself.
    fn prove(&mut self, older: &Note, newer: &Note, hashes: Vec<runseal_tlog::hash::NodeHash>) {
        let proof = FraudProof { hashes, older: older.clone(), newer: newer.clone() };
        let keys: Vec<_> = self.audit.trust.policy.log_keys(&self.audit.origin).collect();
        match proof.verify(keys) {
            Ok(_) => {
                self.report.passed("fraud-proof", "the two signed checkpoints prove it to anybody");
                self.fraud = Some(proof);
            }
            Err(error) => self.report.skipped("fraud-proof", format!("none follows: {error}")),
        }
    }

    fn diagnosed(&mut self, diagnosis: Diagnosis) {
        self.report.findings.extend(diagnosis.findings);
        self.report.not_checked.extend(diagnosis.gaps);
    }

    /// Names what a fork did to which runs, if the new tree can be had.
    async fn diagnose(&mut self, signed: &Signed) -> Result<(), Failure> {
        let (size, root) = (signed.checkpoint.size(), signed.checkpoint.root());
        let tree = match FetchedTree::fetch(&self.audit.source, 0, size, self.audit.jobs).await {
            Ok(tree) => tree.authenticate(root).map_err(TreeError::from),
            Err(error) => Err(error),
        };
        match tree {
            Ok(tree) => self.diagnose_tree(tree).await,
            Err(error) => {
                self.unchecked_after("what the fork did to which runs", &error.to_string());
                Ok(())
            }
        }
    }

    async fn diagnose_tree(&mut self, tree: SignedTree) -> Result<(), Failure> {
        self.vanished(tree.size(), Some(tree.clone())).await?;
        let Audit { trust, source, origin, .. } = self.audit;
        let diagnosis = diagnose::rewritten(&self.history, &trust.policy, source, tree, origin).await?;
        self.diagnosed(diagnosis);
        if let Some(fraud) = self.fraud.as_ref().map(ToString::to_string) {
            let history = self.history.clone();
            blocking(move || history.keep_fraud(&fraud)).await??;
        }
        Ok(())
    }

    /// Authenticates the tree, its tiles and its entries. Whether the records can be looked at after it.
    async fn log(&mut self, signed: &Signed, latest: Option<&Remembered>, now: u64) -> Result<bool, Failure> {
        let (size, root) = (signed.checkpoint.size(), *signed.checkpoint.root());
        let history = self.history.clone();
        let known = blocking(move || history.progress()).await??.entries.min(size);
        let fetched = FetchedTree::fetch(&self.audit.source, known, size, self.audit.jobs).await;
        let tree = match fetched {
            Ok(fetched) => blocking(move || fetched.authenticate(&root)).await?.map_err(TreeError::from),
            Err(error) => Err(error),
        };
        let tree = match tree {
            Ok(tree) => tree,
            Err(TreeError::Mismatch(mismatch)) => {
                self.report.failed("root", mismatch.to_string());
                self.report.findings.push(Finding::new(FindingKind::TileMismatch, mismatch.to_string()));
                self.unchecked_after("entries and records", "the tiles are not those of the signed root");
                return Ok(false);
            }
            Err(error) => {
                self.report.failed("root", error.to_string());
                self.unchecked_after("entries and records", &error.to_string());
                return Ok(false);
            }
        };
        self.report.passed("root", format!("the tiles rebuild the signed root of size {size}"));
        if let Some(latest) = latest.filter(|latest| latest.size < size)
            && !self.extends(latest, signed, &tree).await?
        {
            return Ok(false);
        }
        let (history, remembered) =
            (self.history.clone(), Remembered { size, root, note: signed.note.clone(), seen: now });
        let examiner = blocking({
            let origin = self.audit.origin.clone();
            move || {
                history.remember(&remembered, tree.tiles())?;
                Ok::<_, Failure>(Arc::new(Examiner::new(tree, known, &origin, &history)))
            }
        })
        .await??;
        let unstored = self.entries(&examiner).await?;
        self.contradictions(size, examiner, unstored).await?;
        Ok(true)
    }

    /// Proves that the new tree extends the latest remembered one, and with it all before that.
    async fn extends(
        &mut self,
        latest: &Remembered,
        signed: &Signed,
        tree: &SignedTree,
    ) -> Result<bool, Failure> {
        let (size, root) = (signed.checkpoint.size(), signed.checkpoint.root());
        let proof = consistency::prove(latest.size, size, &TileNodes::new(tree, size));
        let verified = match &proof {
            Ok(proof) => consistency::verify(latest.size, &latest.root, size, root, proof)
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match verified {
            Ok(()) => {
                let detail = format!("extends the remembered checkpoint of size {}", latest.size);
                self.report.passed("history", detail);
                Ok(true)
            }
            Err(error) => {
                let detail = format!(
                    "the log signed size {} and now size {size}, which does not extend it: {error}",
                    latest.size
                );
                self.contradiction(FindingKind::Fork, detail);
                if let Ok(hashes) = FraudProof::hashes(latest.size, size, &TileNodes::new(tree, size)) {
                    self.prove(&latest.note, &signed.note, hashes);
                }
                self.diagnose(signed).await?;
                self.unchecked_after("entries and records", "the log contradicts what is remembered of it");
                Ok(false)
            }
        }
    }

    /// Fetches, authenticates and keeps the entries from the known ones on. What [`Recorder::finish`] gives back.
    async fn entries(&mut self, examiner: &Arc<Examiner>) -> Result<MarkSorter, Failure> {
        let tiles = examiner.leaf_tiles();
        let bar = self.progress.bar("entries", (tiles.end - tiles.start) * 256);
        let units = (tiles.start..tiles.end).step_by(usize::try_from(UNIT_TILES).expect("a small number"));
        let source = &self.audit.source;
        let mut batches = stream::iter(units)
            .map(|first| {
                let unit = first..tiles.end.min(first + UNIT_TILES);
                let examined = Arc::clone(examiner).examine(source, unit.clone(), BUNDLE_BYTES_USUAL);
                async move { (unit, examined.await) }
            })
            .buffered(self.audit.jobs);
        let recorder = Recorder::start(self.history.clone(), examiner.tree().size());
        let mut sum = EntrySum { gapless: true, ..EntrySum::default() };
        while let Some((unit, batch)) = batches.next().await {
            let batch = batch?;
            if batch.oversized {
                for tile in unit {
                    let one = Arc::clone(examiner).examine(source, tile..tile + 1, BUNDLE_BYTES_MAX).await?;
                    bar.advance(256);
                    self.take(one, &mut sum, &recorder).await;
                }
            } else {
                bar.advance(batch.tiles.len() as u64 * 256);
                self.take(batch, &mut sum, &recorder).await;
            }
            if sum.faults + self.report.not_checked.len() > LISTED_MAX {
                self.unchecked_after("the entries further on", "too much is wrong to go on");
                sum.gapless = false;
                break;
            }
        }
        drop(batches);
        let unstored = recorder.finish().await??;
        self.report.counts.entries = sum.entries;
        if sum.faults == 0 && sum.gapless {
            let EntrySum { entries, foreign, .. } = sum;
            let others =
                if foreign > 0 { format!(", {foreign} of them of other programs") } else { String::new() };
            let detail = format!("{entries} new entries hash to their leaves{others}");
            self.report.passed("entries", detail);
        } else {
            let detail = format!("{} entries or tiles are not what they should be", sum.faults);
            self.report.failed("entries", detail);
        }
        Ok(unstored)
    }

    /// Takes in the next tiles, in order.
    async fn take(&mut self, mut batch: Examined, sum: &mut EntrySum, recorder: &Recorder) {
        sum.entries += batch.entries;
        sum.foreign += batch.foreign;
        sum.faults += batch.findings.len();
        self.report.findings.append(&mut batch.findings);
        self.report.not_checked.append(&mut batch.gaps);
        if !sum.gapless {
            return;
        }
        // Nothing is kept behind a gap, so that no later audit takes it for checked.
        if let Some(broken) = batch.broken_at {
            sum.gapless = false;
            batch.tiles.retain(|tile| tile.index < broken);
            batch.marks.retain(|mark| mark.index() / 256 < broken);
        }
        recorder.push(batch).await;
    }

    /// Holds the entries of each run against each other.
    async fn contradictions(
        &mut self,
        size: u64,
        examiner: Arc<Examiner>,
        unstored: MarkSorter,
    ) -> Result<(), Failure> {
        let history = self.history.clone();
        let suspects = blocking(move || judge::suspects(&history, unstored)).await??;
        let finder = Finder::new(&self.history, &self.audit.source, size).with(examiner);
        let mut found = Vec::new();
        for suspect in &suspects {
            let mut names = std::collections::HashMap::new();
            for index in suspect.indexes() {
                if let Some(entry) = finder.entry(index).await? {
                    names.insert(index, judge::name_of(&entry));
                }
            }
            found.extend(suspect.findings(|index| names.get(&index).cloned().flatten()));
        }
        let history = self.history.clone();
        let all = blocking(move || {
            Ledger::new(&history).judged(&found)?;
            history.findings()
        })
        .await??;
        if all.is_empty() {
            self.report.passed(
                "seals-and-heads",
                "each run has at most one seal, no head after it, and heads that grow",
            );
        } else {
            self.report
                .failed("seals-and-heads", format!("{} entries contradict others of their run", all.len()));
            self.report.findings.extend(all);
        }
        Ok(())
    }

    async fn records(&mut self) -> Result<(), Failure> {
        match &self.audit.records {
            None => {
                self.report
                    .skipped("records", "no --records was given: what the records say was not checked");
                Ok(())
            }
            Some(Records::Http(source)) => self.records_http(source).await,
            Some(Records::Export(path)) => {
                let (path, history, trust) = (path.clone(), self.history.clone(), self.audit.trust.clone());
                let (origin, against) = (self.audit.origin.clone(), self.audit.against.clone());
                let (mut report, progress) = (self.report.clone(), self.progress);
                self.report = blocking(move || {
                    export::check_records(&path, &mut report, &history, &trust, &origin, &against, progress)
                        .map(|()| report)
                })
                .await??;
                Ok(())
            }
        }
    }

    async fn records_http(&mut self, source: &RecordSource) -> Result<(), Failure> {
        let mut walk = RunWalk::start(&self.history);
        let bar = self.progress.bar("runs", walk.entries());
        let against = &self.audit.against;
        let mut steps = Held::default();
        let (mut runs, mut records, mut unpinned, mut signed) = (0u64, 0u64, 0u64, 0u64);
        let before = (self.report.findings.len(), self.report.not_checked.len());
        let finder = Finder::new(&self.history, &self.audit.source, walk.entries());
        let mut named: HashSet<String> = HashSet::new();
        loop {
            let batch = walk.next_runs(&finder).await?;
            bar.position(batch.position);
            self.report.not_checked.extend(batch.gaps);
            if batch.runs.is_empty() && batch.at_end {
                break;
            }
            let mut checks = stream::iter(batch.runs)
                .map(|pinned| {
                    let run = pinned.run.clone();
                    async move { (run, source.check(pinned, against).await) }
                })
                .buffered(self.audit.jobs);
            while let Some((run, result)) = checks.next().await {
                runs += 1;
                match result {
                    Ok(result) => {
                        records += result.records;
                        unpinned += u64::from(result.unpinned > 0);
                        signed += result.signed;
                        steps.add(result.steps);
                        self.report.findings.extend(result.findings);
                        self.report.not_checked.extend(result.gaps);
                    }
                    Err(error) => {
                        if named.insert(run.to_string()) && self.report.not_checked.len() <= LISTED_MAX {
                            let what = format!("records of run {run}");
                            self.report.not_checked.push(NotChecked::gap(what, error.to_string()));
                        }
                    }
                }
            }
        }
        self.report.counts.runs = runs;
        self.report.counts.records = records;
        let after = (self.report.findings.len(), self.report.not_checked.len());
        runs::close(&mut self.report, after == before, unpinned, signed);
        steps::close(&mut self.report, against.steps.as_deref(), steps);
        Ok(())
    }
}
