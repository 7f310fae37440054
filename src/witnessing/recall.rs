//! What witnesses remember of a log: asked before anything is signed after a start.
//!
//! The plane's own memory of what it signed lies on the plane's own disk. A disk restored from a backup signs
//! a second history in good faith; the witnesses still know the first. Their monitoring page
//! (c2sp.org/tlog-witness) has the last checkpoint each has cosigned. A page that cannot be had says nothing:
//! the same witness decides when the checkpoint is submitted.

use futures_util::future::join_all;
use runseal_tlog::{
    checkpoint::{Checkpoint, SignedCheckpoint},
    key::VerifierKey,
    note::Note,
    policy::Policy,
};
use sha2::{Digest, Sha256};

use super::{Asked, Client, groups};

/// A checkpoint of this log that a witness has cosigned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recalled {
    /// Who remembers it.
    pub asked: Asked,
    /// What it says, signed by the log and by the witness.
    pub checkpoint: Checkpoint,
}

/// What each witness of `policy` remembers of the log whose key is `log`: only checkpoints that the log itself
/// has signed and the witness has cosigned, so that neither can be accused by a third.
pub async fn recall(client: &Client, policy: &Policy, log: &VerifierKey) -> Vec<Recalled> {
    let origin = log.name().as_str();
    let page = hex::encode(Sha256::digest(origin));
    let asked = groups(policy).into_iter().filter(|asked| !asked.url.is_empty()).map(|asked| {
        let path = format!("{page}/checkpoint");
        async move {
            let answer = client.get(&asked.url, &path).await.ok().filter(|answer| answer.status == 200)?;
            let note = Note::parse(&answer.body).ok()?;
            let keys = asked.witnesses.iter().map(|at| &policy.witnesses()[*at].key);
            let signed = SignedCheckpoint::open(note, [log], keys).ok()?;
            let checkpoint = signed.checkpoint().clone();
            let is_ours = checkpoint.origin() == origin && !signed.cosignatures().is_empty();
            is_ours.then_some(Recalled { asked, checkpoint })
        }
    });
    join_all(asked).await.into_iter().flatten().collect()
}
