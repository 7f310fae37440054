//! The repository's own cases: one a file, as README.md beside this file describes.

use std::fs;
use std::path::Path;

/// One case.
pub(crate) struct Case {
    name: String,
    lines: Vec<(String, String)>,
    /// The input.
    pub(crate) body: Vec<u8>,
}

impl Case {
    /// The values of every line of a kind, in order.
    pub(crate) fn values<'c>(&'c self, kind: &str) -> impl Iterator<Item = &'c str> {
        self.lines.iter().filter(move |(key, _)| key == kind).map(|(_, value)| value.as_str())
    }

    /// The value of a line that stands at most once.
    pub(crate) fn value(&self, kind: &str) -> Option<&str> {
        let mut values = self.values(kind);
        let value = values.next();
        assert_eq!(values.next(), None, "{}: {kind} stands twice", self.name);
        value
    }

    fn parse(name: String, bytes: &[u8]) -> Self {
        const SEPARATOR: &[u8] = b"\n---\n";
        let at = bytes.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
        let (head, body) = bytes.split_at(at.unwrap_or_else(|| panic!("{name}: no separator")));
        let head = std::str::from_utf8(head).unwrap_or_else(|error| panic!("{name}: {error}"));
        let lines = head.lines().map(|line| match line.split_once(':') {
            Some((key, value)) => (key.to_owned(), value.trim_start().to_owned()),
            None => panic!("{name}: {line:?} has no colon"),
        });
        Self { lines: lines.collect(), body: body[SEPARATOR.len()..].to_vec(), name }
    }
}

/// Holds every case of a folder against `check`, which answers the error as text. There must be cases
/// that are accepted and cases that are refused.
pub(crate) fn walk(folder: &str, check: impl Fn(&Case) -> Result<(), String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(folder);
    let mut faults = Vec::new();
    let (mut accepted, mut refused) = (0, 0);
    for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(&folder).unwrap().display().to_string();
        let case = Case::parse(name, &fs::read(&path).unwrap());
        let expected = case.value("expect").unwrap_or_else(|| panic!("{}: nothing expected", case.name));
        let found = check(&case);
        match expected {
            "accept" => accepted += 1,
            _ => refused += 1,
        }
        let found = found.as_ref().map_or_else(String::as_str, |()| "accept");
        if found != expected {
            faults.push(format!("{}:\n  expected {expected}\n  found    {found}", case.name));
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", folder.display(), faults.join("\n"));
    assert!(accepted > 0 && refused > 0, "{} lacks cases", folder.display());
}
