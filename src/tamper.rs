//! Deliberate damage to a plane at rest: what somebody who owns the disk can do.
//!
//! For tests and demonstrations only. Everything here writes rows past the rules of the journal, with the
//! plane's own keys at hand, and leaves the database as consistent as a careful attacker would: indexes,
//! tiles and counters agree again. Nothing is signed or published here.

use std::{fs, io, path::Path};

use runseal_evidence::{
    chain::ChainHash,
    entry::{Entry, EntryError},
    json::Json,
    name::{RunId, TenantId},
    payload::Meaning,
    record::{Record, RecordError},
    signature::RecordSigner,
};
use thiserror::Error;

use crate::{
    Journal, OpenError,
    chain::{AppendError, Conclusion, RecordRow, RunRow, lease_row, read_row, records, run_row},
    index, log,
    store::{
        Corruption, Direction, EngineError, Overlay, Read as _, Scanned, Scope, Space, StoreError, Table,
    },
};

/// What is done to a tenant's rows.
#[derive(Clone, PartialEq, Eq, Debug, clap::Subcommand)]
pub enum Action {
    /// Change a record's payload and keep every hash.
    Edit {
        /// The run.
        run: RunId,
        /// The record, from 1.
        seq: u64,
    },
    /// Change a record's payload and hash it and all after it anew.
    Rehash {
        /// The run.
        run: RunId,
        /// The record, from 1.
        seq: u64,
    },
    /// Remove a run, its seal and every index row; its entries stay in the log.
    Delete {
        /// The run.
        run: RunId,
    },
    /// Remove the records of an open run after the first KEEP.
    Truncate {
        /// The run.
        run: RunId,
        /// Records kept, from 1.
        keep: u64,
    },
    /// Remove a run and its entries, and build the tree anew without them.
    Rebuild {
        /// The run.
        run: RunId,
    },
    /// Exchange two entries, and build the tree anew.
    Swap {
        /// One entry, from 0.
        #[arg(value_name = "I")]
        left: u64,
        /// The other, from 0.
        #[arg(value_name = "J")]
        right: u64,
    },
    /// Remove a tile of hashes.
    DropTile {
        /// Its level.
        level: u8,
        /// Its index.
        index: u64,
    },
    /// Remove the memory of what was signed and shown, in the database and beside it.
    Forget,
}

/// Why nothing was done.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TamperError {
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The database failed, or a row is damaged already.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The record cannot be read.
    #[error("record {seq} of run {run}: {error}")]
    Record {
        /// The run.
        run: RunId,
        /// The record.
        seq: u64,
        /// Why.
        error: RecordError,
    },
    /// An entry cannot be read.
    #[error("entry {index}: {error}")]
    Entry {
        /// Its index.
        index: u64,
        /// Why.
        error: EntryError,
    },
    /// What an index row says cannot be written again.
    #[error(transparent)]
    Index(#[from] AppendError),
    /// No such tenant.
    #[error("there is no tenant {0}")]
    UnknownTenant(TenantId),
    /// No such run.
    #[error("there is no run {0}")]
    UnknownRun(RunId),
    /// No such record.
    #[error("run {run} has {records} records; there is no record {seq}")]
    NoRecord {
        /// The run.
        run: RunId,
        /// Its records.
        records: u64,
        /// The one asked for.
        seq: u64,
    },
    /// Only the tail of an open run can go without its seal.
    #[error("run {0} is sealed; only an open run can be cut")]
    Sealed(RunId),
    /// No such entry.
    #[error("the log has {size} entries; there is no entry {index}")]
    NoEntry {
        /// Its entries.
        size: u64,
        /// The one asked for.
        index: u64,
    },
    /// No such tile.
    #[error("there is no tile {level}/{index}")]
    NoTile {
        /// Its level.
        level: u8,
        /// Its index.
        index: u64,
    },
    /// The file that remembers what was signed cannot be removed.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl From<EngineError> for TamperError {
    fn from(error: EngineError) -> Self {
        Self::Store(error.into())
    }
}

impl From<Corruption> for TamperError {
    fn from(corruption: Corruption) -> Self {
        Self::Store(corruption.into())
    }
}

/// Does `action` to the rows of `tenant` in the plane at `dir`, which no process may have open.
///
/// # Errors
/// [`TamperError`]; then nothing was done.
pub fn tamper(dir: &Path, tenant: &TenantId, action: &Action) -> Result<(), TamperError> {
    let journal = Journal::open(dir)?;
    let scope = Scope::Tenant(tenant.clone());
    if !journal.tenants()?.contains(tenant) {
        return Err(TamperError::UnknownTenant(tenant.clone()));
    }
    let signed = journal.shared().plane.files.as_ref().map(|files| files.signed(&scope).path);
    let (of, tenant, todo) = (scope.clone(), tenant.clone(), action.clone());
    journal.shared().run(&scope, 0, move |tx, plane| {
        Disk { tx, scope: &of, tenant: &tenant, signer: plane.record_signer.as_ref() }.act(&todo)
    })?;
    match signed.filter(|_| *action == Action::Forget) {
        Some(path) => match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(TamperError::File { path, error }),
            _ => Ok(()),
        },
        None => Ok(()),
    }
}

