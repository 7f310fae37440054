//! Keys: whose rows, which table, which row.
//!
//! A stored key is `len(scope) || scope || table || bytes`, the first and third of one byte each. The scope
//! leads, so a read that forgets whose rows it wants finds nothing rather than another tenant's; and a range
//! is made from a [`Space`], so it cannot leave its scope and table.

use std::fmt;

use runseal_evidence::name::TenantId;

use super::schema::Table;

/// Whose rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scope {
    /// The plane's own: its format, its base, the list of its tenants.
    Plane,
    /// The log of the tenants' logs.
    Directory,
    /// A tenant's.
    Tenant(TenantId),
}

/// The name that the directory's log has where tenants' logs have the tenant. No tenant can bear it.
pub(crate) const DIRECTORY: &str = "_directory";

impl Scope {
    /// The name as stored: empty for the plane.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Plane => "",
            Self::Directory => DIRECTORY,
            Self::Tenant(tenant) => tenant.as_str(),
        }
    }

    /// The tenant, where there is one.
    pub(crate) fn tenant(&self) -> Option<&TenantId> {
        match self {
            Self::Tenant(tenant) => Some(tenant),
            Self::Plane | Self::Directory => None,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plane => f.write_str("the plane"),
            Self::Directory => f.write_str("the directory"),
            Self::Tenant(tenant) => write!(f, "tenant {tenant}"),
        }
    }
}

/// One table of one scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Space {
    prefix: Vec<u8>,
}

impl Space {
    /// The rows of `table` in `scope`.
    pub(crate) fn of(scope: &Scope, table: Table) -> Self {
        let name = scope.name().as_bytes();
        let mut prefix = Vec::with_capacity(name.len() + 2);
        prefix.push(u8::try_from(name.len()).expect("a scope's name has at most 64 bytes"));
        prefix.extend_from_slice(name);
        prefix.push(table as u8);
        Self { prefix }
    }

    /// The stored key of the row `key`, which is the concatenation of `parts`.
    pub(crate) fn key(&self, parts: &[&[u8]]) -> Vec<u8> {
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        let mut key = Vec::with_capacity(self.prefix.len() + length);
        key.extend_from_slice(&self.prefix);
        for part in parts {
            key.extend_from_slice(part);
        }
        key
    }

    /// The part of a stored key that is the row's own. Empty where the key is of another space.
    pub(crate) fn own<'k>(&self, stored: &'k [u8]) -> &'k [u8] {
        stored.strip_prefix(self.prefix.as_slice()).unwrap_or_default()
    }

    /// Every row.
    pub(crate) fn all(&self) -> KeyRange {
        self.starting_with(&[])
    }

    /// The rows whose key starts with the concatenation of `parts`.
    pub(crate) fn starting_with(&self, parts: &[&[u8]]) -> KeyRange {
        let lower = self.key(parts);
        let upper = successor(&lower);
        KeyRange { lower, upper }
    }
}

/// Stored keys from `lower` to below `upper`. Inverted or empty bounds hold no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Vec<u8>,
}

impl KeyRange {
    /// The part of the range from the stored key `key` on.
    pub(crate) fn from(mut self, key: Vec<u8>) -> Self {
        self.lower = self.lower.max(key);
        self
    }

    /// The part of the range after the stored key `key`.
    pub(crate) fn after(self, mut key: Vec<u8>) -> Self {
        key.push(0);
        self.from(key)
    }

    /// The part of the range before the stored key `key`.
    pub(crate) fn before(mut self, key: Vec<u8>) -> Self {
        self.upper = self.upper.min(key);
        self
    }

    /// Whether no key can be in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.lower >= self.upper
    }
}

/// The least key that is above every key starting with `prefix`.
fn successor(prefix: &[u8]) -> Vec<u8> {
    let kept = prefix.iter().rposition(|byte| *byte < 0xff);
    let kept = kept.expect("a stored key starts with a length and a table, both below 255");
    let mut next = prefix[..=kept].to_vec();
    next[kept] += 1;
    next
}

/// A time as part of a key: earlier times sort first, also those before 1970.
pub(crate) fn time_key(ms: i64) -> [u8; 8] {
    (ms.cast_unsigned() ^ 1 << 63).to_be_bytes()
}

/// The time of [`time_key`].
pub(crate) fn time_of_key(key: [u8; 8]) -> i64 {
    (u64::from_be_bytes(key) ^ 1 << 63).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Scope {
        Scope::Tenant(TenantId::new(name).unwrap())
    }

    #[test]
    fn a_range_never_reaches_a_neighbouring_tenant_or_table() {
        let a = Space::of(&tenant("a"), Table::Runs).all();
        for (scope, table) in [("a", Table::Records), ("aa", Table::Runs), ("b", Table::Runs)] {
            let other = Space::of(&tenant(scope), table).key(&[b"x"]);
            assert!(other < a.lower || other >= a.upper, "{scope} {table:?}");
        }
        let own = Space::of(&tenant("a"), Table::Runs).key(&[&[0xff; 80]]);
        assert!(a.lower <= own && own < a.upper);
    }

    #[test]
    fn the_end_of_a_prefix_is_its_successor_however_high_its_bytes() {
        let space = Space::of(&tenant("a"), Table::Admissions);
        let range = space.starting_with(&[&[0xff, 0xff]]);
        let highest = space.key(&[&[0xff; 600]]);
        assert!(range.lower <= highest && highest < range.upper);
        assert!(space.starting_with(&[b"k"]).upper < space.key(&[b"l1"]));
    }

    #[test]
    fn times_sort_as_keys_also_before_1970() {
        let times = [i64::MIN, -1, 0, 1, 1_700_000_000_000, i64::MAX];
        assert!(times.map(time_key).is_sorted());
        assert_eq!(times.map(|ms| time_of_key(time_key(ms))), times);
    }

    #[test]
    fn inverted_bounds_hold_no_key() {
        let space = Space::of(&tenant("a"), Table::Runs);
        assert!(space.all().from(space.key(&[b"b"])).before(space.key(&[b"a"])).is_empty());
        assert!(space.all().after(space.key(&[b"a"])).before(space.key(&[b"a"])).is_empty());
    }
}
