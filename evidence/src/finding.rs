//! Findings: what an audit holds against a log, one by one.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::name::RunId;

/// What kind of contradiction was found. Spelled in kebab case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// The checkpoint does not carry the log's valid signature.
    CheckpointSignature,
    /// Too few witnesses of the policy cosigned the checkpoint.
    QuorumNotMet,
    /// The newest cosignature is older than allowed.
    Stale,
    /// A checkpoint is smaller than one seen before, whose leaves give its root.
    Rollback,
    /// Two checkpoints of one log cannot both be true.
    Fork,
    /// A tile does not hash to what vouches for it.
    TileMismatch,
    /// An entry does not hash to its leaf.
    EntryMismatch,
    /// A run's records are not the ones the log vouches for.
    RunEdited,
    /// A run that the log vouches for is gone.
    RunDeleted,
    /// The end of a run that the log vouches for is gone.
    RunTruncated,
    /// Runs stand at other places of the log than before.
    RunReordered,
    /// A run has two seals.
    SealDuplicate,
    /// A run has a head after its seal.
    HeadAfterSeal,
    /// A head has fewer records than one before it.
    HeadRegressed,
    /// A run's records are not contiguous or not linked.
    ChainBroken,
    /// A record's signature does not verify.
    SignatureInvalid,
    /// A record or an entry names another tenant.
    TenantMismatch,
    /// A directory of tenants' logs no longer lists a tenant, or lists none whose log is known.
    TenantDeleted,
    /// A directory lists another key for a tenant's log than the one trusted, or than before.
    TenantKey,
    /// An export leaves out entries that its checkpoint vouches for.
    ExportIncomplete,
    /// Evidence that cannot be read as what it claims to be.
    Malformed,
}

impl FindingKind {
    /// Every kind.
    pub const ALL: [Self; 21] = [
        Self::CheckpointSignature,
        Self::QuorumNotMet,
        Self::Stale,
        Self::Rollback,
        Self::Fork,
        Self::TileMismatch,
        Self::EntryMismatch,
        Self::RunEdited,
        Self::RunDeleted,
        Self::RunTruncated,
        Self::RunReordered,
        Self::SealDuplicate,
        Self::HeadAfterSeal,
        Self::HeadRegressed,
        Self::ChainBroken,
        Self::SignatureInvalid,
        Self::TenantMismatch,
        Self::TenantDeleted,
        Self::TenantKey,
        Self::ExportIncomplete,
        Self::Malformed,
    ];
}

/// What a finding, or a gap, is a sign of. One report may hold several; a reader keeps them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// History was changed.
    Tampering,
    /// The signatures are not those that the policy asks for: a forgery, or a wrong trust configuration.
    Untrusted,
    /// What is shown is old.
    Stale,
    /// What is shown cannot be read as what it claims to be.
    Malformed,
    /// Something in the scope could not be checked.
    NotChecked,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl FindingKind {
    /// What a finding of this kind is a sign of.
    pub const fn class(self) -> Class {
        match self {
            Self::CheckpointSignature | Self::QuorumNotMet | Self::SignatureInvalid | Self::TenantKey => {
                Class::Untrusted
            }
            Self::Stale => Class::Stale,
            Self::Malformed => Class::Malformed,
            Self::Rollback
            | Self::Fork
            | Self::TileMismatch
            | Self::EntryMismatch
            | Self::RunEdited
            | Self::RunDeleted
            | Self::RunTruncated
            | Self::RunReordered
            | Self::SealDuplicate
            | Self::HeadAfterSeal
            | Self::HeadRegressed
            | Self::ChainBroken
            | Self::TenantMismatch
            | Self::TenantDeleted
            | Self::ExportIncomplete => Class::Tampering,
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// One contradiction, and where it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// What kind it is.
    pub kind: FindingKind,
    /// The run concerned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<RunId>,
    /// The log index concerned, from 0.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub index: Option<u64>,
    /// The record concerned, from 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seq: Option<u64>,
    /// What was found, for people.
    pub detail: String,
}

impl Finding {
    /// A finding about the log as a whole.
    pub fn new(kind: FindingKind, detail: impl Into<String>) -> Self {
        Self { kind, run: None, index: None, seq: None, detail: detail.into() }
    }

    /// The same finding, about `run`.
    #[must_use]
    pub fn in_run(self, run: &RunId) -> Self {
        Self { run: Some(run.clone()), ..self }
    }

    /// The same finding, at a log index.
    #[must_use]
    pub fn at_index(self, index: u64) -> Self {
        Self { index: Some(index), ..self }
    }

    /// The same finding, at a record.
    #[must_use]
    pub fn at_seq(self, seq: u64) -> Self {
        Self { seq: Some(seq), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_spelled_as_documented() {
        let documented = "checkpoint-signature, quorum-not-met, stale, rollback, fork, tile-mismatch, entry-mismatch, \
            run-edited, run-deleted, run-truncated, run-reordered, seal-duplicate, head-after-seal, head-regressed, \
            chain-broken, signature-invalid, tenant-mismatch, tenant-deleted, tenant-key, export-incomplete, malformed";
        assert_eq!(FindingKind::ALL.map(|kind| kind.to_string()).join(", "), documented);
        for kind in FindingKind::ALL {
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("\"{kind}\""));
            assert_eq!(serde_json::from_str::<FindingKind>(&json).unwrap(), kind);
        }
        assert!(serde_json::from_str::<FindingKind>("\"Fork\"").is_err());
    }

    #[test]
    fn kinds_fall_into_classes() {
        let of = |class| FindingKind::ALL.iter().filter(|kind| kind.class() == class).count();
        assert_eq!(
            [Class::Tampering, Class::Untrusted, Class::Stale, Class::Malformed].map(of),
            [15, 4, 1, 1]
        );
        assert_eq!(serde_json::to_string(&Class::NotChecked).unwrap(), r#""not-checked""#);
        assert_eq!(Class::NotChecked.to_string(), "not-checked");
    }

    #[test]
    fn a_finding_says_where_it_was_found() {
        let run = RunId::new("run-1").unwrap();
        let finding = Finding::new(FindingKind::RunEdited, "record 3").in_run(&run).at_index(4).at_seq(3);
        let json = r#"{"kind":"run-edited","run":"run-1","index":4,"seq":3,"detail":"record 3"}"#;
        assert_eq!(serde_json::to_string(&finding).unwrap(), json);
        assert_eq!(serde_json::from_str::<Finding>(json).unwrap(), finding);
        let bare = r#"{"kind":"stale","detail":"two days"}"#;
        assert_eq!(serde_json::to_string(&Finding::new(FindingKind::Stale, "two days")).unwrap(), bare);
        assert_eq!(
            serde_json::from_str::<Finding>(bare).unwrap(),
            Finding::new(FindingKind::Stale, "two days")
        );
        assert!(serde_json::from_str::<Finding>(r#"{"kind":"stale"}"#).is_err());
    }
}