/// A tenant's rows, and writes over them.
struct Disk<'a, 'below> {
    tx: &'a mut Overlay<'below>,
    scope: &'a Scope,
    tenant: &'a TenantId,
    /// Who owns the disk has the record key too, where the plane signs records.
    signer: Option<&'a RecordSigner>,
}

impl Disk<'_, '_> {
    fn act(&mut self, action: &Action) -> Result<(), TamperError> {
        match action {
            Action::Edit { run, seq } => self.edit(run, *seq).map(drop),
            Action::Rehash { run, seq } => self.rehash(run, *seq),
            Action::Delete { run } => self.delete(run),
            Action::Truncate { run, keep } => self.truncate(run, *keep),
            Action::Rebuild { run } => self.rebuild(run),
            Action::Swap { left, right } => self.swap(*left, *right),
            Action::DropTile { level, index } => self.drop_tile(*level, *index),
            Action::Forget => {
                self.forget();
                Ok(())
            }
        }
    }

    fn run(&self, run: &RunId) -> Result<RunRow, TamperError> {
        run_row(self.tx, self.scope, run)?.ok_or_else(|| TamperError::UnknownRun(run.clone()))
    }

    fn record_key(&self, run: &RunId, seq: u64) -> Vec<u8> {
        records(self.scope).key(&[run.as_str().as_bytes(), &[0], &seq.to_be_bytes()])
    }

    fn space(&self, table: Table) -> Space {
        Space::of(self.scope, table)
    }

    /// Changes the payload of one record, hashes left alone.
    fn edit(&mut self, run: &RunId, seq: u64) -> Result<RecordRow, TamperError> {
        let known = self.run(run)?;
        if seq == 0 || seq > known.records {
            return Err(TamperError::NoRecord { run: run.clone(), records: known.records, seq });
        }
        let mut row = read_row(self.tx, self.scope, run, seq)?;
        row.raw = edited(&row.raw).map_err(|error| TamperError::Record { run: run.clone(), seq, error })?;
        self.tx.put(self.record_key(run, seq), row.encode());
        Ok(row)
    }

    fn rehash(&mut self, run: &RunId, seq: u64) -> Result<(), TamperError> {
        let mut known = self.run(run)?;
        let mut prev = self.edit(run, seq)?.prev;
        for seq in seq..=known.records {
            let mut row = read_row(self.tx, self.scope, run, seq)?;
            let hash = prev.link(&row.raw);
            let signature = match (self.signer, row.signature) {
                (Some(signer), Some(_)) => Some(signer.sign(&hash)),
                (_, signature) => signature,
            };
            row = RecordRow { prev, hash, signature, ..row };
            self.tx.put(self.record_key(run, seq), row.encode());
            prev = hash;
        }
        known.chain = prev;
        index::put_run(self.tx, self.scope, run, &known);
        Ok(())
    }

    fn delete(&mut self, run: &RunId) -> Result<(), TamperError> {
        let known = self.run(run)?;
        self.erase(run, &known)
    }

    fn truncate(&mut self, run: &RunId, keep: u64) -> Result<(), TamperError> {
        let known = self.run(run)?;
        if known.seal.is_some() {
            return Err(TamperError::Sealed(run.clone()));
        }
        if keep == 0 || keep > known.records {
            return Err(TamperError::NoRecord { run: run.clone(), records: known.records, seq: keep });
        }
        let lease = lease_row(self.tx, self.scope, run)?;
        let rows =
            (1..=keep).map(|seq| read_row(self.tx, self.scope, run, seq)).collect::<Result<Vec<_>, _>>()?;
        self.erase(run, &known)?;
        self.replay(run, &rows, known.pinned)?;
        // The lease keeps its epoch, or the next writer would reuse one.
        if let Some(lease) = lease.filter(|lease| !lease.is_owned()) {
            self.tx.put(self.space(Table::Leases).key(&[run.as_str().as_bytes()]), lease.encode());
        }
        Ok(())
    }

