//! Who may read what: bearer tokens with scopes, and what is open without one.

use std::{
    fmt,
    str::FromStr,
    sync::{Arc, PoisonError, RwLock},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use runseal_evidence::name::{NameError, TenantId};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use thiserror::Error;
use zeroize::Zeroizing;

/// What a token lets its bearer do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// Read checkpoints, tiles and entries.
    Log,
    /// List runs and read their records.
    Audit,
    /// Append and seal.
    Write,
}

impl Scope {
    const ALL: [Self; 3] = [Self::Log, Self::Audit, Self::Write];

    const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Audit => "audit",
            Self::Write => "write",
        }
    }
}

/// One or more scopes, as `log,audit`; each once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scopes(Vec<Scope>);

impl FromStr for Scopes {
    type Err = TokenFault;

    fn from_str(text: &str) -> Result<Self, TokenFault> {
        let mut scopes = Vec::new();
        for name in text.split(',') {
            let scope = Scope::ALL.into_iter().find(|scope| scope.name() == name);
            let scope = scope.ok_or_else(|| TokenFault::Scope(name.to_owned()))?;
            if scopes.contains(&scope) {
                return Err(TokenFault::ScopeTwice(scope));
            }
            scopes.push(scope);
        }
        Ok(Self(scopes))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|scope| scope.name()).collect();
        f.write_str(&names.join(","))
    }
}

/// One tenant, or all of them, spelled `*`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tenants {
    /// All, whatever their names.
    All,
    /// This one alone.
    One(TenantId),
}

impl Tenants {
    fn covers(&self, tenant: &str) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => one.as_str() == tenant,
        }
    }
}

impl FromStr for Tenants {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text == "*" { Ok(Self::All) } else { TenantId::new(text).map(Self::One) }
    }
}

impl fmt::Display for Tenants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::One(tenant) => tenant.fmt(f),
        }
    }
}

/// A line of the tokens file: `SCOPES TENANT SHA256HEX`. The token itself is not in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    scopes: Scopes,
    tenants: Tenants,
    hash: [u8; 32],
}

impl Token {
    /// A new token of 32 random bytes and the line that admits it.
    ///
    /// # Errors
    /// When the machine gives no randomness.
    pub fn generate(scopes: Scopes, tenants: Tenants) -> Result<(Zeroizing<String>, Self), getrandom::Error> {
        let mut secret = Zeroizing::new([0u8; 32]);
        getrandom::fill(secret.as_mut_slice())?;
        let token = Zeroizing::new(format!("rs_{}", URL_SAFE_NO_PAD.encode(*secret)));
        let hash = hash(&token);
        Ok((token, Self { scopes, tenants, hash }))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.scopes, self.tenants, hex::encode(self.hash))
    }
}

impl FromStr for Token {
    type Err = TokenFault;

    fn from_str(line: &str) -> Result<Self, TokenFault> {
        let [scopes, tenants, digits] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(TokenFault::Fields);
        };
        let mut hash = [0; 32];
        let lower = !digits.bytes().any(|byte| byte.is_ascii_uppercase());
        if !lower || hex::decode_to_slice(digits, &mut hash).is_err() {
            return Err(TokenFault::Hash);
        }
        Ok(Self { scopes: scopes.parse()?, tenants: tenants.parse()?, hash })
    }
}

/// What is wrong with a line of the tokens file.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum TokenFault {
    /// Not three fields.
    #[error("expected SCOPES TENANT SHA256HEX with one space between")]
    Fields,
    /// No such scope.
    #[error("unknown scope {0:?}; there are log, audit and write")]
    Scope(String),
    /// A scope given twice.
    #[error("scope {0} is given twice")]
    ScopeTwice(Scope),
    /// The tenant is no name.
    #[error("{0} (or * for all)")]
    Tenant(#[from] NameError),
    /// Not a hash.
    #[error("the hash is not 64 lower-case hexadecimal digits")]
    Hash,
}

/// Why a tokens file is refused. A line that is a token put there by mistake is not repeated.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum TokensError {
    /// A line that admits nobody.
    #[error("line {line}: {fault}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        fault: TokenFault,
    },
    /// No line at all: nobody could ever be admitted.
    #[error("it holds no token; \"runseal token\" makes one")]
    Empty,
}

