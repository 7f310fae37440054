//! What the journal knows of a run without reading its records.

use runseal_evidence::chain::ChainHash;
use runseal_evidence::export::RunState;
use runseal_evidence::name::{Outcome, RunId};

use crate::store::row::{RowFault, RowReader, RowWriter};
use crate::store::{Corruption, Direction, Fault, KeyRange, Read, Scanned, Scope, Space, StoreError, Table};

/// A run as listings show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    /// The run.
    pub run: RunId,
    /// Whether it is frozen.
    pub state: RunState,
    /// How many records it has.
    pub records: u64,
    /// The hash of its last record.
    pub chain: ChainHash,
    /// The outcome of its last conclusion; of a sealed run, the one sealed.
    pub outcome: Option<Outcome>,
    /// The log index of its seal.
    pub index: Option<u64>,
    /// When its last record was appended, in milliseconds since 1970.
    pub updated_ms: i64,
}

/// The row of a run: the head of its chain, and where it stands in each index.
///
/// All of it but `seal` follows from the records, which [`check`](crate::Tenant::check) holds it against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunRow {
    /// How many records there are.
    pub(crate) records: u64,
    /// The hash of the last.
    pub(crate) chain: ChainHash,
    /// The epoch of the last.
    pub(crate) epoch: u64,
    /// When it was appended.
    pub(crate) updated_ms: i64,
    /// Whether it is a conclusion.
    pub(crate) concluded: bool,
    /// The last conclusion, with its place in the outcome index.
    pub(crate) conclusion: Option<Conclusion>,
    /// Where the run waits, as a key of the waiting index, while the last record suspends it.
    pub(crate) waiting: Option<Wait>,
    /// Who asked for the run, as its admission says.
    pub(crate) source: Option<String>,
    /// Whether the run holds an admission key.
    pub(crate) admitted: bool,
    /// How many records a log entry covers.
    pub(crate) pinned: u64,
    /// The log index of its seal.
    pub(crate) seal: Option<u64>,
}

/// A run's place in the outcome index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conclusion {
    pub(crate) outcome: Outcome,
    pub(crate) ordinal: u64,
}

/// A run's place in the waiting index: by when it is due, or, where it waits for no time, after all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Until(i64),
    Indefinite,
}

impl RunRow {
    /// A run before its first record.
    pub(crate) fn new(genesis: ChainHash) -> Self {
        Self {
            records: 0,
            chain: genesis,
            epoch: 0,
            updated_ms: 0,
            concluded: false,
            conclusion: None,
            waiting: None,
            source: None,
            admitted: false,
            pinned: 0,
            seal: None,
        }
    }

    /// Whether the run has records that no log entry covers.
    pub(crate) fn is_unpinned(&self) -> bool {
        self.seal.is_none() && self.pinned < self.records
    }

    /// The outcome the run is sealed with.
    pub(crate) fn sealed_as(&self) -> Option<&Outcome> {
        self.seal.and(self.conclusion.as_ref()).map(|conclusion| &conclusion.outcome)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = RowWriter::with_capacity(160);
        row.u64(self.records).fixed(self.chain.as_bytes()).u64(self.epoch).i64(self.updated_ms);
        row.flag(self.concluded);
        row.flag(self.conclusion.is_some());
        if let Some(Conclusion { outcome, ordinal }) = &self.conclusion {
            row.counted(outcome.as_str().as_bytes()).u64(*ordinal);
        }
        row.flag(self.waiting.is_some());
        match self.waiting {
            Some(Wait::Until(ms)) => drop(row.flag(true).i64(ms)),
            Some(Wait::Indefinite) => drop(row.flag(false)),
            None => {}
        }
        row.flag(self.source.is_some());
        if let Some(source) = &self.source {
            row.counted(source.as_bytes());
        }
        row.flag(self.admitted).u64(self.pinned).flag(self.seal.is_some());
        if let Some(index) = self.seal {
            row.u64(index);
        }
        row.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let mut row = RowReader::new(bytes);
        let records = row.u64("records")?;
        let chain = ChainHash::from_bytes(row.fixed("chain")?);
        let epoch = row.u64("epoch")?;
        let updated_ms = row.i64("updated")?;
        let concluded = row.flag("concluded")?;
        let conclusion = if row.flag("conclusion")? {
            let outcome = Outcome::new(row.text("outcome")?)?;
            Some(Conclusion { outcome, ordinal: row.u64("ordinal")? })
        } else {
            None
        };
        let waiting = match row.flag("waiting")? {
            true if row.flag("until")? => Some(Wait::Until(row.i64("until")?)),
            true => Some(Wait::Indefinite),
            false => None,
        };
        let source = if row.flag("source")? { Some(row.text("source")?.to_owned()) } else { None };
        let admitted = row.flag("admitted")?;
        let pinned = row.u64("pinned")?;
        let seal = if row.flag("seal")? { Some(row.u64("seal")?) } else { None };
        row.end()?;
        // What is sealed has concluded with the record that it is sealed by.
        let sealed_unconcluded = seal.is_some() && !concluded;
        if records == 0 || pinned > records || concluded && conclusion.is_none() || sealed_unconcluded {
            return Err(RowFault::Value("run").into());
        }
        Ok(Self {
            records,
            chain,
            epoch,
            updated_ms,
            concluded,
            conclusion,
            waiting,
            source,
            admitted,
            pinned,
            seal,
        })
    }

