//! The embedded engine: one redb file, or redb in memory.

use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use ::redb::backends::FileBackend;
use ::redb::{
    Builder, Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, StorageBackend, Table,
    TableDefinition, TableError,
};

use thiserror::Error;

use super::engine::{Direction, Engine, Read, Scanned};
use super::error::{EngineError, StoreError};
use super::key::KeyRange;
use super::overlay::Writes;
use super::read_ahead::ReadAhead;

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

/// The bytes that every redb file starts with.
const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";

/// Memory for pages read or waiting to be written, where nothing else is said.
pub(crate) const CACHE_BYTES: usize = 64 << 20;

/// Every error of every redb operation, told apart no further: callers can do nothing about any of them.
impl<E: Into<::redb::Error>> From<E> for EngineError {
    fn from(error: E) -> Self {
        Self::new(error.into())
    }
}

/// Whether the file at `path` starts as a redb database does.
pub(crate) fn is_redb_file(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::with_capacity(MAGIC.len());
    std::fs::File::open(path)?.take(MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start == MAGIC)
}

/// All rows in one table of one redb database.
pub(crate) struct RedbEngine {
    /// There until this is dropped.
    database: Option<Database>,
    /// Each commit writes down which pages are free, so that opening after a crash reads no more than that.
    quick_repair: bool,
}

impl RedbEngine {
    /// A new database in a file that does not exist yet or is empty.
    pub(crate) fn create(path: &Path) -> Result<Self, ::redb::DatabaseError> {
        builder(CACHE_BYTES).create(path).map(Self::in_file)
    }

    /// The database of an existing file, which stays locked against other processes. After a crash in the middle
    /// of work, all of it is read first.
    ///
    /// With `read_ahead` the file is read in pieces of many pages, for who goes through all of it.
    pub(crate) fn open(
        path: &Path,
        cache_bytes: usize,
        read_ahead: bool,
    ) -> Result<Self, ::redb::DatabaseError> {
        let mut builder = builder(cache_bytes);
        builder.set_repair_callback(|session| {
            tracing::info!(
                progress = session.progress(),
                "the last stop was no orderly one: reading everything"
            );
        });
        let opened = sheltered(|| {
            if !read_ahead {
                return builder.open(path);
            }
            let file = std::fs::File::options().read(true).write(true).open(path)?;
            builder.create_with_backend(ReadAhead::over(FileBackend::new(file)?))
        });
        let damaged = |_| Err(::redb::StorageError::Corrupted(Nonsense.to_string()).into());
        opened.unwrap_or_else(damaged).map(Self::in_file)
    }

    /// A file is large one day, and its process killed another.
    fn in_file(database: Database) -> Self {
        Self { database: Some(database), quick_repair: true }
    }

    /// A database in memory.
    pub(crate) fn in_memory() -> Result<Self, ::redb::DatabaseError> {
        Self::on(::redb::backends::InMemoryBackend::new())
    }

    /// A database on whatever `backend` is, made where that is empty.
    pub(crate) fn on(backend: impl StorageBackend) -> Result<Self, ::redb::DatabaseError> {
        let database = builder(CACHE_BYTES).create_with_backend(backend)?;
        Ok(Self { database: Some(database), quick_repair: false })
    }
}

impl Drop for RedbEngine {
    fn drop(&mut self) {
        // Closing writes, and may meet damage there. What was committed is durable without it.
        if let Err(error) = sheltered(|| drop(self.database.take())) {
            tracing::error!(%error, "the database was not closed in an orderly way");
        }
    }
}

/// A page holds numbers that no page that was written could hold.
#[derive(Debug, Error)]
#[error("a page of the database makes no sense")]
struct Nonsense;

/// Calls into redb. It trusts the numbers in its pages here and there, and panics where damage has changed them.
fn sheltered<T>(call: impl FnOnce() -> T) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| EngineError::new(Nonsense))
}

fn builder(cache_bytes: usize) -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(cache_bytes);
    builder
}

