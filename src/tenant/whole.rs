//! Runs that come in whole, in one transaction that takes the lease and returns it.

use std::time::Duration;

use runseal_evidence::name::{Outcome, RunId};
use runseal_evidence::record::RecordDraft;
use runseal_evidence::signature::RecordSignature;
use thiserror::Error;

use super::Tenant;
use crate::chain::{self, AppendError, Appended, RestoreError, SealError, Sealed, Verified, Writer};
use crate::store::{Overlay, StoreError};

/// A run that came in whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The run.
    pub run: RunId,
    /// How many records it has.
    pub records: u64,
    /// How it ended, where it was sealed.
    pub outcome: Option<Outcome>,
    /// The log index of its seal.
    pub index: Option<u64>,
}

/// Why a set of runs was not imported. None of them was.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// One of them is the reason.
    #[error("run {run}: {error}")]
    Run {
        /// Which.
        run: RunId,
        /// Why.
        #[source]
        error: Box<AppendError>,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A record as it was written elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredRecord {
    /// Its wire bytes, which are kept as they are.
    pub raw: Vec<u8>,
    /// Its signature, which is kept as it is: who wrote it does not change.
    pub signature: Option<RecordSignature>,
}

/// How long the lease lasts that a call takes and returns by itself.
const OWN_LEASE: Duration = Duration::from_mins(1);
/// Who holds it while a run is imported.
const IMPORTER: &str = "runseal import";

impl Tenant {
    /// Brings in a run that does not exist yet, in one transaction, its lease taken and returned inside.
    ///
    /// # Errors
    /// [`AppendError`]; [`AppendError::RunExists`] where it does.
    pub fn import(&self, run: &RunId, drafts: Vec<RecordDraft>, seal: bool) -> Result<Imported, AppendError> {
        let (run, rule) = (run.clone(), self.writer());
        self.run_rule(weight(&drafts), move |tx, plane| import(tx, rule.at(plane), &run, &drafts, seal))
    }

    /// Brings in many runs, all or none, in one transaction.
    ///
    /// # Errors
    /// [`ImportError`] names the run that is the reason.
    pub fn import_all(
        &self,
        runs: Vec<(RunId, Vec<RecordDraft>, bool)>,
    ) -> Result<Vec<Imported>, ImportError> {
        let rule = self.writer();
        let bytes = runs.iter().map(|(_, drafts, _)| weight(drafts)).sum();
        self.run_rule(bytes, move |tx, plane| {
            let one = |(run, drafts, seal): &(RunId, Vec<RecordDraft>, bool)| {
                import(tx, rule.at(plane), run, drafts, *seal).map_err(|error| of(run, error))
            };
            runs.iter().map(one).collect()
        })
    }

    /// Appends a batch, and seals the run where asked, in one transaction that takes the run's lease and
    /// returns it.
    ///
    /// # Errors
    /// [`AppendError`]; [`AppendError::Lease`] where somebody holds the run.
    pub fn append_once(
        &self,
        run: &RunId,
        owner: &str,
        drafts: Vec<RecordDraft>,
        seal: bool,
    ) -> Result<(Vec<Appended>, Option<Sealed>), AppendError> {
        let verified = if seal { Some(self.walk(run)?) } else { None };
        let (run, owner, rule) = (run.clone(), owner.to_owned(), self.writer());
        self.run_rule(weight(&drafts), move |tx, plane| {
            append_once(tx, rule.at(plane), &run, &owner, &drafts, verified.clone())
        })
    }

    /// Seals a run in one transaction that takes its lease and returns it. Sealing it again answers the same.
    ///
    /// # Errors
    /// [`SealError`]; [`SealError::Lease`] where somebody holds the run.
    pub fn seal_once(&self, run: &RunId, owner: &str) -> Result<Sealed, SealError> {
        let verified = self.walk(run)?;
        let (run, owner, rule) = (run.clone(), owner.to_owned(), self.writer());
        self.run_rule(0, move |tx, plane| {
            let writer = rule.at(plane);
            let known = chain::run_row(tx, writer.scope, &run)?;
            let known = known.ok_or_else(|| SealError::UnknownRun { run: run.clone() })?;
            if let Some(sealed) = chain::sealed(&run, &known) {
                return Ok(sealed);
            }
            let lease = chain::acquire(tx, writer.scope, &run, &owner, OWN_LEASE, writer.now_ms)?;
            chain::seal(tx, writer, &run, lease.epoch, verified.clone())
        })
    }

    /// Brings back a run that was written elsewhere, or here before: its records byte for byte, in one
    /// transaction, sealed where asked. The next lease has a higher epoch than any record. An admission key holds
    /// again, with the run that it admitted last of those that are there; what was forgotten is to be forgotten anew.
    ///
    /// # Errors
    /// [`RestoreError`]; then nothing was restored. Bytes that name another tenant, run or number are
    /// refused.
    pub fn restore(
        &self,
        run: &RunId,
        records: Vec<RestoredRecord>,
        seal: bool,
    ) -> Result<Imported, RestoreError> {
        let bytes = records.iter().map(|record| record.raw.len() + 256).sum();
        let (run, rule) = (run.clone(), self.writer());
        self.run_rule(bytes, move |tx, plane| {
            let writer = rule.at(plane);
            let written = records.iter().map(|record| (record.raw.as_slice(), record.signature));
            let verified = chain::restore(tx, writer, &run, written)?;
            let records = verified.records;
            let sealed = if seal {
                let lease = chain::acquire(tx, writer.scope, &run, IMPORTER, OWN_LEASE, writer.now_ms)?;
                Some(chain::seal(tx, writer, &run, lease.epoch, verified)?)
            } else {
                None
            };
            let (outcome, index) = sealed.map(|sealed| (sealed.outcome, sealed.index)).unzip();
            Ok(Imported { run: run.clone(), records, outcome, index })
        })
    }
}

fn of(run: &RunId, error: AppendError) -> ImportError {
    match error {
        AppendError::Store(error) => error.into(),
        error => ImportError::Run { run: run.clone(), error: Box::new(error) },
    }
}

fn import(
    tx: &mut Overlay<'_>,
    writer: Writer<'_>,
    run: &RunId,
    drafts: &[RecordDraft],
    seal: bool,
) -> Result<Imported, AppendError> {
    if chain::run_row(tx, writer.scope, run)?.is_some() {
        return Err(AppendError::RunExists { run: run.clone() });
    }
    let verified = seal.then(|| Verified::nothing(writer.tenant, run));
    let (appended, sealed) = append_once(tx, writer, run, IMPORTER, drafts, verified)?;
    let (outcome, index) = sealed.map(|sealed| (sealed.outcome, sealed.index)).unzip();
    Ok(Imported { run: run.clone(), records: appended.len() as u64, outcome, index })
}

fn append_once(
    tx: &mut Overlay<'_>,
    writer: Writer<'_>,
    run: &RunId,
    owner: &str,
    drafts: &[RecordDraft],
    seal: Option<Verified>,
) -> Result<(Vec<Appended>, Option<Sealed>), AppendError> {
    let lease = chain::acquire(tx, writer.scope, run, owner, OWN_LEASE, writer.now_ms)?;
    let before = chain::run_row(tx, writer.scope, run)?.map(|row| (row.records, row.chain));
    let appended = chain::append(tx, writer, run, lease.epoch, drafts)?;
    let sealed = match seal {
        None => None,
        Some(mut verified) => {
            // What was appended just now need not be read back to be known.
            if before.unwrap_or((0, verified.chain)) == (verified.records, verified.chain) {
                verified.follow(&appended, drafts);
            }
            Some(chain::seal(tx, writer, run, lease.epoch, verified)?)
        }
    };
    chain::release(tx, writer.scope, run, lease.epoch)?;
    Ok((appended, sealed))
}

/// About what a batch holds in memory while it waits.
pub(super) fn weight(drafts: &[RecordDraft]) -> usize {
    drafts.iter().map(|draft| draft.payload.as_str().len() + 256).sum()
}
