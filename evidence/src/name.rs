//! The names evidence is filed under: tenants, runs, kinds, outcomes, effects, cases and the base of a
//! plane's log origins.
//!
//! Every name is checked once, where it is made; parsing text and deserialising go through that same door.
//! Names order as their bytes do, so they order alike in memory and as keys of a store.

use std::{borrow::Borrow, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A name that breaks its rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not a valid {noun}: {rule}")]
pub struct NameError {
    /// What the name was to be: "tenant", "run", "base" and so on.
    pub noun: &'static str,
    /// The refused value; a long one is cut to its first characters and ends in `…`.
    pub value: String,
    /// The rule it breaks.
    pub rule: NameRule,
}

/// The rules a name can break. The text of each states what is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameRule {
    /// The length is outside the bounds.
    #[error("it must have {min} to {max} bytes")]
    Length {
        /// Fewest bytes allowed.
        min: usize,
        /// Most bytes allowed.
        max: usize,
    },
    /// The first character of a tenant or run.
    #[error("it must start with a lower-case letter or a digit")]
    StartsLowerOrDigit,
    /// The later characters of a tenant or run.
    #[error("it may hold only lower-case letters, digits, '.', '_' and '-'")]
    LowerAlphabet,
    /// The first character of a kind.
    #[error("it must start with a letter")]
    StartsLetter,
    /// The later characters of a kind.
    #[error("it may hold only letters, digits, '.', '_' and '-'")]
    Alphabet,
    /// A control character.
    #[error("it must not hold control characters")]
    Control,
    /// Not a lower-case hexadecimal digit.
    #[error("it must be 64 lower-case hexadecimal digits")]
    Hex64,
    /// White space or `+`, which a note's key name cannot hold.
    #[error("it must not hold white space or '+'")]
    SpaceOrPlus,
    /// A slash at either end.
    #[error("it must not start or end with '/'")]
    OuterSlash,
    /// The separator between a base and a tenant.
    #[error("it must not contain \"/log/\", which separates a base from a tenant")]
    LogSeparator,
}

/// Why an origin is not that of a tenant's log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    /// The origin does not end in `/log/` and the tenant.
    #[error("{origin:?} is not the origin of a log of tenant {tenant}: it does not end in \"/log/{tenant}\"")]
    OtherTenant {
        /// The origin; a long one is cut.
        origin: String,
        /// The tenant whose log it was to name.
        tenant: TenantId,
    },
    /// What stands before the tenant is not a base.
    #[error(transparent)]
    Base(#[from] NameError),
}