    /// Removes every row of a run but its log entries.
    fn erase(&mut self, run: &RunId, known: &RunRow) -> Result<(), TamperError> {
        let name = run.as_str().as_bytes();
        for table in [Table::Runs, Table::Leases, Table::Cancellations, Table::Unpinned] {
            self.tx.delete(self.space(table).key(&[name]));
        }
        for table in [Table::Records, Table::Effects] {
            self.delete_where(table, |own, _| {
                own.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&0))
            })?;
        }
        // After a time of eight bytes the rest of these keys is the run.
        for table in [Table::Expiries, Table::Activity] {
            self.delete_where(table, |own, _| own.get(8..) == Some(name))?;
        }
        self.delete_where(Table::Waiting, |own, _| own.get(9..) == Some(name) || own.get(1..) == Some(name))?;
        if let Some(source) = &known.source {
            self.tx.delete(index::activity::key(self.scope, Some(source), known.updated_ms, run));
        }
        let of_run = [&[0], name, &[0]].concat();
        self.delete_where(Table::Cases, |own, _| {
            own.len().checked_sub(8).is_some_and(|end| own[..end].ends_with(&of_run))
        })?;
        self.forget_admission(run)?;
        if let Some(conclusion) = &known.conclusion {
            self.retract(conclusion)?;
        }
        Ok(())
    }

    /// Takes a run out of the index of outcomes.
    fn retract(&mut self, conclusion: &Conclusion) -> Result<(), TamperError> {
        self.tx.delete(index::outcome::key(self.scope, conclusion));
        let count = self.space(Table::OutcomeCounts).key(&[conclusion.outcome.as_str().as_bytes()]);
        let left = index::outcome::counted(self.tx, self.scope, &conclusion.outcome)?.saturating_sub(1);
        match left {
            0 => self.tx.delete(count),
            _ => self.tx.put(count, left.to_be_bytes().to_vec()),
        }
        Ok(())
    }

    fn forget_admission(&mut self, run: &RunId) -> Result<(), TamperError> {
        let scope = self.scope;
        let mut keys = Vec::new();
        let claims = self.space(Table::Admissions);
        self.tx.scan(&claims.all(), Direction::Ascending, &mut |key, value| {
            if index::admission::decode(scope, value).is_ok_and(|admission| admission.run == *run) {
                keys.push(claims.own(key).to_vec());
            }
            Scanned::Continue(())
        })?;
        for key in keys {
            self.tx.delete(claims.key(&[&key]));
            self.delete_where(Table::AdmissionsByAge, |own, _| own.get(8..) == Some(&key))?;
        }
        Ok(())
    }

    fn delete_where(&mut self, table: Table, of: impl Fn(&[u8], &[u8]) -> bool) -> Result<(), TamperError> {
        let space = self.space(table);
        let mut found = Vec::new();
        self.tx.scan(&space.all(), Direction::Ascending, &mut |key, value| {
            if of(space.own(key), value) {
                found.push(key.to_vec());
            }
            Scanned::Continue(())
        })?;
        for key in found {
            self.tx.delete(key);
        }
        Ok(())
    }

    /// Writes records and the index rows that follow from them, as if there had never been more.
    fn replay(&mut self, run: &RunId, rows: &[RecordRow], pinned: u64) -> Result<(), TamperError> {
        let mut after = RunRow::new(ChainHash::genesis(self.tenant, run));
        let mut change = index::Change::default();
        for (seq, row) in (1u64..).zip(rows) {
            let record = Record::parse(&row.raw).map_err(|error| TamperError::Record {
                run: run.clone(),
                seq,
                error,
            })?;
            let draft = &record.draft;
            let now_ms = record.stamp.at.posix_ms();
            after.updated_ms = now_ms;
            let meaning = Meaning::of(&draft.kind, &draft.payload).unwrap_or(Meaning::Opaque);
            match (&meaning, &draft.effect) {
                (Meaning::EffectStarted, Some(effect)) => {
                    let key = [run.as_str().as_bytes(), &[0], effect.as_str().as_bytes()];
                    self.tx.put(self.space(Table::Effects).key(&key), seq.to_be_bytes().to_vec());
                }
                (Meaning::RunAdmitted(admitted), _) => {
                    index::admit(
                        self.tx,
                        self.scope,
                        run,
                        &mut after,
                        admitted,
                        now_ms,
                        index::Admitting::Now,
                    )?;
                }
                _ => {}
            }
            if let Some(case) = &draft.case {
                index::add_to_case(self.tx, self.scope, case, run, seq);
            }
            self.tx.put(self.record_key(run, seq), row.encode());
            (after.records, after.chain, after.epoch) = (seq, row.hash, record.stamp.epoch);
            change.see(meaning);
        }
        after.pinned = pinned.min(after.records);
        index::follow(self.tx, self.scope, run, None, &mut after, change)?;
        if !after.is_unpinned() {
            index::unpin(self.tx, self.scope, run);
        }
        Ok(())
    }

    fn rebuild(&mut self, run: &RunId) -> Result<(), TamperError> {
        self.delete(run)?;
        let mut kept = Vec::new();
        for (index, bytes) in (0..).zip(self.entries()?) {
            if run_of(index, &bytes)? != Some(run.clone()) {
                kept.push(bytes);
            }
        }
        self.write_tree(&kept)
    }

    fn swap(&mut self, left: u64, right: u64) -> Result<(), TamperError> {
        let mut entries = self.entries()?;
        let size = entries.len() as u64;
        let place = |index: u64| {
            usize::try_from(index).ok().filter(|_| index < size).ok_or(TamperError::NoEntry { size, index })
        };
        let (left, right) = (place(left)?, place(right)?);
        entries.swap(left, right);
        self.write_tree(&entries)
    }

    fn entries(&self) -> Result<Vec<Vec<u8>>, TamperError> {
        let size = log::size(self.tx, self.scope)?;
        Ok(log::entry_range(self.tx, self.scope, 0, size)?)
    }

    /// Makes `entries` the whole log: tiles, size, and the index of each seal.
    fn write_tree(&mut self, entries: &[Vec<u8>]) -> Result<(), TamperError> {
        for table in [Table::Entries, Table::Tiles, Table::Heads] {
            self.delete_where(table, |_, _| true)?;
        }
        self.tx.delete(self.space(Table::Log).key(&[b"size"]));
        for bytes in entries {
            let index = log::append_entry(self.tx, self.scope, bytes)?;
            match Entry::parse(bytes).map_err(|error| TamperError::Entry { index, error })? {
                Entry::Seal(seal) => {
                    // A run deleted before has no row to point to its seal.
                    if let Some(known) = run_row(self.tx, self.scope, &seal.run)? {
                        index::put_run(
                            self.tx,
                            self.scope,
                            &seal.run,
                            &RunRow { seal: Some(index), ..known },
                        );
                    }
                }
                Entry::Head(head) => {
                    let key = [head.run.as_str().as_bytes(), &[0], &index.to_be_bytes()];
                    self.tx.put(self.space(Table::Heads).key(&key), Vec::new());
                }
                Entry::Tenant(_) => {}
            }
        }
        Ok(())
    }

    fn drop_tile(&mut self, level: u8, index: u64) -> Result<(), TamperError> {
        let key = self.space(Table::Tiles).key(&[&[level], &index.to_be_bytes()]);
        if self.tx.get(&key)?.is_none() {
            return Err(TamperError::NoTile { level, index });
        }
        self.tx.delete(key);
        Ok(())
    }

    fn forget(&mut self) {
        for name in [&b"signed"[..], b"published"] {
            self.tx.delete(self.space(Table::Log).key(&[name]));
        }
    }
}