impl Engine for RedbEngine {
    fn snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, EngineError> {
        match sheltered(|| self.database().begin_read().map(|transaction| transaction.open_table(ROWS)))?? {
            Ok(rows) => Ok(Box::new(Snapshot(Some(rows)))),
            // The first commit makes the table.
            Err(TableError::TableDoesNotExist(_)) => Ok(Box::new(Snapshot(None))),
            Err(error) => Err(error.into()),
        }
    }

    fn commit(&self, writes: Writes) -> Result<(), EngineError> {
        sheltered(|| self.write(&writes))?
    }
}

impl RedbEngine {
    fn database(&self) -> &Database {
        self.database.as_ref().expect("only dropping takes the database")
    }

    fn write(&self, writes: &Writes) -> Result<(), EngineError> {
        let mut transaction = self.database().begin_write()?;
        // Said aloud, since everything the journal promises rests on it.
        transaction.set_durability(Durability::Immediate)?;
        transaction.set_quick_repair(self.quick_repair);
        apply(&mut transaction.open_table(ROWS)?, writes)?;
        transaction.commit()?;
        Ok(())
    }

    /// Makes every change of `change`, however many they are, or none where it fails. For a caller that has the
    /// engine to itself: what others decide on by a snapshot must not change beneath them.
    pub(crate) fn rewrite<E: From<StoreError>>(
        &self,
        change: impl FnOnce(&mut Rewrite<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let engine = |error: EngineError| E::from(error.into());
        let transaction = sheltered(|| {
            let mut transaction = self.database().begin_write()?;
            transaction.set_durability(Durability::Immediate)?;
            transaction.set_quick_repair(self.quick_repair);
            Ok(transaction)
        });
        let transaction = transaction.and_then(|begun| begun).map_err(engine)?;
        {
            let rows = sheltered(|| Ok(transaction.open_table(ROWS)?)).and_then(|opened| opened);
            // Dropped without a commit, it leaves no trace.
            change(&mut Rewrite(rows.map_err(engine)?))?;
        }
        sheltered(|| Ok(transaction.commit()?)).and_then(|committed| committed).map_err(engine)
    }
}

fn apply(rows: &mut Table<'_, &[u8], &[u8]>, writes: &Writes) -> Result<(), EngineError> {
    let mut groups = PageGroups::default();
    let (first, later): (Vec<_>, Vec<_>) = writes.iter().partition(|(key, value)| {
        let value_bytes = value.as_ref().map_or(0, Vec::len);
        groups.goes_first(key.len() + value_bytes)
    });
    for (key, value) in first.into_iter().chain(later) {
        match value {
            Some(value) => drop(rows.insert(key.as_slice(), value.as_slice())?),
            None => drop(rows.remove(key.as_slice())?),
        }
    }
    Ok(())
}

/// Which rows are written first, of rows in order.
///
/// A page that is full is cut in the middle. Were rows that follow each other written in order, each page would stay
/// half empty for ever, as the next row goes to the one behind it. So of the rows that fit a page, those that one half
/// holds are written first, which cuts the pages, and then the others, which fill them. Rows of about one size take
/// up 0.8 to 0.9 of the pages then, and not half of them.
#[derive(Debug, Default)]
struct PageGroups {
    /// Rows of the group seen so far, and how many it has: as many as fit a page, or of small ones a part of these.
    seen: usize,
    rows: usize,
    /// How many of them wait, every other one from the second on.
    later: usize,
}

/// Bytes of a page of the tree, and those that it needs for itself and for each row.
const PAGE_BYTES: usize = 4096;
const PAGE_HEAD_BYTES: usize = 4;
const PAGE_ROW_BYTES: usize = 8;
/// Small groups keep in step with the pages, and with a batch that is small.
const GROUP_ROWS_MAX: usize = 16;

impl PageGroups {
    /// Whether the next row, of so many bytes, is written first.
    fn goes_first(&mut self, bytes: usize) -> bool {
        if self.seen == self.rows {
            let fit = (PAGE_BYTES - PAGE_HEAD_BYTES) / (PAGE_ROW_BYTES + bytes);
            let rows = fit.clamp(1, GROUP_ROWS_MAX);
            // What else lies in a page moves the cut by a row.
            *self = Self { seen: 0, rows, later: rows.saturating_sub(2) / 2 };
        }
        let waits = self.seen % 2 == 1 && self.seen / 2 < self.later;
        self.seen += 1;
        !waits
    }
}

/// A transaction that is written while it is decided on. What does not fit the cache waits in the file.
pub(crate) struct Rewrite<'t>(Table<'t, &'static [u8], &'static [u8]>);