/// The tokens that admit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tokens(Vec<Token>);

impl FromStr for Tokens {
    type Err = TokensError;

    /// Reads a tokens file. Empty lines and lines that start with `#` are passed over.
    fn from_str(text: &str) -> Result<Self, TokensError> {
        let mut tokens = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let token = line.parse().map_err(|fault| TokensError::Line { line: number + 1, fault })?;
            tokens.push(token);
        }
        if tokens.is_empty() { Err(TokensError::Empty) } else { Ok(Self(tokens)) }
    }
}

impl Tokens {
    /// What a presented token is good for. Every line is compared, in constant time, whether or not one
    /// before it fits: how long it takes tells nothing.
    fn judge(&self, presented: &str, scope: Scope, tenant: Option<&str>) -> Verdict {
        let presented = hash(presented);
        let (mut known, mut allowed) = (Choice::from(0), Choice::from(0));
        for token in &self.0 {
            let same = token.hash.ct_eq(&presented);
            let covers = match tenant {
                Some(tenant) => token.tenants.covers(tenant),
                None => token.tenants == Tenants::All,
            };
            let grants = covers && token.scopes.0.contains(&scope);
            known |= same;
            allowed |= same & Choice::from(u8::from(grants));
        }
        match (known.into(), allowed.into()) {
            (_, true) => Verdict::Allowed,
            (true, false) => Verdict::Forbidden,
            (false, false) => Verdict::Unauthorized,
        }
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Whether a request is let in. The verdict depends on the token and the path alone, never on what exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Allowed,
    /// No token, or one that nobody knows: 401.
    Unauthorized,
    /// A known token that does not reach so far: 403.
    Forbidden,
}

/// What a request needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Need<'r> {
    pub(super) scope: Scope,
    /// The tenant, as spelled; the whole plane with `None`.
    pub(super) tenant: Option<&'r str>,
}

/// Who may read what.
#[derive(Debug)]
pub struct Access {
    /// Without tokens everything is open, or, away from loopback, everything but a public log is closed.
    tokens: RwLock<Option<Arc<Tokens>>>,
    /// Whether reading logs needs no token.
    public_log: bool,
    /// Whether only this machine can connect.
    loopback: bool,
}

impl Access {
    /// The rules for an address, where there are any.
    ///
    /// # Errors
    /// An address that others can reach needs tokens, or a log declared public.
    pub fn new(loopback: bool, tokens: Option<Tokens>, public_log: bool) -> Result<Self, AccessError> {
        if !loopback && tokens.is_none() && !public_log {
            return Err(AccessError::OpenToOthers);
        }
        Ok(Self { tokens: RwLock::new(tokens.map(Arc::new)), public_log, loopback })
    }

    /// Admits by these tokens from the next request on, and by no others.
    pub fn replace_tokens(&self, tokens: Tokens) {
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(tokens));
    }

    fn tokens(&self) -> Option<Arc<Tokens>> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether anyone who can connect may read the log: then shared caches may keep it.
    pub(super) fn log_is_public(&self) -> bool {
        self.public_log || (self.loopback && self.tokens().is_none())
    }

    pub(super) fn judge(&self, need: Need<'_>, authorization: Option<&[u8]>) -> Verdict {
        if self.public_log && need.scope == Scope::Log {
            return Verdict::Allowed;
        }
        match self.tokens() {
            None if self.loopback => Verdict::Allowed,
            None => Verdict::Unauthorized,
            Some(tokens) => match authorization.and_then(bearer) {
                Some(token) => tokens.judge(token, need.scope, need.tenant),
                None => Verdict::Unauthorized,
            },
        }
    }
}

/// Why a server may not listen where it was told to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum AccessError {
    /// Anybody could read every record.
    #[error(
        "others can reach this address: give --tokens FILE (\"runseal token\" makes one), \
         or --public-log to open the logs, and only them, to everybody"
    )]
    OpenToOthers,
}

