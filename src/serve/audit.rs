//! `/audit/<tenant>/...`: what an auditor holds against the log.

use std::{io, sync::Arc};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{StatusCode, body::Frame};
use runseal_evidence::name::{RunId, TenantId};
use serde::Serialize;
use tracing::error;

use super::{
    Failed, Plane,
    respond::{self, Answer, Body, JSON, JSON_LINES, Keep},
    route::Page,
};
use crate::{
    Journal, ReadError, StoreError,
    listing::{RecordPages, RecordsError, RunLine},
};

/// A page of a tenant's runs, by id.
pub(super) async fn runs(plane: &Arc<Plane>, tenant: &str, query: &str) -> Answer {
    let Ok(tenant) = TenantId::new(tenant) else { return respond::not_found() };
    let page = match Page::of(query) {
        Ok(page) => page,
        Err(why) => return respond::refused(StatusCode::BAD_REQUEST, &why),
    };
    match plane.call(move |journal| Ok(list(journal, &tenant, &page)?)).await {
        Ok(Some(listed)) => {
            let body = serde_json::to_vec(&listed).expect("strings and numbers always serialise");
            respond::found(JSON, Keep::Never, respond::whole(body))
        }
        Ok(None) => respond::not_found(),
        Err(failed) => failed.answer(),
    }
}

#[derive(Serialize)]
struct Listed {
    runs: Vec<RunLine>,
    /// Where the next page starts, if there is one.
    next: Option<RunId>,
}

fn list(journal: &Journal, tenant: &TenantId, page: &Page) -> Result<Option<Listed>, StoreError> {
    let Page { after, limit } = page;
    // One more than asked for tells whether there is a next page.
    let mut runs = journal.tenant(tenant).runs(after.as_ref(), limit + 1)?;
    if runs.is_empty() && !journal.tenants()?.contains(tenant) {
        return Ok(None);
    }
    let more = runs.len() > *limit;
    runs.truncate(*limit);
    let next = runs.last().filter(|_| more).map(|run| run.run.clone());
    Ok(Some(Listed { runs: runs.iter().map(RunLine::from).collect(), next }))
}

/// A run's records as export lines, streamed as they are read.
pub(super) async fn records(plane: &Arc<Plane>, tenant: &str, run: &str) -> Answer {
    let (Ok(tenant), Ok(run)) = (TenantId::new(tenant), RunId::new(run)) else {
        return respond::not_found();
    };
    let first = {
        let tenant = tenant.clone();
        plane.call(move |journal| {
            let mut pages = RecordPages::of(run);
            match pages.next_page(&journal.tenant(&tenant)) {
                Ok(page) => Ok(Some((pages, page))),
                Err(RecordsError::Read(ReadError::UnknownRun { .. })) => Ok(None),
                Err(error) => Err(error),
            }
        })
    };
    // The first page is read before anything is answered, so that a run that cannot be read is a refusal and
    // not a broken answer.
    match first.await {
        Ok(Some((pages, page))) => {
            respond::found(JSON_LINES, Keep::Never, streamed(Arc::clone(plane), tenant, pages, page))
        }
        Ok(None) => respond::not_found(),
        Err(failed) => failed.answer(),
    }
}

/// A body that reads the next page when the one before was taken: a client that reads slowly holds one page
/// and no thread.
fn streamed(plane: Arc<Plane>, tenant: TenantId, pages: RecordPages, first: Option<Vec<u8>>) -> Body {
    let state = (plane, tenant, Some(pages), first);
    let frames = stream::unfold(state, |(plane, tenant, pages, page)| async move {
        if let Some(page) = page {
            let frame = Ok(Frame::data(Bytes::from(page)));
            return Some((frame, (plane, tenant, pages, None)));
        }
        let mut pages = pages?;
        let read = {
            let tenant = tenant.clone();
            plane.call(move |journal| {
                let page = pages.next_page(&journal.tenant(&tenant))?;
                Ok((pages, page))
            })
        };
        match read.await {
            Ok((pages, Some(page))) => {
                let frame = Ok(Frame::data(Bytes::from(page)));
                Some((frame, (plane, tenant, Some(pages), None)))
            }
            Ok((_, None)) => None,
            // The answer breaks off without its end, which the client notices.
            Err(failed) => Some((Err(broken(&failed)), (plane, tenant, None, None))),
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

fn broken(failed: &Failed) -> io::Error {
    match failed {
        Failed::Busy => error!("an answer broke off: too many requests at once"),
        Failed::Journal(reason) => error!(%reason, "an answer broke off"),
        Failed::Panicked(reason) => error!(%reason, "an answer broke off"),
    }
    io::Error::other("the journal cannot go on")
}
