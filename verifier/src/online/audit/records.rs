//! What lies behind the entries: the records of runs, or the tenants of a directory.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use runseal_evidence::name::Base;
use runseal_evidence::report::NotChecked;

use super::{Audit, LISTED_MAX, Records, Run};
use crate::error::Failure;
use crate::export;
use crate::online::blocking::blocking;
use crate::online::directory;
use crate::online::finder::Finder;
use crate::online::records::RecordSource;
use crate::online::tree::SignedTree;
use crate::online::walk::RunWalk;
use crate::runs::{self, RunsStanding};
use crate::steps::{self, Held};

impl Run<'_> {
    pub(super) async fn records(&mut self) -> Result<(), Failure> {
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
        let (findings, gaps) = (self.report.findings.len(), self.report.not_checked.len());
        let standing = RunsStanding::of(findings > before.0, gaps > before.1);
        runs::close(&mut self.report, standing, unpinned, signed);
        steps::close(&mut self.report, against.steps.as_deref(), steps);
        Ok(())
    }

    /// Holds what a directory lists against the policy and what is remembered.
    pub(super) async fn directory(&mut self, base: &Base, size: u64, now: u64) -> Result<(), Failure> {
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
    pub(super) async fn vanished(&mut self, size: u64, tree: Option<SignedTree>) -> Result<(), Failure> {
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
}
