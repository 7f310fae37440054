//! What goes out: proofs, exports, and the full check.

use std::io::Write;

use runseal_evidence::name::RunId;
use runseal_tlog::proof::TlogProof;

use super::Tenant;
use crate::check::{self, CheckProgress, CheckReport};
use crate::export::{self, ExportError, ExportSummary};
use crate::log::{self, ProveError};
use crate::store::StoreError;

impl Tenant {
    /// The offline proof of a sealed run against the published checkpoint, or where none is published the
    /// last signed.
    ///
    /// # Errors
    /// [`ProveError`].
    pub fn prove(&self, run: &RunId) -> Result<TlogProof, ProveError> {
        let rows = self.snapshot()?;
        let checkpoint = log::shown(&*rows, &self.scope, &self.vkey())?;
        log::proof_of(&*rows, &self.scope, run, checkpoint)
    }

    /// Writes an export of all runs, or of the chosen ones with inclusion proofs, against the published
    /// checkpoint, or where none is published the last signed. Bytes go out as stored.
    ///
    /// # Errors
    /// [`ExportError`]. A run that cannot be read is no error: the trailer names it.
    pub fn export(&self, runs: Option<&[RunId]>, out: &mut dyn Write) -> Result<ExportSummary, ExportError> {
        let rows = self.snapshot()?;
        let checkpoint = log::shown(&*rows, &self.scope, &self.vkey())?.ok_or(ExportError::NoCheckpoint)?;
        export::write(&*rows, &self.id, &self.scope, &checkpoint, runs, out)
    }

    /// Recomputes everything that this tenant has and holds it together: every chain, every index, every
    /// tile, every counter. Memory stays flat, and the journal is in use meanwhile.
    ///
    /// # Errors
    /// [`StoreError`] where the database cannot be read. A contradiction is no error: the report locates the
    /// first.
    pub fn check(&self, progress: &mut dyn FnMut(CheckProgress)) -> Result<CheckReport, StoreError> {
        let signer = self.shared.plane.record_signer.as_ref();
        check::tenant(&*self.snapshot()?, &self.id, &self.scope, &self.vkey(), signer, progress)
    }
}
