//! Numbers that are never given out twice.

use super::row::read_u64;
use super::{Corruption, Overlay, Read, Scope, Space, StoreError, Table};

/// The number that a counter gives out next.
pub(crate) fn peek(rows: &dyn Read, scope: &Scope, name: &str) -> Result<u64, StoreError> {
    match rows.get(&key(scope, name))? {
        None => Ok(0),
        Some(bytes) => {
            read_u64(&bytes, "number").map_err(|fault| Corruption::in_scope(scope, "counter", fault).into())
        }
    }
}

/// Takes the next number of a counter.
pub(crate) fn take(tx: &mut Overlay<'_>, scope: &Scope, name: &str) -> Result<u64, StoreError> {
    let number = peek(tx, scope, name)?;
    tx.put(key(scope, name), (number + 1).to_be_bytes().to_vec());
    Ok(number)
}

pub(crate) fn key(scope: &Scope, name: &str) -> Vec<u8> {
    Space::of(scope, Table::Counters).key(&[name.as_bytes()])
}
