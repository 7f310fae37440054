//! checkpoints.json: note texts that are checkpoints, or not (c2sp.org/tlog-checkpoint).

use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::consistency::{self, ConsistencyError};
use runseal_tlog::hash::NodeHash;
use serde::Deserialize;

use crate::own;
use crate::shared::{Answer, Base64, Cases, Expect, Hex, load, number};

#[derive(Deserialize)]
struct File {
    cases: Cases<Case>,
    semantic: Cases<Stated>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    body_b64: Base64,
    expect: Expect,
    #[serde(default)]
    extensions: Vec<String>,
    origin: Option<String>,
    size: Option<String>,
    root: Option<Hex>,
}

#[derive(Deserialize)]
struct Stated {
    id: String,
    body_b64: Base64,
    origin: String,
    size: String,
    root: Hex,
}

const DECIDED: &[(&str, Answer)] = &[
    // The specification sets no limit; what cannot be cosigned with ML-DSA-44 is refused there.
    ("good-origin-long", Answer::Accept),
    // Sizes end at 2^63 - 1, as they do for peers with signed integers.
    ("open-size-2^63", Answer::Refuse),
    ("open-size-2^63+5", Answer::Refuse),
    ("open-size-2^64-1", Answer::Refuse),
    // One checkpoint, one spelling.
    ("open-root-trailing-bits", Answer::Refuse),
];

fn parse(id: &str, body: &Base64) -> Result<Checkpoint, String> {
    let text = std::str::from_utf8(&body.0).map_err(|error| error.to_string())?;
    let checkpoint = Checkpoint::parse(text).map_err(|error| error.to_string())?;
    assert_eq!(checkpoint.to_string(), text, "{id}: prints otherwise");
    Ok(checkpoint)
}

#[test]
fn shared_bodies_parse_or_not_as_stated() {
    let Some(file) = load::<File>("checkpoints.json") else { return };
    file.cases.check("checkpoints", |case| {
        let parsed = parse(&case.id, &case.body_b64);
        if let (Ok(checkpoint), Some(root)) = (&parsed, &case.root) {
            assert_eq!(Some(checkpoint.origin()), case.origin.as_deref(), "{}", case.id);
            assert_eq!(Some(checkpoint.size()), case.size.as_deref().map(number), "{}", case.id);
            assert_eq!(*checkpoint.root(), root.hash(), "{}", case.id);
            assert_eq!(checkpoint.extensions(), case.extensions, "{}", case.id);
        }
        case.expect.judge(&case.id, DECIDED, &parsed.map(drop))
    });
}

#[test]
fn shared_impossible_trees_are_read_as_they_are_stated() {
    let Some(file) = load::<File>("checkpoints.json") else { return };
    for case in &file.semantic.0 {
        let checkpoint = parse(&case.id, &case.body_b64).unwrap();
        assert_eq!(checkpoint.origin(), case.origin);
        assert_eq!(checkpoint.size(), number(&case.size));
        assert_eq!(*checkpoint.root(), case.root.hash());
        // That size zero goes with one root only is for the consistency check to say.
        if checkpoint.size() == 0 {
            let refused = consistency::verify(0, &NodeHash::EMPTY_ROOT, 0, checkpoint.root(), &[]);
            assert_eq!(refused, Err(ConsistencyError::EmptyRoot { root: *checkpoint.root() }));
        }
    }
}

#[test]
fn own_bodies_parse_or_fail_with_this_error() {
    own::walk("checkpoint", |case| {
        let text = std::str::from_utf8(&case.body).unwrap();
        let checkpoint = Checkpoint::parse(text).map_err(|error| error.to_string())?;
        assert_eq!(checkpoint.to_string(), text);
        assert_eq!(Some(checkpoint.origin()), case.value("origin"));
        assert_eq!(Some(checkpoint.size()), case.value("size").map(number));
        assert_eq!(Some(checkpoint.root().to_base64().as_str()), case.value("root"));
        assert_eq!(checkpoint.extensions(), case.values("extension").collect::<Vec<_>>());
        Ok(())
    });
}
