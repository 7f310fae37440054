//! What serving other lists of logs would change: a dry run.

use std::path::Path;

use crate::database::RedbStore;
use crate::failure::Failure;
use crate::fetch::Fetcher;
use crate::logs::LogSet;
use crate::run;
use crate::sources::Sources;
use crate::state::Store as _;

/// One line for each difference between the lists and what `store` has cosigned, by origin:
/// `+` a log never cosigned, `-` a cosigned log that is not listed, `!` a log with a key not accepted.
///
/// # Errors
/// [`Failure`] when a list cannot be read, or has a fault.
pub(crate) fn of(store: &RedbStore, lists: &[String], database: &Path) -> Result<Vec<String>, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Start)?;
    let mut sources = Sources::new(lists, Fetcher::new()?, run::beside(database, ".list"))?;
    let listed = runtime.block_on(sources.load())?;
    let mut logs = LogSet::new(listed, &store.own_keys()?)?;
    let known = store.known_keys()?;
    let mut lines = Vec::new();
    for log in logs.iter().filter(|log| !known.contains_key(log.origin())) {
        lines.push((log.origin().to_owned(), format!("+ {}", log.origin())));
    }
    for origin in known.keys().filter(|origin| logs.find(origin).is_none()) {
        let size = store.head(origin)?.size;
        lines.push((origin.clone(), format!("- {origin} (its state at size {size} is kept)")));
    }
    for change in logs.hold_to(&known) {
        lines.push((change.origin.clone(), format!("! {change}")));
    }
    lines.sort();
    Ok(lines.into_iter().map(|(_, line)| line).collect())
}
