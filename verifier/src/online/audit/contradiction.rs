//! What is remembered against what the log signs now, and what a contradiction did to which runs and tenants.

use runseal_evidence::finding::{Finding, FindingKind};
use runseal_tlog::consistency;
use runseal_tlog::fraud::FraudProof;
use runseal_tlog::hash::NodeHash;
use runseal_tlog::note::Note;
use runseal_tlog::tile::TileNodes;

use super::{Audit, Run};
use crate::checkpoint::Signed;
use crate::error::Failure;
use crate::fraud::CONVICTED;
use crate::history::Remembered;
use crate::online::blocking::blocking;
use crate::online::diagnose::{self, Diagnosis};
use crate::online::tree::{FetchedTree, SignedTree, TreeError};

impl Run<'_> {
    /// Holds a checkpoint that is not larger against the latest remembered one.
    pub(super) async fn against(&mut self, latest: &Remembered, signed: &Signed) -> Result<bool, Failure> {
        let (size, root) = (signed.checkpoint.size(), signed.checkpoint.root());
        if size > latest.size {
            return Ok(true);
        }
        if size == latest.size {
            if *root == latest.root {
                self.report.passed("history", format!("unchanged at size {size}"));
                return Ok(true);
            }
            let detail = format!("two roots were signed for size {size}: {} and {root}", latest.root);
            self.contradiction(FindingKind::Fork, detail);
            self.prove(&latest.note, &signed.note, Vec::new()).await?;
            self.diagnose(signed).await?;
            return Ok(false);
        }
        let history = self.history.clone();
        let (ours, at_size) = blocking(move || {
            Ok::<_, Failure>((history.root_at(size)?, history.at_size(size)?.map(|at| at.root)))
        })
        .await??;
        match ours.or(at_size) {
            Some(ours) if ours != *root => {
                let detail = format!(
                    "the log, once at size {}, shows size {size} with root {root}; its first {size} entries gave {ours}",
                    latest.size
                );
                self.contradiction(FindingKind::Fork, detail);
                let (kept, size_now) = (self.history.clone(), latest.size);
                let hashes =
                    blocking(move || FraudProof::hashes(size, size_now, &TileNodes::new(&kept, size_now)));
                if let Ok(hashes) = hashes.await? {
                    self.prove(&signed.note, &latest.note, hashes).await?;
                }
                self.diagnose(signed).await?;
            }
            ours => {
                let sure = if ours.is_some() {
                    ""
                } else {
                    "; too few of its leaves are kept to tell whether they are the same"
                };
                let detail = format!("the log went back from size {} to size {size}{sure}", latest.size);
                self.contradiction(FindingKind::Rollback, detail);
                let (history, policy) = (self.history.clone(), self.audit.trust.policy.clone());
                let diagnosis = blocking(move || diagnose::rolled_back(&history, &policy, size)).await??;
                self.diagnosed(diagnosis);
                self.vanished(size, None).await?;
            }
        }
        Ok(false)
    }

    fn contradiction(&mut self, kind: FindingKind, detail: String) {
        self.report.failed("history", detail.clone());
        self.report.findings.push(Finding::new(kind, detail));
    }

    /// Makes a fraud proof and believes it only once it stands by itself.
    async fn prove(&mut self, older: &Note, newer: &Note, hashes: Vec<NodeHash>) -> Result<(), Failure> {
        let proof = FraudProof { hashes, older: older.clone(), newer: newer.clone() };
        let keys: Vec<_> = self.audit.trust.policy.log_keys(&self.audit.origin).collect();
        match proof.verify(keys) {
            Ok(_) => {
                self.report.failed("one-history", CONVICTED);
                let (history, text) = (self.history.clone(), proof.to_string());
                blocking(move || history.keep_fraud(&text)).await??;
                self.fraud = Some(proof);
            }
            Err(error) => self.report.skipped("one-history", format!("no fraud proof follows: {error}")),
        }
        Ok(())
    }

    fn diagnosed(&mut self, diagnosis: Diagnosis) {
        self.report.findings.extend(diagnosis.findings);
        self.report.not_checked.extend(diagnosis.gaps);
    }

    /// Names what a fork did to which runs, if the new tree can be had.
    async fn diagnose(&mut self, signed: &Signed) -> Result<(), Failure> {
        let (size, root) = (signed.checkpoint.size(), signed.checkpoint.root());
        let tree = match FetchedTree::fetch(&self.audit.source, 0, size, self.audit.jobs).await {
            Ok(tree) => tree.authenticate(root).map_err(TreeError::from),
            Err(error) => Err(error),
        };
        match tree {
            Ok(tree) => self.diagnose_tree(tree).await,
            Err(error) => {
                self.unchecked_after("what the fork did to which runs", &error.to_string());
                Ok(())
            }
        }
    }

    async fn diagnose_tree(&mut self, tree: SignedTree) -> Result<(), Failure> {
        self.vanished(tree.size(), Some(tree.clone())).await?;
        let Audit { trust, source, origin, .. } = self.audit;
        let diagnosis = diagnose::rewritten(&self.history, &trust.policy, source, tree, origin).await?;
        self.diagnosed(diagnosis);
        Ok(())
    }

    /// Proves that the new tree extends the latest remembered one, and with it all before that.
    pub(super) async fn extends(
        &mut self,
        latest: &Remembered,
        signed: &Signed,
        tree: &SignedTree,
    ) -> Result<bool, Failure> {
        let (size, root) = (signed.checkpoint.size(), signed.checkpoint.root());
        let proof = consistency::prove(latest.size, size, &TileNodes::new(tree, size));
        let verified = match &proof {
            Ok(proof) => consistency::verify(latest.size, &latest.root, size, root, proof)
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match verified {
            Ok(()) => {
                let detail = format!("extends the remembered checkpoint of size {}", latest.size);
                self.report.passed("history", detail);
                Ok(true)
            }
            Err(error) => {
                let detail = format!(
                    "the log signed size {} and now size {size}, which does not extend it: {error}",
                    latest.size
                );
                self.contradiction(FindingKind::Fork, detail);
                if let Ok(hashes) = FraudProof::hashes(latest.size, size, &TileNodes::new(tree, size)) {
                    self.prove(&latest.note, &signed.note, hashes).await?;
                }
                self.diagnose(signed).await?;
                self.unchecked_after("entries and records", "the log contradicts what is remembered of it");
                Ok(false)
            }
        }
    }
}