impl Rewrite<'_> {
    /// Writes rows into the transaction.
    pub(crate) fn apply(&mut self, writes: &Writes) -> Result<(), EngineError> {
        sheltered(|| apply(&mut self.0, writes))?
    }
}

impl Read for Rewrite<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        get(&self.0, key)
    }

    fn scan(
        &self,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Scanned,
    ) -> Result<(), EngineError> {
        scan(&self.0, range, direction, visit)
    }
}

struct Snapshot(Option<ReadOnlyTable<&'static [u8], &'static [u8]>>);

impl Read for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.0.as_ref().map_or(Ok(None), |rows| get(rows, key))
    }

    fn scan(
        &self,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Scanned,
    ) -> Result<(), EngineError> {
        self.0.as_ref().map_or(Ok(()), |rows| scan(rows, range, direction, visit))
    }
}

fn get(
    rows: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, EngineError> {
    sheltered(|| Ok(rows.get(key)?.map(|value| value.value().to_vec())))?
}

fn scan(
    rows: &impl ReadableTable<&'static [u8], &'static [u8]>,
    range: &KeyRange,
    direction: Direction,
    visit: &mut dyn FnMut(&[u8], &[u8]) -> Scanned,
) -> Result<(), EngineError> {
    if range.is_empty() {
        return Ok(());
    }
    let mut rows = sheltered(|| rows.range::<&[u8]>(range.lower.as_slice()..range.upper.as_slice()))??;
    loop {
        let row = sheltered(|| {
            let row = match direction {
                Direction::Ascending => rows.next(),
                Direction::Descending => rows.next_back(),
            };
            // Damaged lengths show when the bytes are taken for the first time.
            if let Some(Ok((key, value))) = &row {
                let _ = (key.value(), value.value());
            }
            row
        })?;
        let Some(row) = row else { return Ok(()) };
        let (key, value) = row?;
        if visit(key.value(), value.value()).is_break() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use ::redb::ReadableTableMetadata as _;

    use super::*;

    /// Of the bytes of all pages, how many hundredths rows take up.
    fn filled(value_bytes: usize) -> u64 {
        let engine = RedbEngine::in_memory().unwrap();
        // What lies behind the rows, as other tables do.
        let behind = (0..200u32).map(|row| ((u32::MAX - row).to_be_bytes().to_vec(), Some(vec![7; 60])));
        engine.commit(behind.collect()).unwrap();
        for batch in 0..20u32 {
            let row = |row: u32| ((batch * 1000 + row).to_be_bytes().to_vec(), Some(vec![7; value_bytes]));
            engine.commit((0..1000).map(row).collect()).unwrap();
        }
        let rows = engine.database().begin_read().unwrap().open_table(ROWS).unwrap();
        let stats = rows.stats().unwrap();
        (stats.stored_bytes() + stats.metadata_bytes()) * 100 / (stats.leaf_pages() * PAGE_BYTES as u64)
    }

    #[test]
    fn rows_that_follow_each_other_fill_the_pages_that_they_are_in() {
        for value_bytes in [40, 100, 200, 300, 400, 440, 600, 900] {
            let filled = filled(value_bytes);
            assert!(filled > 80, "rows of {value_bytes} bytes: {filled} in a hundred");
        }
    }
}
