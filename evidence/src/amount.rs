//! Amounts in words: the one place that knows plurals.

use std::fmt::Display;

/// A count with its noun, which is given as for one: `1 run`, `2 runs`, `0 entries`.
pub fn amount(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    if count == "1" {
        return format!("1 {noun}");
    }
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{count} {stem}ies"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_all_else_is_plural() {
        for (count, noun, words) in [
            (0u64, "run", "0 runs"),
            (1, "open run", "1 open run"),
            (2, "open run", "2 open runs"),
            (1, "entry", "1 entry"),
            (21, "entry", "21 entries"),
            (2, "key", "2 keys"),
        ] {
            assert_eq!(amount(count, noun), words);
        }
    }
}
