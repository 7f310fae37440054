//! The handle of one log.

use std::fmt;
use std::sync::{Arc, PoisonError};

use runseal_tlog::checkpoint::SignedCheckpoint;
use runseal_tlog::hash::NodeHash;
use runseal_tlog::key::VerifierKey;
use runseal_tlog::note::Note;
use runseal_tlog::tile::TilePath;

use super::checkpoint::{self, CheckpointError, PublishError, Remembered, Sighting};
use super::tree::{self, ProofError};
use crate::plane::SignedFile;
use crate::shared::Shared;
use crate::store::{Ack, Corruption, Read, Scope, Space, StoreError, Table, row};

/// A log: a tenant's, or the directory of all of them.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
    scope: Scope,
}

impl Log {
    pub(crate) fn new(shared: Arc<Shared>, scope: Scope) -> Self {
        Self { shared, scope }
    }

    /// The log's identity.
    pub fn origin(&self) -> String {
        self.shared.plane.origin(&self.scope)
    }

    /// The key that verifies its checkpoints, called as the origin.
    pub fn vkey(&self) -> VerifierKey {
        self.shared.plane.log_key(&self.scope).verifier().clone()
    }

    /// Entries in the log.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn tree_size(&self) -> Result<u64, StoreError> {
        tree::size(&*self.shared.snapshot()?, &self.scope)
    }

    /// The root of the first `size` entries, from O(log n) stored hashes.
    ///
    /// # Errors
    /// [`ProofError::BeyondTree`], [`ProofError::Store`].
    pub fn root_at(&self, size: u64) -> Result<NodeHash, ProofError> {
        tree::root_at(&*self.snapshot()?, &self.scope, size)
    }

    /// One entry, as logged; `None` beyond the end.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn entry(&self, index: u64) -> Result<Option<Vec<u8>>, StoreError> {
        tree::entry(&*self.shared.snapshot()?, &self.scope, index)
    }

    /// A hash tile or entry bundle as it is served (c2sp.org/tlog-tiles), bundles uncompressed; `None` where
    /// the tree is not that wide.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn tile(&self, path: &TilePath) -> Result<Option<Vec<u8>>, StoreError> {
        tree::tile(&*self.shared.snapshot()?, &self.scope, path)
    }

    /// Proves that entry `index` is in the tree of `size` entries (RFC 6962, section 2.1.1).
    ///
    /// # Errors
    /// [`ProofError`].
    pub fn inclusion_proof(&self, index: u64, size: u64) -> Result<Vec<NodeHash>, ProofError> {
        tree::inclusion(&*self.snapshot()?, &self.scope, index, size)
    }

    /// Proves that the tree of `new` entries continues that of `old` (RFC 6962, section 2.1.2).
    ///
    /// # Errors
    /// [`ProofError`].
    pub fn consistency_proof(&self, old: u64, new: u64) -> Result<Vec<NodeHash>, ProofError> {
        tree::consistency(&*self.snapshot()?, &self.scope, old, new)
    }

    /// Signs the tree as it stands, and remembers that it did, in the database and in a file beside it,
    /// before it returns.
    ///
    /// First the tree is held against the last checkpoint that each of the two remembers. A tree that has
    /// not changed since is not signed again: the same note comes back.
    ///
    /// # Errors
    /// [`CheckpointError`]; then nothing was signed.
    pub fn sign_checkpoint(&self) -> Result<Note, CheckpointError> {
        let _one_signer = self.shared.signing.lock().unwrap_or_else(PoisonError::into_inner);
        let key = self.shared.plane.log_key(&self.scope);
        let snapshot = self.snapshot()?;
        let Memory { file, in_file, in_database } = self.memory(&*snapshot)?;
        let current = checkpoint::current(&*snapshot, &self.scope, &self.origin())?;
        let is_current = |signed: &SignedCheckpoint| *signed.checkpoint() == current;
        let known = [&in_database, &in_file].into_iter().flatten().find(|signed| is_current(signed));
        let note = match known {
            Some(signed) => signed.note().clone(),
            None => checkpoint::sign(&current, &key),
        };
        if let Some(file) = file.filter(|_| !in_file.as_ref().is_some_and(is_current)) {
            file.write(note.to_string().as_bytes())?;
        }
        if !in_database.as_ref().is_some_and(is_current) {
            let (scope, note) = (self.scope.clone(), note.clone());
            self.shared.run(&self.scope, 0, move |tx, _| -> Result<(), CheckpointError> {
                checkpoint::remember_signed(tx, &scope, &note);
                Ok(())
            })?;
        }
        Ok(note)
    }

    /// Holds the tree against what the plane itself remembers of having signed, as signing would, and signs
    /// nothing.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn compare_with_memory(&self) -> Result<(), CheckpointError> {
        self.memory(&*self.snapshot()?).map(drop)
    }

    /// What the plane remembers of having signed, which the tree continues.
    fn memory(&self, rows: &dyn Read) -> Result<Memory, CheckpointError> {
        let key = self.vkey();
        let file = self.shared.plane.files.as_ref().map(|files| files.signed(&self.scope));
        let in_file = match &file {
            None => None,
            Some(file) => match file.read()? {
                None => None,
                Some(bytes) => Some(checkpoint::open(&self.scope, &bytes, &key)?),
            },
        };
        let in_database = checkpoint::signed(rows, &self.scope, &key)?;
        for (signed, by) in [
            (&in_database, Remembered::Database),
            (
                &in_file,
                file.as_ref().map_or(Remembered::Database, |file| Remembered::File(file.path.clone())),
            ),
        ] {
            if let Some(signed) = signed {
                checkpoint::continues(rows, &self.scope, &self.origin(), sighting(signed, by))?;
            }
        }
        Ok(Memory { file, in_file, in_database })
    }

    /// Holds the tree against what somebody else remembers of this log: a witness, say, when it answers with
    /// a size of its own.
    ///
    /// # Errors
    /// [`CheckpointError::NotAnExtension`] where the tree does not continue it.
    pub fn compare(&self, size: u64, root: NodeHash, by: impl Into<String>) -> Result<(), CheckpointError> {
        let sighting = Sighting { size, root, by: Remembered::Elsewhere(by.into()) };
        checkpoint::continues(&*self.snapshot()?, &self.scope, &self.origin(), sighting)
    }

    /// The last checkpoint signed, by the database's account.
    ///
    /// # Errors
    /// [`StoreError`]; a stored note that the log did not sign is corruption.
    pub fn last_signed(&self) -> Result<Option<Note>, StoreError> {
        let signed = checkpoint::signed(&*self.shared.snapshot()?, &self.scope, &self.vkey())?;
        Ok(signed.map(|signed| signed.note().clone()))
    }

    /// The checkpoint that readers are shown.
    ///
    /// # Errors
    /// [`StoreError`]; a stored note that the log did not sign is corruption.
    pub fn published(&self) -> Result<Option<Note>, StoreError> {
        Ok(self.shown()?.map(|signed| signed.note().clone()))
    }

    fn shown(&self) -> Result<Option<Arc<SignedCheckpoint>>, StoreError> {
        let stored = checkpoint::published_bytes(&*self.shared.snapshot()?, &self.scope)?;
        stored.map(|bytes| self.shared.opened.open(&self.scope, bytes, &self.vkey())).transpose()
    }

    /// Shows readers this checkpoint from now on, with the cosignatures that it carries, and keeps it for
    /// ever. The same size again replaces what is shown; a smaller one is refused.
    ///
    /// # Errors
    /// [`PublishError`].
    pub fn publish(&self, note: &Note) -> Result<(), PublishError> {
        let (scope, note) = (self.scope.clone(), note.clone());
        let size = self.shared.run(&self.scope, 0, {
            let (scope, note) = (scope.clone(), note.clone());
            move |tx, plane| checkpoint::publish(tx, &scope, plane.log_key(&scope).verifier(), &note)
        })?;
        self.shared.watchers.published(&scope, size, &note);
        Ok(())
    }

    /// Waits for entry `index` to be covered by a published checkpoint, and answers that checkpoint: the
    /// third and last acknowledgement, after appended and sealed.
    pub fn published_queued(&self, index: u64) -> Ack<Note, StoreError> {
        self.shared.watchers.watch(&self.scope, index, || {
            let shown = self.shown()?;
            Ok(shown.filter(|shown| index < shown.checkpoint().size()).map(|shown| shown.note().clone()))
        })
    }

    /// The size that the witness with this key name last cosigned, as far as is known.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn witness_size(&self, witness: &str) -> Result<Option<u64>, StoreError> {
        let key = Space::of(&self.scope, Table::Witnesses).key(&[witness.as_bytes()]);
        let Some(bytes) = self.shared.snapshot()?.get(&key)? else { return Ok(None) };
        let size = row::read_u64(&bytes, "size");
        Ok(Some(size.map_err(|fault| Corruption::in_scope(&self.scope, "witness size", fault))?))
    }

    /// Remembers the size that a witness last cosigned.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn set_witness_size(&self, witness: &str, size: u64) -> Result<(), StoreError> {
        let key = Space::of(&self.scope, Table::Witnesses).key(&[witness.as_bytes()]);
        self.shared.run(&self.scope, 0, move |tx, _| {
            tx.put(key.clone(), size.to_be_bytes().to_vec());
            Ok(())
        })
    }

    fn snapshot(&self) -> Result<Box<dyn Read + Send + Sync>, StoreError> {
        Ok(self.shared.snapshot()?)
    }
}

/// The last checkpoint signed, by each account of it.
struct Memory {
    /// The file beside the database, where there is a directory.
    file: Option<SignedFile>,
    in_file: Option<SignedCheckpoint>,
    in_database: Option<SignedCheckpoint>,
}

fn sighting(signed: &SignedCheckpoint, by: Remembered) -> Sighting {
    let checkpoint = signed.checkpoint();
    Sighting { size: checkpoint.size(), root: *checkpoint.root(), by }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("origin", &self.origin()).finish_non_exhaustive()
    }
}
