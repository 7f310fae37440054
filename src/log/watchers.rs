//! Callers who wait until a published checkpoint covers an entry.

use std::sync::{Mutex, PoisonError};

use runseal_tlog::note::Note;

use crate::store::ack::{Answer, ack};
use crate::store::{Ack, Scope, StoreError};

/// Most callers that may wait.
const WATCHERS_MAX: usize = 1 << 16;

/// The waiting callers of all logs.
#[derive(Default)]
pub(crate) struct Watchers(Mutex<Vec<Watcher>>);

struct Watcher {
    scope: Scope,
    index: u64,
    answer: Answer<Note, StoreError>,
}

impl Watchers {
    /// Waits for entry `index`, unless `shown` has a checkpoint that covers it already.
    pub(crate) fn watch(
        &self,
        scope: &Scope,
        index: u64,
        shown: impl FnOnce() -> Result<Option<Note>, StoreError>,
    ) -> Ack<Note, StoreError> {
        let (answer, ack) = ack();
        // Looked up under the lock: a checkpoint published meanwhile is either seen here or announced after.
        let mut watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if watchers.len() >= WATCHERS_MAX {
            // Who gave up waiting is in nobody's way.
            watchers.retain(|watcher| !watcher.answer.is_given_up());
        }
        match shown() {
            Ok(None) if watchers.len() >= WATCHERS_MAX => {
                answer.send(Err(StoreError::Busy { waiting: watchers.len() }));
            }
            Ok(None) => watchers.push(Watcher { scope: scope.clone(), index, answer }),
            Ok(Some(note)) => answer.send(Ok(note)),
            Err(error) => answer.send(Err(error)),
        }
        ack
    }

    /// Answers those that wait for an entry below `size` of this log.
    pub(crate) fn published(&self, scope: &Scope, size: u64, note: &Note) {
        let mut watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let covered = watchers.extract_if(.., |watcher| watcher.scope == *scope && watcher.index < size);
        let covered: Vec<Watcher> = covered.collect();
        drop(watchers);
        for watcher in covered {
            watcher.answer.send(Ok(note.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gives_up_waiting_makes_room() {
        let watchers = Watchers::default();
        let watch = || watchers.watch(&Scope::Plane, 0, || Ok(None));
        let patient: Vec<_> = (0..WATCHERS_MAX / 2).map(|_| watch()).collect();
        for _ in 0..2 * WATCHERS_MAX {
            drop(watch());
        }
        let last = watch();
        let note = Note::parse(
            "log.example\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n\n\u{2014} log.example AAAAAAA=\n"
                .as_bytes(),
        )
        .unwrap();
        watchers.published(&Scope::Plane, 1, &note);
        for ack in patient.into_iter().chain([last]) {
            assert_eq!(ack.wait().unwrap(), note);
        }
    }

    #[test]
    fn too_many_who_wait_are_refused() {
        let watchers = Watchers::default();
        let watch = || watchers.watch(&Scope::Plane, 0, || Ok(None));
        let _waiting: Vec<_> = (0..WATCHERS_MAX).map(|_| watch()).collect();
        assert!(matches!(watch().wait(), Err(StoreError::Busy { waiting: WATCHERS_MAX })));
    }
}
