//! Canonical JSON as agentplane writes it: RFC 8785, except that integers keep all their digits, and that of
//! two equally near shortest doubles the upper one is taken.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// The canonical text of a value: members by UTF-16 code units, no white space, doubles as ECMAScript
/// prints them.
pub(super) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (at, name) in names.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                string(name, out);
                out.push(':');
                write(&members[name.as_str()], out);
            }
            out.push('}');
        }
        Value::Array(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(element, out);
            }
            out.push(']');
        }
        Value::String(text) => string(text, out),
        Value::Number(number) => write_number(number, out),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Null => out.push_str("null"),
    }
}

/// RFC 8785, section 3.2.2.2: the shortest escapes, everything else as it is.
fn string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn write_number(number: &Number, out: &mut String) {
    match number.as_f64() {
        Some(double) if number.is_f64() => write_double(double, out),
        _ => {
            let _ = write!(out, "{number}");
        }
    }
}

/// ECMAScript's Number::toString (ECMA-262, section 6.1.6.1.20), radix 10.
fn write_double(double: f64, out: &mut String) {
    if double == 0.0 {
        return out.push('0');
    }
    if double < 0.0 {
        out.push('-');
    }
    // The shortest digits that read back, and the exponent of the first of them.
    let shortest = format!("{:e}", double.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let point = exponent.parse::<i64>().unwrap_or(0) + 1;
    let length = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    if (length..=21).contains(&point) {
        let _ = write!(out, "{digits}{}", zeros(point - length));
    } else if (1..=21).contains(&point) {
        let (whole, rest) = digits.split_at(usize::try_from(point).unwrap_or(0));
        let _ = write!(out, "{whole}.{rest}");
    } else if (-5..=0).contains(&point) {
        let _ = write!(out, "0.{}{digits}", zeros(-point));
    } else {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let sign = if point > 0 { "+" } else { "-" };
        let _ = write!(out, "{first}{dot}{rest}e{sign}{}", (point - 1).abs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of RFC 8785, appendix B.
    #[test]
    fn doubles_are_spelled_as_ecmascript_spells_them() {
        for (bits, text) in [
            (0x0000_0000_0000_0000u64, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        ] {
            let mut out = String::new();
            write_double(f64::from_bits(bits), &mut out);
            assert_eq!(out, text, "{bits:x}");
        }
    }

    #[test]
    fn members_go_by_utf16_and_integers_keep_their_digits() {
        let value: Value = serde_json::from_str(
            "{\"\\ufb33\":1,\"\\ud83d\\ude00\":2,\"b\":[9007199254740993,1.0,\"\\u20ac\\n\\u000f\"],\"a\":null}",
        )
        .unwrap();
        assert_eq!(
            canonical(&value),
            "{\"a\":null,\"b\":[9007199254740993,1,\"\u{20ac}\\n\\u000f\"],\"\u{1f600}\":2,\"\u{fb33}\":1}"
        );
    }
}
