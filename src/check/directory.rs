//! The directory: one entry for each tenant, and for nobody else.

use runseal_evidence::entry::{Entry, EntryError, EntryFault, Recognised};

use super::entries::{checkpoints, walk};
use super::tiles::{no_others, same};
use super::{CheckPart, CheckProgress, CheckReport};
use crate::log;
use crate::plane::Plane;
use crate::store::{Corruption, Direction, Fault, Read, Scanned, Scope, Space, StoreError, Table, row};

pub(crate) fn directory(
    rows: &dyn Read,
    plane: &Plane,
    progress: &mut dyn FnMut(CheckProgress),
) -> Result<CheckReport, StoreError> {
    let mut report = CheckReport::default();
    let scope = &Scope::Directory;
    let size = log::size(rows, scope)?;
    let walked = walk(
        rows,
        scope,
        size,
        |index, bytes| {
            entry(rows, plane, index, bytes)?;
            report.entries = index + 1;
            report.bytes += bytes.len() as u64;
            let (done, total, bytes) = (report.entries, Some(size), report.bytes);
            progress(CheckProgress { part: CheckPart::Entries, done, total, bytes });
            Ok(())
        },
        |level, index, tile| same(rows, scope, level, index, tile),
    );
    let checked = walked.and_then(|tiles| {
        report.held_bytes = report.bytes + no_others(rows, scope, &tiles)?;
        tenants(rows, report.entries)?;
        checkpoints(rows, scope, plane.log_key(scope).verifier())
    });
    match checked {
        Ok(_) => {}
        Err(StoreError::Corrupt(corruption)) => report.contradiction = Some(*corruption),
        Err(error) => return Err(error),
    }
    Ok(report)
}

/// One entry: that of a tenant filed under this index, with the origin and key that its log has.
fn entry(rows: &dyn Read, plane: &Plane, index: u64, bytes: &[u8]) -> Result<(), StoreError> {
    let corrupt =
        |fault: Fault| StoreError::from(Corruption::in_scope(&Scope::Directory, "entry", fault).at(index));
    let log = match Entry::recognise(bytes) {
        Recognised::Ours(Entry::Tenant(log)) => log,
        Recognised::Unreadable(error) => return Err(corrupt(error.into())),
        _ => return Err(corrupt(EntryError::Malformed(EntryFault::Spelling).into())),
    };
    let scope = Scope::Tenant(log.tenant().clone());
    let vkey = plane.log_key(&scope).verifier().to_string();
    if log.vkey() != vkey {
        return Err(corrupt(Fault::contradiction("the vkey", log.vkey(), vkey)));
    }
    let key = Space::of(&Scope::Plane, Table::Tenants).key(&[log.tenant().as_str().as_bytes()]);
    let filed = rows.get(&key)?.ok_or_else(|| corrupt(Fault::Unaccounted))?;
    match row::read_u64(&filed, "index") {
        Ok(filed) if filed == index => Ok(()),
        Ok(filed) => Err(corrupt(Fault::contradiction("the index", filed, index))),
        Err(fault) => Err(corrupt(fault.into())),
    }
}

/// As many tenants as entries: each entry has its tenant already.
fn tenants(rows: &dyn Read, entries: u64) -> Result<(), StoreError> {
    let mut tenants = 0;
    rows.scan(&Space::of(&Scope::Plane, Table::Tenants).all(), Direction::Ascending, &mut |_, _| {
        tenants += 1;
        Scanned::Continue(())
    })?;
    if tenants == entries {
        return Ok(());
    }
    let fault = Fault::contradiction("the number of tenants", tenants, entries);
    Err(Corruption::in_scope(&Scope::Plane, "tenant", fault).into())
}
