//! `/log/<tenant>/...`: checkpoint, tiles and entry bundles (c2sp.org/tlog-tiles).

use std::{io::Write as _, sync::Arc};

use flate2::{Compression, write::GzEncoder};
use hyper::{HeaderMap, header::ACCEPT_ENCODING};
use runseal_tlog::{
    checkpoint::Checkpoint,
    note::Note,
    tile::{TILE_WIDTH, TileKind, TilePath, level_hashes},
};

use super::{
    Plane,
    respond::{self, Answer, Audience, Keep, NOTE, OCTETS},
    served::LogName,
};

impl Plane {
    fn audience(&self) -> Audience {
        if self.access.log_is_public() { Audience::Anyone } else { Audience::Asker }
    }
}

/// The published checkpoint.
pub(super) async fn checkpoint(plane: &Arc<Plane>, tenant: &str) -> Answer {
    let Some(name) = LogName::parse(tenant) else { return respond::not_found() };
    let published =
        plane.call(move |journal| Ok(name.log(journal).published()?.map(|note| note.to_string())));
    match published.await {
        Ok(Some(note)) => respond::found(NOTE, Keep::Seconds(plane.audience()), respond::whole(note)),
        Ok(None) => respond::not_found(),
        Err(failed) => failed.answer(),
    }
}

/// A tile or bundle that the published checkpoint implies, or that an earlier one did.
pub(super) async fn tile(plane: &Arc<Plane>, tenant: &str, tile: TilePath, headers: &HeaderMap) -> Answer {
    let Some(name) = LogName::parse(tenant) else { return respond::not_found() };
    let is_bundle = tile.kind() == TileKind::Entries;
    let gzip = is_bundle && accepts_gzip(headers);
    let bytes = plane.call(move |journal| {
        let log = name.log(journal);
        let size = match log.published()? {
            Some(note) => published_size(&note),
            None => 0,
        };
        let bytes = if is_covered(tile, size) { log.tile(&tile)? } else { None };
        Ok(bytes.map(|bytes| if gzip { compressed(&bytes) } else { bytes }))
    });
    let keep = Keep::Forever(plane.audience());
    match bytes.await {
        Ok(Some(bytes)) if is_bundle => {
            respond::encoded(respond::found(OCTETS, keep, respond::whole(bytes)), gzip)
        }
        Ok(Some(bytes)) => respond::found(OCTETS, keep, respond::whole(bytes)),
        Ok(None) => respond::not_found(),
        Err(failed) => failed.answer(),
    }
}

/// Whether every hash or entry of `tile` is under a checkpoint of `size`. A partial tile of an earlier size is,
/// also after the tile filled.
fn is_covered(tile: TilePath, size: u64) -> bool {
    let level = match tile.kind() {
        TileKind::Hashes { level } => level,
        TileKind::Entries => 0,
    };
    let end = tile
        .index()
        .checked_mul(u64::from(TILE_WIDTH))
        .and_then(|start| start.checked_add(tile.width().into()));
    end.is_some_and(|end| end <= level_hashes(level, size))
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("writing to memory never fails")
}

/// Whether the client takes gzip (RFC 9110, section 12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let mut named = None;
    let mut any = None;
    for value in headers.get_all(ACCEPT_ENCODING) {
        for item in value.to_str().unwrap_or_default().split(',') {
            let mut parts = item.split(';').map(str::trim);
            let coding = parts.next().unwrap_or_default();
            let refused = parts.any(|weight| {
                let zero = weight.strip_prefix("q=").or_else(|| weight.strip_prefix("Q="));
                zero.is_some_and(|q| q.parse() == Ok(0.0f32))
            });
            match coding.to_ascii_lowercase().as_str() {
                "gzip" | "x-gzip" => named = Some(!refused),
                "*" => any = Some(!refused),
                _ => {}
            }
        }
    }
    named.or(any).unwrap_or(false)
}

/// The size of a published note.
pub(super) fn published_size(note: &Note) -> u64 {
    let checkpoint = Checkpoint::parse(note.unverified_text());
    checkpoint.expect("the journal hands out as published only what it verified as a checkpoint").size()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn nothing_beyond_the_published_size_is_covered() {
        let tile = |path: &str| path.parse::<TilePath>().unwrap();
        // c2sp.org/tlog-tiles: a tree of 70,000.
        for (path, covered) in [
            ("tile/0/272", true),
            ("tile/0/273.p/112", true),
            ("tile/0/273.p/111", true),
            ("tile/0/273.p/113", false),
            ("tile/0/273", false),
            ("tile/entries/273.p/112", true),
            ("tile/entries/273.p/113", false),
            ("tile/1/000", true),
            ("tile/1/001.p/17", true),
            ("tile/1/001.p/18", false),
            ("tile/2/000.p/1", true),
            ("tile/2/000.p/2", false),
            ("tile/3/000.p/1", false),
            ("tile/63/000.p/1", false),
            ("tile/0/x009/x223/x372/x036/x854/x775/807", false),
        ] {
            assert_eq!(is_covered(tile(path), 70_000), covered, "{path}");
        }
        assert!(!is_covered(tile("tile/0/000.p/1"), 0));
    }

    #[test]
    fn gzip_is_for_those_who_accept_it() {
        let accepts = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_str(value).unwrap());
            accepts_gzip(&headers)
        };
        for value in ["gzip", "GZIP", "identity, gzip", "gzip;q=0.1", "*", "br;q=1.0, *;q=0.5"] {
            assert!(accepts(value), "{value}");
        }
        for value in ["", "identity", "gzip;q=0", "gzip; q=0.000", "*, gzip;q=0", "*;q=0", "br"] {
            assert!(!accepts(value), "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
