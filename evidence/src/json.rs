//! Lossless JSON: a strict reader (RFC 8259) that keeps everything an author wrote but insignificant white
//! space and the choice of escapes.
//!
//! In the *compact form* there is no white space between tokens, members keep their order and numbers their
//! digits, and a string escapes only `"`, `\` and the control characters below U+0020 (`\b`, `\t`, `\n`,
//! `\f`, `\r`, else `\u00xx` in lower case); every other character stands for itself in UTF-8. Compacting is
//! idempotent, so a compact text can be checked byte for byte ([`is_compact`]).
//!
//! What another reader could understand differently is refused: duplicate member names at any depth
//! (compared after unescaping), lone surrogates, invalid UTF-8, a byte order mark, anything after the value,
//! and arrays and objects nested more than [`DEPTH_MAX`] deep. The reader is iterative; its stack is bounded
//! by that depth, and its work by the length of the input, times a logarithm for member names.

mod envelope;
mod scanner;
mod string;

use std::{borrow::Cow, fmt};

use self::scanner::{Form, Scanner};
pub(crate) use self::{
    envelope::Envelope,
    scanner::characters,
    string::{plain_length, push_string, text_of},
};

/// Deepest nesting of arrays and objects in a value. `[[1]]` is nested two deep, `1` not at all.
pub const DEPTH_MAX: usize = 128;

/// Why a text is not the JSON it was to be, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault} at byte {offset}")]
pub struct JsonError {
    /// Offset of the offending byte from the start of the text, from 0.
    pub offset: usize,
    /// What is wrong there.
    pub fault: JsonFault,
}

/// What is wrong with a JSON text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonFault {
    /// The bytes are not UTF-8.
    #[error("invalid UTF-8")]
    Utf8,
    /// The text starts with U+FEFF.
    #[error("a byte order mark")]
    ByteOrderMark,
    /// The text ends inside a value.
    #[error("the text ends where {expected} should follow")]
    End {
        /// What should have followed.
        expected: &'static str,
    },
    /// A character that cannot stand here.
    #[error("found {found:?} where {expected} should stand")]
    Unexpected {
        /// What should stand here.
        expected: &'static str,
        /// What does.
        found: char,
    },
    /// A control character below U+0020 stands unescaped in a string.
    #[error("an unescaped control character in a string")]
    Control,
    /// A `\u` escape names half of a surrogate pair without the other half.
    #[error("a lone surrogate")]
    LoneSurrogate,
    /// An object names a member twice.
    #[error("member {name:?} occurs twice in one object")]
    DuplicateMember {
        /// The name, unescaped.
        name: String,
    },
    /// Arrays and objects are nested more than [`DEPTH_MAX`] deep.
    #[error("arrays and objects are nested more than {DEPTH_MAX} deep")]
    TooDeep,
    /// Something follows the value.
    #[error("something follows the value")]
    Trailing,
    /// The value is an object elsewhere, but must be one here.
    #[error("the value is not an object")]
    NotAnObject,
    /// White space or an escape that the compact form does not have; only where that form is demanded.
    #[error("not the compact form")]
    NotCompact,
}

/// One JSON value in compact form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Json(String);

impl Json {
    /// Reads one JSON value and compacts it.
    pub fn parse(input: &[u8]) -> Result<Self, JsonError> {
        let mut scanner = Scanner::open(input, Form::Any)?;
        scanner.value()?;
        scanner.end()?;
        Ok(Self(scanner.out))
    }

    /// The JSON string that spells `text`.
    pub fn string(text: &str) -> Self {
        let mut out = String::with_capacity(text.len() + 2);
        push_string(&mut out, text);
        Self(out)
    }

    /// The compact text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The compact text, without a copy.
    pub fn into_string(self) -> String {
        self.0
    }

    /// The members in order, or `None` where the value is not an object.
    pub fn object(&self) -> Option<Object> {
        Object::parse(self.0.as_bytes()).ok()
    }

    /// The elements in order, or `None` where the value is not an array.
    pub fn elements(&self) -> Option<Vec<Self>> {
        let mut scanner = Scanner::open(self.0.as_bytes(), Form::Compact).ok()?;
        scanner.elements(|scanner, start| Self(scanner.text[start..scanner.at].to_owned())).ok()
    }

