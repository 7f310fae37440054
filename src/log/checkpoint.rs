//! Checkpoints: what the log has signed, what it shows, and that the first never contradicts the past.

use runseal_tlog::checkpoint::{Checkpoint, SignedCheckpoint};
use runseal_tlog::hash::NodeHash;
use runseal_tlog::key::{SignerKey, VerifierKey};
use runseal_tlog::note::Note;
use thiserror::Error;

use super::tree::{ProofError, root_at, size};
use crate::store::{Corruption, Fault, Overlay, Read, Scope, Space, StoreError, Table, counter};

const SIGNED: &[u8] = b"signed";
const PUBLISHED: &[u8] = b"published";

/// Where a checkpoint is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remembered {
    /// In the database.
    Database,
    /// In a file beside the database, which a backup of the database alone does not take back.
    File(std::path::PathBuf),
    /// By the caller, or by somebody the caller asked.
    Elsewhere(String),
}

impl std::fmt::Display for Remembered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Database => f.write_str("the database"),
            Self::File(path) => path.display().fmt(f),
            Self::Elsewhere(who) => f.write_str(who),
        }
    }
}

/// A size and root that the log once stood for, as far as somebody remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sighting {
    /// Leaves.
    pub(crate) size: u64,
    /// The root.
    pub(crate) root: NodeHash,
    /// Who remembers.
    pub(crate) by: Remembered,
}