/// The token of an `Authorization: Bearer` header (RFC 6750, section 2.1).
fn bearer(header: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(header).ok()?;
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the formats document.
    const LINE: &str = "log,audit acme f7ae77fb5c110c2f1e4fb8d6591fb959374ddeb7ec4ae96609325995185251d5";
    const BEARER: &[u8] = b"Bearer rs_example_token_do_not_use";

    fn access(lines: &str) -> Access {
        Access::new(false, Some(lines.parse().unwrap()), false).unwrap()
    }

    fn verdict(access: &Access, scope: Scope, tenant: Option<&str>, header: Option<&[u8]>) -> Verdict {
        access.judge(Need { scope, tenant }, header)
    }

    #[test]
    fn a_token_reaches_as_far_as_its_line_says() {
        let access = access(LINE);
        let judge = |scope, tenant, header| verdict(&access, scope, tenant, header);
        assert_eq!(judge(Scope::Log, Some("acme"), Some(BEARER)), Verdict::Allowed);
        assert_eq!(judge(Scope::Audit, Some("acme"), Some(BEARER)), Verdict::Allowed);
        assert_eq!(judge(Scope::Write, Some("acme"), Some(BEARER)), Verdict::Forbidden);
        for other in [Some("globex"), Some("nobody"), Some("NO NAME"), None] {
            assert_eq!(judge(Scope::Log, other, Some(BEARER)), Verdict::Forbidden, "{other:?}");
            assert_eq!(judge(Scope::Log, other, None), Verdict::Unauthorized);
        }
        for bad in [
            &b"Bearer rs_other"[..],
            b"rs_example_token_do_not_use",
            b"Basic rs_example_token_do_not_use",
            b"\xff",
        ] {
            assert_eq!(judge(Scope::Log, Some("acme"), Some(bad)), Verdict::Unauthorized);
        }
    }

    #[test]
    fn a_token_for_all_reaches_the_plane_itself() {
        let all = access(&LINE.replace(" acme ", " * "));
        assert_eq!(verdict(&all, Scope::Audit, None, Some(BEARER)), Verdict::Allowed);
        assert_eq!(verdict(&all, Scope::Audit, Some("anyone"), Some(BEARER)), Verdict::Allowed);
    }

    #[test]
    fn loopback_is_open_and_every_other_address_needs_a_decision() {
        assert_eq!(Access::new(false, None, false).unwrap_err(), AccessError::OpenToOthers);
        let open = Access::new(true, None, false).unwrap();
        assert_eq!(verdict(&open, Scope::Audit, Some("acme"), None), Verdict::Allowed);
        let public = Access::new(false, None, true).unwrap();
        assert_eq!(verdict(&public, Scope::Log, Some("acme"), None), Verdict::Allowed);
        assert_eq!(verdict(&public, Scope::Audit, Some("acme"), Some(BEARER)), Verdict::Unauthorized);
        assert_eq!(verdict(&public, Scope::Audit, None, None), Verdict::Unauthorized);
        let guarded = Access::new(true, Some(LINE.parse().unwrap()), false).unwrap();
        assert_eq!(verdict(&guarded, Scope::Log, Some("acme"), None), Verdict::Unauthorized);
    }

    #[test]
    fn a_generated_token_is_admitted_by_its_line() {
        let (token, line) = Token::generate("audit".parse().unwrap(), "acme".parse().unwrap()).unwrap();
        let access = access(&line.to_string());
        let header = format!("bearer {}", *token);
        assert_eq!(verdict(&access, Scope::Audit, Some("acme"), Some(header.as_bytes())), Verdict::Allowed);
        assert_eq!(token.len(), 3 + 43);
        assert!(!line.to_string().contains(&**token));
    }

    #[test]
    fn a_bad_line_is_named_and_not_repeated() {
        for (text, fault) in [
            (format!("# all\n\n{LINE} \n"), TokenFault::Fields),
            (format!("\n\n{}", LINE.replace("log,", "logs,")), TokenFault::Scope("logs".to_owned())),
            (format!("\n\n{}", LINE.replace("log,audit", "log,log")), TokenFault::ScopeTwice(Scope::Log)),
            (format!("\n\n{}", LINE.to_uppercase().replace("LOG,AUDIT ACME", "log acme")), TokenFault::Hash),
            (format!("\n\n{}", &LINE[..LINE.len() - 1]), TokenFault::Hash),
        ] {
            assert_eq!(text.parse::<Tokens>(), Err(TokensError::Line { line: 3, fault }));
        }
        assert_eq!("# nothing\n".parse::<Tokens>(), Err(TokensError::Empty));
    }
}
