//! Evidence of a log's misbehaviour, kept on disk for people: both signed checkpoints, and a fraud
//! proof where one follows from them.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use runseal_tlog::fraud::FraudProof;
use runseal_tlog::hash::NodeHash;
use runseal_tlog::key::VerifierKey;
use runseal_tlog::note::Note;

use crate::state::origin_hash;

/// What was seen of one contradiction.
#[derive(Debug, Clone)]
pub struct Contradicting {
    /// The log.
    pub origin: String,
    /// Its keys.
    pub keys: Vec<VerifierKey>,
    /// SHA-256 of the contradicting checkpoint's text.
    pub digest: [u8; 32],
    /// The note last cosigned, if any.
    pub cosigned: Option<String>,
    /// The note that contradicts it.
    pub contradicting: Note,
    /// The newer tree's hashes towards the older size, as a fraud proof states them.
    pub hashes: Option<Vec<NodeHash>>,
}

/// The folder for evidence; made when there is something to put in it.
#[derive(Debug, Clone)]
pub struct Evidence {
    folder: PathBuf,
}

impl Evidence {
    /// Evidence goes to `folder`.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Where evidence goes.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes both notes, and a fraud proof if they make one that stands; answers the files.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn keep(&self, seen: &Contradicting) -> std::io::Result<Vec<PathBuf>> {
        fs::create_dir_all(&self.folder)?;
        let log = hex::encode(&origin_hash(&seen.origin)[..8]);
        let stem = format!("{log}-{}", hex::encode(&seen.digest[..8]));
        let mut files = vec![(format!("{stem}.contradicting"), seen.contradicting.to_string())];
        files.extend(seen.cosigned.clone().map(|note| (format!("{stem}.cosigned"), note)));
        files.extend(fraud_proof(seen).map(|proof| (format!("{stem}.fraud"), proof.to_string())));
        let write = |(name, text): (String, String)| {
            let path = self.folder.join(name);
            let mut file = File::create(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            Ok(path)
        };
        files.into_iter().map(write).collect()
    }
}

/// The proof that anybody can check, if there is one.
fn fraud_proof(seen: &Contradicting) -> Option<FraudProof> {
    let cosigned = Note::parse(seen.cosigned.as_deref()?.as_bytes()).ok()?;
    let proof =
        FraudProof { hashes: seen.hashes.clone()?, older: cosigned, newer: seen.contradicting.clone() };
    proof.verify(&seen.keys).ok().map(|_| proof)
}
