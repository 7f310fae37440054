//! Checkpoints that many readers ask for, verified once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use runseal_tlog::checkpoint::SignedCheckpoint;
use runseal_tlog::key::VerifierKey;

use super::checkpoint;
use crate::store::{Scope, StoreError};

/// Of each log, the stored note that was verified last, beside its bytes. Other bytes are verified anew.
#[derive(Debug, Default)]
pub(crate) struct Opened(Mutex<HashMap<Scope, Verified>>);

#[derive(Debug)]
struct Verified {
    bytes: Vec<u8>,
    signed: Arc<SignedCheckpoint>,
}

impl Opened {
    /// The note that `bytes` are, verified under the log's `key`, which never changes.
    ///
    /// # Errors
    /// [`StoreError`] of damage: the log did not sign it.
    pub(crate) fn open(
        &self,
        scope: &Scope,
        bytes: Vec<u8>,
        key: &VerifierKey,
    ) -> Result<Arc<SignedCheckpoint>, StoreError> {
        if let Some(known) = self.map().get(scope).filter(|known| known.bytes == bytes) {
            return Ok(Arc::clone(&known.signed));
        }
        let signed = Arc::new(checkpoint::open(scope, &bytes, key)?);
        self.map().insert(scope.clone(), Verified { bytes, signed: Arc::clone(&signed) });
        Ok(signed)
    }

    fn map(&self) -> std::sync::MutexGuard<'_, HashMap<Scope, Verified>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use runseal_tlog::checkpoint::Checkpoint;
    use runseal_tlog::hash::NodeHash;
    use runseal_tlog::key::{Algorithm, KeyName, SignerKey};
    use runseal_tlog::note::Note;

    use super::*;

    fn key() -> SignerKey {
        SignerKey::from_seed(KeyName::new("log.example").unwrap(), Algorithm::Ed25519, &[7; 32])
    }

    fn note(size: u64) -> String {
        let text = format!("log.example\n{size}\n{}\n", NodeHash::from_bytes([9; 32]));
        assert!(Checkpoint::parse(&text).is_ok());
        Note::sign(&text, &key()).unwrap().to_string()
    }

    #[test]
    fn the_same_bytes_are_verified_once_and_others_each_time() {
        let (opened, scope, key) = (Opened::default(), Scope::Directory, key());
        let open = |note: String| opened.open(&scope, note.into_bytes(), key.verifier());
        let first = open(note(3)).unwrap();
        assert!(Arc::ptr_eq(&first, &open(note(3)).unwrap()));
        assert_eq!(open(note(4)).unwrap().checkpoint().size(), 4);
        assert_eq!(open(note(3)).unwrap().checkpoint().size(), 3);
    }

    #[test]
    fn what_the_log_did_not_sign_is_damage_also_after_what_it_did() {
        let (opened, key) = (Opened::default(), key());
        let open = |scope: &Scope, note: String| opened.open(scope, note.into_bytes(), key.verifier());
        open(&Scope::Directory, note(3)).unwrap();
        for _ in 0..2 {
            let edited = note(3).replacen("\n3\n", "\n5\n", 1);
            assert!(matches!(open(&Scope::Directory, edited), Err(StoreError::Corrupt(_))));
        }
        open(&Scope::Directory, note(3)).unwrap();
    }
}
