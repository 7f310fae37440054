//! Rows over other rows, in one order.

use std::ops::ControlFlow;

use super::engine::{Direction, Read, Scanned};
use super::error::EngineError;
use super::key::KeyRange;

/// Shows `visit` the rows of `range` below and `own` in one order, `own` hiding rows below with the same key. A row
/// of `own` without a value hides only. `own` comes in the order of `direction` and stays within `range`.
pub(super) fn merge<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    below: &dyn Read,
    own: impl Iterator<Item = (K, Option<V>)>,
    range: &KeyRange,
    direction: Direction,
    visit: &mut dyn FnMut(&[u8], &[u8]) -> Scanned,
) -> Result<(), EngineError> {
    let precedes = |own: &[u8], below: &[u8]| match direction {
        Direction::Ascending => own < below,
        Direction::Descending => own > below,
    };
    let mut own = own.peekable();
    if own.peek().is_none() {
        return below.scan(range, direction, visit);
    }
    let mut stopped = false;
    below.scan(range, direction, &mut |key, value| {
        let mut show = || {
            while let Some((own_key, written)) = own.next_if(|(own_key, _)| precedes(own_key.as_ref(), key)) {
                if let Some(written) = written {
                    visit(own_key.as_ref(), written.as_ref())?;
                }
            }
            match own.next_if(|(own_key, _)| own_key.as_ref() == key) {
                Some((_, Some(written))) => visit(key, written.as_ref()),
                Some((_, None)) => ControlFlow::Continue(()),
                None => visit(key, value),
            }
        };
        let shown = show();
        stopped = shown.is_break();
        shown
    })?;
    if stopped {
        return Ok(());
    }
    for (key, written) in own {
        if let Some(written) = written
            && visit(key.as_ref(), written.as_ref()).is_break()
        {
            break;
        }
    }
    Ok(())
}