/// The run that an entry is of.
fn run_of(index: u64, bytes: &[u8]) -> Result<Option<RunId>, TamperError> {
    Ok(match Entry::parse(bytes).map_err(|error| TamperError::Entry { index, error })? {
        Entry::Seal(seal) => Some(seal.run),
        Entry::Head(head) => Some(head.run),
        Entry::Tenant(_) => None,
    })
}

/// The wire bytes of the same record with another payload: one character of it is changed, or, where no
/// single change makes another payload, it is replaced.
fn edited(raw: &[u8]) -> Result<Vec<u8>, RecordError> {
    let mut record = Record::parse(raw)?;
    let payload = record.draft.payload.as_str().to_owned();
    let changed = (0..payload.len()).rev().find_map(|at| {
        let other = match payload.as_bytes()[at] {
            b'z' => b'y',
            b'9' => b'8',
            byte if byte.is_ascii_alphanumeric() => byte + 1,
            _ => return None,
        };
        let mut bytes = payload.as_bytes().to_vec();
        bytes[at] = other;
        Json::parse(&bytes).ok().filter(|json| json.as_str() != payload)
    });
    let replacement = || Json::string("edited");
    record.draft.payload = changed.unwrap_or_else(replacement);
    record.to_wire()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(payload: &str) -> Vec<u8> {
        format!(
            r#"{{"at":"2026-03-11T09:14:02.118Z","epoch":1,"kind":"Message","payload":{payload},"run":"r","seq":1,"tenant":"acme","v":1}}"#
        )
        .into_bytes()
    }

    #[test]
    fn an_edited_record_is_another_record_of_the_same_place() {
        for payload in [
            "{}",
            "null",
            "true",
            "7",
            "-0",
            "1e9",
            r#""z""#,
            r#""日本""#,
            r#"{"a":1,"b":2}"#,
            r#""\u0001""#,
            "[]",
        ] {
            let before = raw(payload);
            let after = edited(&before).unwrap();
            assert_ne!(after, before, "{payload}");
            let (before, after) = (Record::parse(&before).unwrap(), Record::parse(&after).unwrap());
            assert_eq!(after.stamp, before.stamp);
            assert_eq!(after.draft.kind, before.draft.kind);
        }
    }
}