/// Why no checkpoint is signed. Nothing was signed.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The tree does not continue a checkpoint that was signed before. To sign it would be to sign a second
    /// history. The usual cause is a database restored from a backup.
    #[error(
        "the log of {origin} does not continue a checkpoint that it signed: {by} remembers size {signed_size} \
         with root {signed_root}; the log has size {size} and, there, root {}; nothing was signed. If the \
         database was restored from a backup, bring back the newer one; what it held cannot be made again. \
         If it is lost, start a plane with a new origin and say so to those who follow this log",
        root_there.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
    )]
    NotAnExtension {
        /// The log.
        origin: String,
        /// Where the earlier checkpoint is remembered.
        by: Remembered,
        /// Its size.
        signed_size: u64,
        /// Its root.
        signed_root: NodeHash,
        /// The size of the log.
        size: u64,
        /// The root of the log at `signed_size`, if it is that large.
        root_there: Option<Box<NodeHash>>,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a checkpoint is not published. Nothing was changed.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum PublishError {
    /// It does not verify under the log's key.
    #[error(transparent)]
    NotOurs(#[from] runseal_tlog::checkpoint::OpenError),
    /// It is of another log.
    #[error("the checkpoint is of {found}, not of {expected}")]
    OtherOrigin {
        /// The origin of this log.
        expected: String,
        /// The origin in the checkpoint.
        found: String,
    },
    /// It does not agree with the tree.
    #[error("the checkpoint of size {size} is not of the tree of this log")]
    OtherTree {
        /// Its size.
        size: u64,
    },
    /// A larger one was published: a reader would see the log shrink.
    #[error("size {size} is below the {published} already published")]
    Smaller {
        /// The size.
        size: u64,
        /// The size published.
        published: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Holds the tree against an earlier sighting.
pub(crate) fn continues(
    rows: &dyn Read,
    scope: &Scope,
    origin: &str,
    sighting: Sighting,
) -> Result<(), CheckpointError> {
    let Sighting { size: signed_size, root: signed_root, by } = sighting;
    let root_there = match root_at(rows, scope, signed_size) {
        Ok(root) if root == signed_root => return Ok(()),
        Ok(root) => Some(Box::new(root)),
        Err(ProofError::Store(error)) => return Err(error.into()),
        Err(_) => None,
    };
    let origin = origin.to_owned();
    let size = size(rows, scope)?;
    Err(CheckpointError::NotAnExtension { origin, by, signed_size, signed_root, size, root_there })
}

/// What the tree says now.
pub(crate) fn current(rows: &dyn Read, scope: &Scope, origin: &str) -> Result<Checkpoint, StoreError> {
    let size = size(rows, scope)?;
    let root = root_at(rows, scope, size).map_err(|error| match error {
        ProofError::Store(error) => error,
        other => unreachable!("the root of the whole tree always exists: {other}"),
    })?;
    Ok(Checkpoint::new(origin, size, root)
        .expect("an origin is a valid first line and trees end at 2^63 - 1"))
}

/// Signs what the tree says.
pub(crate) fn sign(current: &Checkpoint, key: &SignerKey) -> Note {
    current.sign(key).expect("a checkpoint made of an origin and a tree is a valid note text")
}

/// The last checkpoint signed, as the database remembers it.
pub(crate) fn signed(
    rows: &dyn Read,
    scope: &Scope,
    key: &VerifierKey,
) -> Result<Option<SignedCheckpoint>, StoreError> {
    stored(rows, scope, SIGNED, key)
}

/// Remembers a checkpoint as the last signed.
pub(crate) fn remember_signed(tx: &mut Overlay<'_>, scope: &Scope, note: &Note) {
    tx.put(Space::of(scope, Table::Log).key(&[SIGNED]), note.to_string().into_bytes());
}

/// The checkpoint that is shown.
pub(crate) fn published(
    rows: &dyn Read,
    scope: &Scope,
    key: &VerifierKey,
) -> Result<Option<SignedCheckpoint>, StoreError> {
    stored(rows, scope, PUBLISHED, key)
}

/// The checkpoint that is shown, as stored: not verified.
pub(crate) fn published_bytes(rows: &dyn Read, scope: &Scope) -> Result<Option<Vec<u8>>, StoreError> {
    stored_bytes(rows, scope, PUBLISHED)
}

/// What proofs and exports are held against: the checkpoint shown, or where none is the last signed.
pub(crate) fn shown(
    rows: &dyn Read,
    scope: &Scope,
    key: &VerifierKey,
) -> Result<Option<SignedCheckpoint>, StoreError> {
    match published(rows, scope, key)? {
        Some(shown) => Ok(Some(shown)),
        None => signed(rows, scope, key),
    }
}

fn stored(
    rows: &dyn Read,
    scope: &Scope,
    name: &[u8],
    key: &VerifierKey,
) -> Result<Option<SignedCheckpoint>, StoreError> {
    let Some(bytes) = stored_bytes(rows, scope, name)? else { return Ok(None) };
    open(scope, &bytes, key).map(Some)
}

fn stored_bytes(rows: &dyn Read, scope: &Scope, name: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(rows.get(&Space::of(scope, Table::Log).key(&[name]))?)
}

/// A remembered note, verified: what is not signed by the log is damage, and no memory of anything.
pub(crate) fn open(scope: &Scope, bytes: &[u8], key: &VerifierKey) -> Result<SignedCheckpoint, StoreError> {
    let corrupt = |fault: Fault| StoreError::from(Corruption::in_scope(scope, "checkpoint", fault));
    let note = Note::parse(bytes).map_err(|error| corrupt(error.into()))?;
    let signed = SignedCheckpoint::open(note, [key], []).map_err(|error| corrupt(error.into()))?;
    let (found, expected) = (signed.checkpoint().origin(), key.name().as_str());
    if found != expected {
        return Err(corrupt(Fault::contradiction("the origin", found, expected)));
    }
    Ok(signed)
}

/// Shows `note` from now on, and keeps it for ever. Answers its size.
pub(crate) fn publish(
    tx: &mut Overlay<'_>,
    scope: &Scope,
    key: &VerifierKey,
    note: &Note,
) -> Result<u64, PublishError> {
    let opened = SignedCheckpoint::open(note.clone(), [key], [])?;
    let checkpoint = opened.checkpoint();
    let (found, expected) = (checkpoint.origin(), key.name().as_str());
    if found != expected {
        return Err(PublishError::OtherOrigin { expected: expected.to_owned(), found: found.to_owned() });
    }
    let size = checkpoint.size();
    match root_at(tx, scope, size) {
        Ok(root) if root == *checkpoint.root() => {}
        Err(ProofError::Store(error)) => return Err(error.into()),
        _ => return Err(PublishError::OtherTree { size }),
    }
    let last = published(tx, scope, key)?;
    if let Some(published) = last.as_ref().map(|last| last.checkpoint().size()).filter(|last| *last > size) {
        return Err(PublishError::Smaller { size, published });
    }
    if last.is_some_and(|last| last.note() == note) {
        return Ok(size);
    }
    let ordinal = counter::take(tx, scope, "published")?;
    let note = note.to_string().into_bytes();
    let kept = Space::of(scope, Table::Published).key(&[&size.to_be_bytes(), &ordinal.to_be_bytes()]);
    tx.put(kept, note.clone());
    tx.put(Space::of(scope, Table::Log).key(&[PUBLISHED]), note);
    Ok(size)
}
