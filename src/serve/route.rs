//! What a request asks for, read from the path as it stands on the wire.
//!
//! The path is not decoded: every name and tile has one spelling, and it needs no escapes. Whatever else a
//! path spells is nothing that is served.

use runseal_evidence::name::RunId;
use runseal_tlog::{text::parse_decimal, tile::TilePath};

/// Runs in one page of a listing, unless the request asks for fewer; more than this is never answered.
pub(super) const PAGE_RUNS_MAX: usize = 1000;
/// Runs in one page where the request does not say.
const PAGE_RUNS: usize = 100;

/// What a request asks for. Tenants are as spelled: whether there is such a one is told only to those who may
/// know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Route<'p> {
    Health,
    Metrics,
    Checkpoint {
        tenant: &'p str,
    },
    Tile {
        tenant: &'p str,
        tile: TilePath,
    },
    Runs {
        tenant: &'p str,
        query: &'p str,
    },
    Records {
        tenant: &'p str,
        run: &'p str,
    },
    /// Under a tenant's prefix, but nothing that is served: still not told to those who may not know.
    NothingInLog {
        tenant: &'p str,
    },
    NothingInAudit {
        tenant: &'p str,
    },
    Nothing,
}

impl<'p> Route<'p> {
    /// The route of a path and query.
    pub(super) fn of(path: &'p str, query: Option<&'p str>) -> Self {
        match path {
            "/healthz" => return Self::Health,
            "/metrics" => return Self::Metrics,
            _ => {}
        }
        if let Some((tenant, rest)) = path.strip_prefix("/log/").and_then(|rest| rest.split_once('/')) {
            return match rest {
                "checkpoint" => Self::Checkpoint { tenant },
                _ => match rest.parse() {
                    Ok(tile) => Self::Tile { tenant, tile },
                    Err(_) => Self::NothingInLog { tenant },
                },
            };
        }
        if let Some((tenant, rest)) = path.strip_prefix("/audit/").and_then(|rest| rest.split_once('/')) {
            return match rest.split('/').collect::<Vec<_>>().as_slice() {
                ["runs"] => Self::Runs { tenant, query: query.unwrap_or_default() },
                ["runs", run, "records"] => Self::Records { tenant, run },
                _ => Self::NothingInAudit { tenant },
            };
        }
        Self::Nothing
    }

    /// What the route is called in metrics: one of a fixed few names, whatever is asked.
    pub(super) const fn label(&self) -> &'static str {
        match self {
            Self::Health => "healthz",
            Self::Metrics => "metrics",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Tile { .. } => "tile",
            Self::Runs { .. } => "runs",
            Self::Records { .. } => "records",
            Self::NothingInLog { .. } | Self::NothingInAudit { .. } | Self::Nothing => "other",
        }
    }
}

/// One page of a tenant's runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Page {
    /// Only runs after this one, by id.
    pub(super) after: Option<RunId>,
    /// At most so many, 1 to [`PAGE_RUNS_MAX`].
    pub(super) limit: usize,
}

impl Page {
    /// Reads `after=RUN&limit=N`, both optional. A limit over the most there is gives the most.
    pub(super) fn of(query: &str) -> Result<Self, String> {
        let (mut after, mut limit) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let repeated = match name {
                "after" => after.replace(RunId::new(value).map_err(|error| error.to_string())?).is_some(),
                "limit" => {
                    let number = parse_decimal(value).filter(|number| *number > 0);
                    let number =
                        number.ok_or_else(|| format!("limit={value:?} is not a number from 1 on"))?;
                    limit.replace(usize::try_from(number).unwrap_or(usize::MAX)).is_some()
                }
                other => return Err(format!("unknown parameter {other:?}; after and limit may be given")),
            };
            if repeated {
                return Err(format!("{name} is given twice"));
            }
        }
        Ok(Self { after, limit: limit.unwrap_or(PAGE_RUNS).min(PAGE_RUNS_MAX) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_tile_paths_are_tiles() {
        for (path, canonical) in [
            ("/log/acme/tile/0/000", true),
            ("/log/acme/tile/0/x001/x234/067", true),
            ("/log/acme/tile/entries/000.p/1", true),
            ("/log/acme/tile/63/000", true),
            ("/log/acme/tile/64/000", false),
            ("/log/acme/tile/00/000", false),
            ("/log/acme/tile/0/0", false),
            ("/log/acme/tile/0/0000", false),
            ("/log/acme/tile/0/x000/000", false),
            ("/log/acme/tile/0/000.p/0", false),
            ("/log/acme/tile/0/000.p/256", false),
            ("/log/acme/tile/0/000.p/01", false),
            ("/log/acme/tile/entries/x001/x234/067/", false),
            ("/log/acme/tile/0/%30%30%30", false),
            ("/log/acme//tile/0/000", false),
            ("/log/acme/%2e%2e/globex/checkpoint", false),
            ("/log/acme/../globex/checkpoint", false),
        ] {
            let is_tile = matches!(Route::of(path, None), Route::Tile { tenant: "acme", .. });
            assert_eq!(is_tile, canonical, "{path}");
        }
    }

    #[test]
    fn the_other_paths_are_what_they_spell() {
        for (path, route) in [
            ("/healthz", Route::Health),
            ("/healthz/", Route::Nothing),
            ("/log/acme/checkpoint", Route::Checkpoint { tenant: "acme" }),
            ("/log/acme/checkpoint/", Route::NothingInLog { tenant: "acme" }),
            ("/log/acme", Route::Nothing),
            ("/audit/acme/runs", Route::Runs { tenant: "acme", query: "limit=2" }),
            ("/audit/acme/runs/r-1/records", Route::Records { tenant: "acme", run: "r-1" }),
            ("/audit/acme/runs/r-1", Route::NothingInAudit { tenant: "acme" }),
            ("/audit/acme/runs/a/b/records", Route::NothingInAudit { tenant: "acme" }),
            ("/", Route::Nothing),
        ] {
            assert_eq!(Route::of(path, Some("limit=2")), route, "{path}");
        }
    }

    #[test]
    fn a_page_is_bounded_and_strict() {
        assert_eq!(Page::of(""), Ok(Page { after: None, limit: 100 }));
        let after = RunId::new("r-1").ok();
        assert_eq!(Page::of("after=r-1&limit=5"), Ok(Page { after, limit: 5 }));
        assert_eq!(Page::of("limit=18446744073709551615").map(|page| page.limit), Ok(PAGE_RUNS_MAX));
        for bad in [
            "limit=0",
            "limit=",
            "limit=+5",
            "limit=05",
            "limit=1&limit=2",
            "after=R",
            "after=",
            "x=1",
            "limit",
        ] {
            assert!(Page::of(bad).is_err(), "{bad}");
        }
    }
}