/// Declares a checked name around a `String`.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $noun:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Checks `value` and makes it a name.
            pub fn new(value: impl Into<String>) -> Result<Self, NameError> {
                let value = value.into();
                Self::check(&value)?;
                Ok(Self(value))
            }

            /// Checks `value` where it stands, without making it a name.
            pub fn check(value: &str) -> Result<(), NameError> {
                $check(value).map_err(|rule| NameError { noun: $noun, value: excerpt(value), rule })
            }

            /// A text that [`Self::check`] let pass.
            #[allow(dead_code, reason = "not every name is read in place")]
            pub(crate) fn checked(value: &str) -> Self {
                debug_assert!(Self::check(value).is_ok());
                Self(value.to_owned())
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(value: &str) -> Result<Self, NameError> {
                Self::new(value)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(value: String) -> Result<Self, NameError> {
                Self::new(value)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

name! {
    /// Whose runs these are: `[a-z0-9][a-z0-9._-]{0,63}`. Each tenant has a log of its own.
    TenantId, "tenant", check_identifier
}

name! {
    /// One execution with one chain of records: `[a-z0-9][a-z0-9._-]{0,63}`.
    RunId, "run", check_identifier
}

name! {
    /// What a record is about: `[A-Za-z][A-Za-z0-9._-]{0,63}`. The set of kinds is open.
    Kind, "kind", check_kind
}

name! {
    /// How a run ended: 1 to 128 bytes without control characters.
    Outcome, "outcome", check_label
}

name! {
    /// A long-lived matter that many runs may touch: 1 to 128 bytes without control characters.
    CaseId, "case", check_label
}

name! {
    /// An effect that may start once in a run: 64 lower-case hexadecimal digits.
    EffectKey, "effect", check_effect
}

name! {
    /// Where a step stands in the plan of its run: 1 to 512 bytes without control characters.
    StepPath, "step path", check_path
}

name! {
    /// What the plan of a run is called: 1 to 128 bytes without control characters.
    DefinitionName, "definition", check_label
}

name! {
    /// How the values of a run's steps are encoded: 1 to 128 bytes without control characters.
    CodecId, "codec", check_label
}

name! {
    /// What the origins of one plane's logs begin with.
    ///
    /// 1 to 200 bytes; no white space (Unicode `White_Space`), `+` or control character, since an origin is
    /// a note's key name; no `/` at either end; no `/log/` inside.
    ///
    /// The origin of a tenant's log is the base for `default`, else `<base>/log/<tenant>`; see
    /// [`Base::origin`]. No two pairs of base and tenant spell one origin:
    ///
    /// - Two origins of `default` are the bases themselves.
    /// - Two other origins end in `/log/` and a tenant. A tenant holds no `/`, so both split at their last
    ///   `/log/` into base and tenant, and in one way only.
    /// - An origin of `default` holds no `/log/`, every other origin does.
    ///
    /// A base such as `log` or `plane/log` therefore collides with nothing: `plane/log` would have to be the
    /// origin of base `plane` and an empty tenant, which is not a name.
    Base, "base", check_base
}

impl TenantId {
    /// The tenant of a plane that names none. An ordinary tenant but for its origin, which is the bare base.
    pub const DEFAULT: &'static str = "default";

    /// True for the tenant named `default`.
    pub fn is_default(&self) -> bool {
        self.0 == Self::DEFAULT
    }
}

impl Default for TenantId {
    /// The tenant named `default`.
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl Base {
    /// The origin of `tenant`'s log: at most 269 bytes.
    ///
    /// Composed from both names each time it is read, so no order of construction can change it.
    pub fn origin(&self, tenant: &TenantId) -> String {
        if tenant.is_default() { self.0.clone() } else { format!("{}{LOG_SEPARATOR}{tenant}", self.0) }
    }

    /// The tenant whose log bears `origin`, if it is an origin of a plane.
    pub fn tenant_of(origin: &str) -> Option<TenantId> {
        let name = origin.rsplit_once(LOG_SEPARATOR).map_or(TenantId::DEFAULT, |(_, tenant)| tenant);
        let tenant = TenantId::new(name).ok()?;
        Self::of_origin(origin, &tenant).is_ok().then_some(tenant)
    }

    /// The base that gives `tenant`'s log this origin, or why there is none.
    pub fn of_origin(origin: &str, tenant: &TenantId) -> Result<Self, OriginError> {
        let base = if tenant.is_default() {
            Some(origin)
        } else {
            origin.strip_suffix(tenant.as_str()).and_then(|head| head.strip_suffix(LOG_SEPARATOR))
        };
        match base {
            Some(base) => Ok(Self::new(base)?),
            None => Err(OriginError::OtherTenant { origin: excerpt(origin), tenant: tenant.clone() }),
        }
    }

    /// The name of the key that signs this plane's records: `<base>/records`.
    pub fn record_key_name(&self) -> String {
        format!("{}/records", self.0)
    }
}

/// Between the base and the tenant of an origin.
const LOG_SEPARATOR: &str = "/log/";

/// Most characters of a refused value that an error repeats.
const EXCERPT_CHARS: usize = 80;

fn excerpt(value: &str) -> String {
    match value.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

fn check_length(value: &str, max: usize) -> Result<(), NameRule> {
    if value.is_empty() || value.len() > max { Err(NameRule::Length { min: 1, max }) } else { Ok(()) }
}

fn check_identifier(value: &str) -> Result<(), NameRule> {
    check_length(value, IDENTIFIER_BYTES_MAX)?;
    if identifier_length(value.as_bytes()) < value.len() {
        return Err(NameRule::LowerAlphabet);
    }
    if value.bytes().next().is_some_and(lower_or_digit) { Ok(()) } else { Err(NameRule::StartsLowerOrDigit) }
}

/// The [`TenantId`] or [`RunId`] that `text` starts with, as long as it can be, and what follows it.
#[inline]
pub(crate) fn split_identifier(text: &str) -> Option<(&str, &str)> {
    let (identifier, rest) = text.split_at_checked(identifier_length(text.as_bytes()))?;
    check_length(identifier, IDENTIFIER_BYTES_MAX).ok()?;
    identifier.bytes().next().is_some_and(lower_or_digit).then_some((identifier, rest))
}

/// Longest identifier.
const IDENTIFIER_BYTES_MAX: usize = 64;

/// How many of the first bytes an identifier can have.
fn identifier_length(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| IDENTIFIER[usize::from(**byte)]).count()
}

const fn lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether an identifier can have the byte. An auditor looks at millions of identifiers; this takes least time.
const IDENTIFIER: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        table[byte as usize] = lower_or_digit(byte) || matches!(byte, b'.' | b'_' | b'-');
        byte += 1;
    }
    table
};

fn check_kind(value: &str) -> Result<(), NameRule> {
    check_length(value, 64)?;
    if !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
        return Err(NameRule::Alphabet);
    }
    if value.starts_with(|first: char| first.is_ascii_alphabetic()) {
        Ok(())
    } else {
        Err(NameRule::StartsLetter)
    }
}

fn check_label(value: &str) -> Result<(), NameRule> {
    check_length(value, 128)?;
    if holds_control(value) { Err(NameRule::Control) } else { Ok(()) }
}

fn holds_control(value: &str) -> bool {
    // Most values are plain ASCII, and seen to be at once.
    !value.bytes().all(|byte| matches!(byte, b' '..=b'~')) && value.contains(char::is_control)
}

fn check_path(value: &str) -> Result<(), NameRule> {
    check_length(value, 512)?;
    if holds_control(value) { Err(NameRule::Control) } else { Ok(()) }
}

fn check_effect(value: &str) -> Result<(), NameRule> {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if value.len() == 64 && value.bytes().all(hex) { Ok(()) } else { Err(NameRule::Hex64) }
}

fn check_base(value: &str) -> Result<(), NameRule> {
    check_length(value, 200)?;
    if value.contains(char::is_control) {
        return Err(NameRule::Control);
    }
    if value.contains(|c: char| c.is_whitespace() || c == '+') {
        return Err(NameRule::SpaceOrPlus);
    }
    if value.starts_with('/') || value.ends_with('/') {
        return Err(NameRule::OuterSlash);
    }
    if value.contains(LOG_SEPARATOR) { Err(NameRule::LogSeparator) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