    /// The characters of a JSON string, or `None` where the value is not a string.
    pub fn text(&self) -> Option<String> {
        text_of(&self.0).map(Cow::into_owned)
    }

    /// True for `null`.
    pub fn is_null(&self) -> bool {
        self.0 == "null"
    }

    /// A value known to be compact: a slice that [`Scanner`] passed over in [`Form::Compact`].
    pub(crate) fn from_compact(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The members of one JSON object in order, each value compact and nested up to [`DEPTH_MAX`] deep by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Object {
    /// Names (unescaped) and values.
    pub members: Vec<(String, Json)>,
}

impl Object {
    /// Reads one JSON object.
    pub fn parse(input: &[u8]) -> Result<Self, JsonError> {
        let mut scanner = Scanner::open(input, Form::Any)?;
        let members = scanner.members(|scanner, _| Json(std::mem::take(&mut scanner.out)))?;
        scanner.end()?;
        Ok(Self { members: members.into_iter().map(|(name, value)| (name.into_owned(), value)).collect() })
    }

    /// The value of the member called `name`.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
    }

    /// Takes the member called `name` out, leaving the others in order.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        let index = self.members.iter().position(|(member, _)| member == name)?;
        Some(self.members.remove(index).1)
    }

    /// The object as one value. Refused where two members share a name or the whole is nested too deep; the
    /// error's offset counts in the text that would have been made.
    pub fn to_json(&self) -> Result<Json, JsonError> {
        let mut text = String::with_capacity(
            2 + self.members.iter().map(|(n, v)| n.len() + v.0.len() + 4).sum::<usize>(),
        );
        text.push('{');
        for (index, (name, value)) in self.members.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            push_string(&mut text, name);
            text.push(':');
            text.push_str(&value.0);
        }
        text.push('}');
        check_compact(text.as_bytes())?;
        Ok(Json(text))
    }
}

/// True where `bytes` are one JSON value in compact form.
pub fn is_compact(bytes: &[u8]) -> bool {
    check_compact(bytes).is_ok()
}

/// Says where `bytes` stop being one JSON value in compact form.
pub fn check_compact(bytes: &[u8]) -> Result<(), JsonError> {
    let mut scanner = Scanner::open(bytes, Form::Compact)?;
    scanner.value()?;
    scanner.end()
}