    /// The run as listings show it.
    pub(crate) fn summary(&self, run: RunId) -> RunSummary {
        RunSummary {
            run,
            state: if self.seal.is_some() { RunState::Sealed } else { RunState::Open },
            records: self.records,
            chain: self.chain,
            outcome: self.conclusion.as_ref().map(|conclusion| conclusion.outcome.clone()),
            index: self.seal,
            updated_ms: self.updated_ms,
        }
    }
}

/// The row of `run`, if it has records.
pub(crate) fn run_row(rows: &dyn Read, scope: &Scope, run: &RunId) -> Result<Option<RunRow>, StoreError> {
    let Some(bytes) = rows.get(&Space::of(scope, Table::Runs).key(&[run.as_str().as_bytes()]))? else {
        return Ok(None);
    };
    decode_run(scope, run.as_str(), &bytes).map(Some)
}

/// The row of `run`, as stored.
pub(crate) fn decode_run(scope: &Scope, run: &str, bytes: &[u8]) -> Result<RunRow, StoreError> {
    RunRow::decode(bytes).map_err(|fault| Corruption::in_scope(scope, "run row", fault).of_run(run).into())
}

/// The runs of a range of the runs table, by id, up to `limit`.
pub(crate) fn runs(
    rows: &dyn Read,
    scope: &Scope,
    range: &KeyRange,
    limit: usize,
) -> Result<Vec<(RunId, RunRow)>, StoreError> {
    let space = Space::of(scope, Table::Runs);
    let mut found = Vec::new();
    let mut failed = None;
    if limit == 0 {
        return Ok(found);
    }
    rows.scan(range, Direction::Ascending, &mut |key, value| {
        let run = stored_run(scope, "run row", space.own(key));
        match run.and_then(|run| decode_run(scope, run.as_str(), value).map(|row| (run, row))) {
            Ok(row) => found.push(row),
            Err(error) => failed = Some(error),
        }
        if failed.is_some() || found.len() == limit { Scanned::Break(()) } else { Scanned::Continue(()) }
    })?;
    failed.map_or(Ok(found), Err)
}

/// A run's id as stored. One that does not parse is corruption, and never passed over.
pub(crate) fn stored_run(scope: &Scope, noun: &'static str, bytes: &[u8]) -> Result<RunId, StoreError> {
    let text = String::from_utf8_lossy(bytes);
    RunId::new(&*text).map_err(|error| Corruption::in_scope(scope, noun, error).of_run(&*text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_and_damage_to_their_shape_does_not_pass() {
        let row = RunRow {
            records: 4,
            chain: ChainHash::from_bytes([3; 32]),
            epoch: 2,
            updated_ms: -5,
            concluded: true,
            conclusion: Some(Conclusion { outcome: Outcome::new("failed").unwrap(), ordinal: 7 }),
            waiting: Some(Wait::Until(9)),
            source: Some("mail".to_owned()),
            admitted: true,
            pinned: 3,
            seal: Some(11),
        };
        let bytes = row.encode();
        assert_eq!(RunRow::decode(&bytes), Ok(row));
        for cut in 0..bytes.len() {
            assert!(RunRow::decode(&bytes[..cut]).is_err(), "cut to {cut} bytes");
        }
        assert!(RunRow::decode(&[bytes.as_slice(), &[0]].concat()).is_err());
    }
}