/// The members of an object in compact form: names unescaped, values as slices of the input.
pub(crate) fn compact_members(bytes: &[u8]) -> Result<Vec<(Cow<'_, str>, &str)>, JsonError> {
    let mut scanner = Scanner::open(bytes, Form::Compact)?;
    let members = scanner.members(|scanner, start| &scanner.text[start..scanner.at])?;
    scanner.end()?;
    Ok(members)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compact(input: &str) -> String {
        Json::parse(input.as_bytes()).unwrap().into_string()
    }

    fn fault(input: impl AsRef<[u8]>) -> JsonFault {
        Json::parse(input.as_ref()).unwrap_err().fault
    }

    #[test]
    fn keeps_order_and_digits_and_drops_white_space() {
        for (input, expected) in [
            (
                " { \"b\" : 1.0 , \"a\" : [ 1e-7 ,\t-0 , 12345678901234567890 ] }\r\n",
                "{\"b\":1.0,\"a\":[1e-7,-0,12345678901234567890]}",
            ),
            ("1.2345678901234568e20", "1.2345678901234568e20"),
            ("1E+2", "1E+2"),
            ("9007199254740993", "9007199254740993"),
            ("[ ]", "[]"),
            ("{ }", "{}"),
            ("[null,true,false]", "[null,true,false]"),
            ("{\"a\":{\"a\":1},\"b\":{\"a\":2}}", "{\"a\":{\"a\":1},\"b\":{\"a\":2}}"),
        ] {
            assert_eq!(compact(input), expected, "{input}");
        }
    }

    #[test]
    fn strings_escape_only_what_they_must() {
        for (input, expected) in [
            (r#""\/""#, r#""/""#),
            (r#""\u0041\u00e9\u2028""#, "\"Aé\u{2028}\""),
            (r#""\ud83d\ude00""#, "\"😀\""),
            (r#""\u0022\u005c\u002f""#, r#""\"\\/""#),
            (r#""\u0000\u0008\u0009\u000A\u000b\u000C\u000d\u001F""#, r#""\u0000\b\t\n\u000b\f\r\u001f""#),
            ("\"\u{7f}\\u007f\"", "\"\u{7f}\u{7f}\""),
            ("\"e\u{301}\"", "\"e\u{301}\""),
            (r#"{"\u0061":1}"#, r#"{"a":1}"#),
        ] {
            assert_eq!(compact(input), expected, "{input}");
            assert!(is_compact(expected.as_bytes()), "{expected}");
        }
    }

    #[test]
    fn refuses_duplicate_members_at_any_depth_after_unescaping() {
        for input in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"[{"x":{"é":1,"b":2,"\u00e9":3}}]"#,
            r#"{"\ud83d\ude00":1,"😀":2}"#,
        ] {
            assert!(matches!(fault(input), JsonFault::DuplicateMember { .. }), "{input}");
        }
        let error = Json::parse(br#"{"a":1,"b":2,"a":3}"#).unwrap_err();
        assert_eq!(
            error,
            JsonError { offset: 13, fault: JsonFault::DuplicateMember { name: "a".to_owned() } }
        );
        assert_eq!(error.to_string(), "member \"a\" occurs twice in one object at byte 13");
    }

    #[test]
    fn refuses_text_that_readers_disagree_about() {
        assert_eq!(fault(b"\xef\xbb\xbf{}"), JsonFault::ByteOrderMark);
        assert_eq!(Json::parse(b"\"a\xff\"").unwrap_err(), JsonError { offset: 2, fault: JsonFault::Utf8 });
        assert_eq!(fault(b"\"\xed\xa0\x80\""), JsonFault::Utf8);
        for lone in [
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud800\ud800""#,
            r#""\ud800x""#,
            r#""\ud800\n""#,
            r#""\udc00\ud800""#,
        ] {
            assert_eq!(fault(lone), JsonFault::LoneSurrogate, "{lone}");
        }
        for trailing in ["1 2", "{}{}", "[]]", "nullx", "01", "0x1", "1a", "\"\"\"\""] {
            assert_eq!(fault(trailing), JsonFault::Trailing, "{trailing}");
        }
        for control in ["\"\n\"", "\"\0\"", "\"abcdefghij\u{1f}\"", "\"\t\""] {
            assert_eq!(fault(control), JsonFault::Control, "{control:?}");
        }
    }

    #[test]
    fn refuses_what_the_grammar_does_not_have() {
        for input in [
            "+1",
            "-",
            "-a",
            "1.",
            ".5",
            "1.e1",
            "1e",
            "1e+",
            "NaN",
            "Infinity",
            "-Infinity",
            "'a'",
            "{a:1}",
            "{\"a\"}",
            "{\"a\" 1}",
            "{\"a\":}",
            "{\"a\":1,}",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{,}",
            "\"\\x\"",
            "\"\\u12g4\"",
            "tru",
            "TRUE",
            "nul",
            "",
            " ",
            "[",
            "{",
            "\"",
            "\"\\",
            "\"\\u",
            "\"\\ud800\\u",
            "{\"a\":1",
            "[1",
            "]",
            "/**/1",
            "\u{a0}1",
            "\u{2028}1",
            "\x0b1",
            "é",
        ] {
            assert!(
                matches!(fault(input), JsonFault::Unexpected { .. } | JsonFault::End { .. }),
                "{input:?}: {:?}",
                fault(input)
            );
        }
        assert_eq!(
            Json::parse("[1,é]".as_bytes()).unwrap_err(),
            JsonError { offset: 3, fault: JsonFault::Unexpected { expected: "a value", found: 'é' } }
        );
    }

    #[test]
    fn nesting_is_bounded_at_128() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(nested(128).as_bytes()).is_ok());
        assert_eq!(
            Json::parse(nested(129).as_bytes()).unwrap_err(),
            JsonError { offset: 128, fault: JsonFault::TooDeep }
        );
        let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        assert!(is_compact(objects(128).as_bytes()));
        assert_eq!(fault(objects(129)), JsonFault::TooDeep);
        assert_eq!(fault("[".repeat(1 << 20)), JsonFault::TooDeep);
        // Siblings do not add up.
        assert!(Json::parse(format!("[{}]", vec![nested(127); 10].join(",")).as_bytes()).is_ok());
        // The members of an object are bounded one by one.
        let members = Object::parse(format!("{{\"a\":{}}}", nested(128)).as_bytes()).unwrap();
        assert_eq!(members.to_json().unwrap_err().fault, JsonFault::TooDeep);
    }

    #[test]
    fn many_members_take_no_quadratic_time() {
        let members: Vec<String> = (0..200_000).map(|index| format!("\"member-{index}\":0")).collect();
        let text = format!("{{{}}}", members.join(","));
        let started = std::time::Instant::now();
        assert_eq!(compact(&text), text);
        // Comparing every pair of names takes minutes.
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    }

    #[test]
    fn an_object_gives_its_members_in_order() {
        let mut object = Object::parse(br#" {"kind": "Note", "z\n": [1, 2], "a": {"x": null}} "#).unwrap();
        let names: Vec<&str> = object.members.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["kind", "z\n", "a"]);
        assert_eq!(object.get("kind").unwrap().text().unwrap(), "Note");
        assert_eq!(object.get("z\n").unwrap().as_str(), "[1,2]");
        assert_eq!(object.get("missing"), None);
        assert_eq!(object.remove("z\n").unwrap().elements().unwrap()[1].as_str(), "2");
        assert_eq!(object.to_json().unwrap().as_str(), r#"{"kind":"Note","a":{"x":null}}"#);
        object.members.push(("a".to_owned(), Json::string("again")));
        assert!(matches!(object.to_json().unwrap_err().fault, JsonFault::DuplicateMember { .. }));
        assert_eq!(Object::parse(b"[]").unwrap_err().fault, JsonFault::NotAnObject);
        assert_eq!(Object::parse(b"{} x").unwrap_err().fault, JsonFault::Trailing);
    }

    #[test]
    fn the_compact_form_has_one_spelling() {
        for other in [
            " 1",
            "1 ",
            "[1, 2]",
            r#""\/""#,
            r#""\u0041""#,
            r#""\u000a""#,
            r#""\u001F""#,
            r#"{"a": 1}"#,
            "[1,2]\n",
        ] {
            assert!(Json::parse(other.as_bytes()).is_ok(), "{other}");
            assert_eq!(check_compact(other.as_bytes()).unwrap_err().fault, JsonFault::NotCompact, "{other}");
        }
    }

    #[test]
    fn values_tell_what_they_are() {
        let value = Json::parse(br#"["a\u0001\"\\b", 1, {}]"#).unwrap();
        let elements = value.elements().unwrap();
        assert_eq!(elements[0].text().unwrap(), "a\u{1}\"\\b");
        assert_eq!(elements[1].text(), None);
        assert_eq!(elements[1].elements(), None);
        assert_eq!(elements[2].object().unwrap(), Object::default());
        assert_eq!(value.object(), None);
        assert_eq!(Json::parse(b"[]").unwrap().elements().unwrap(), []);
        assert!(Json::parse(b" null").unwrap().is_null());
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(6, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
                prop::collection::btree_map(any::<String>(), inner, 0..8)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn compacting_keeps_the_value_and_is_idempotent(value in any_json()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let once = compact(&pretty);
            let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            prop_assert_eq!(read(&once), read(&pretty));
            prop_assert_eq!(&compact(&once), &once);
            prop_assert!(is_compact(once.as_bytes()));
            prop_assert_eq!(is_compact(pretty.as_bytes()), pretty == once);
        }

        #[test]
        fn strings_survive(text in any::<String>()) {
            let json = Json::string(&text);
            prop_assert_eq!(json.text().unwrap(), text.clone());
            prop_assert_eq!(serde_json::from_str::<String>(json.as_str()).unwrap(), text);
            prop_assert!(is_compact(json.as_str().as_bytes()));
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Json::parse(&bytes);
            let _ = Object::parse(&bytes);
            let _ = check_compact(&bytes);
        }

        #[test]
        fn nearly_json_never_panics_and_agrees_with_serde(text in "[\\[\\]{}:,\"\\\\untrfalse0-9eE.+\\- é😀\u{1}]{0,24}") {
            let ours = Json::parse(text.as_bytes());
            if let Ok(json) = &ours {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok() || json.as_str().contains(['e', 'E']));
                prop_assert_eq!(&Json::parse(json.as_str().as_bytes()).unwrap(), json);
            } else if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
                let duplicate = matches!(ours.unwrap_err().fault, JsonFault::DuplicateMember { .. });
                prop_assert!(duplicate, "{text}");
            }
        }
    }
}
