//! notes.json: signed notes, verifier and private keys (c2sp.org/signed-note).

use runseal_tlog::key::{Algorithm, KeyName, SignerKey, VerifierKey};
use runseal_tlog::note::Note;
use serde::Deserialize;

use crate::own;
use crate::shared::{Answer, Base64, Cases, Expect, Hex, load};

#[derive(Deserialize)]
struct File {
    keys: Cases<Key>,
    cases: Cases<Case>,
    vkeys: Cases<Vkey>,
}

#[derive(Deserialize)]
struct Key {
    name: String,
    seed: Hex,
    skey: String,
    vkey: String,
    key_id: String,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    note_b64: Base64,
    known: Vec<String>,
    expect: Expect,
    #[serde(default)]
    verified: Vec<VerifiedKey>,
    text_b64: Option<Base64>,
}

#[derive(Deserialize, PartialEq, Eq, Debug)]
struct VerifiedKey {
    name: String,
    key_id: String,
}

#[derive(Deserialize)]
struct Vkey {
    id: String,
    vkey: String,
    expect: Expect,
}

const DECIDED: &[(&str, Answer)] = &[
    // Which of two lines counts would be a matter of taste, and a second line is never needed.
    ("open-known-twice-identical", Answer::Refuse),
    // One signature, one spelling.
    ("open-base64-trailing-bits-unknown", Answer::Refuse),
    ("open-base64-trailing-bits-known", Answer::Refuse),
    // A signature has at least one byte.
    ("open-signature-only-key-id", Answer::Refuse),
    // The limit is 128 lines.
    ("open-17-signatures", Answer::Accept),
    ("open-101-signatures", Answer::Accept),
];

const DECIDED_VKEYS: &[(&str, Answer)] = &[
    // One key, one spelling.
    ("vkey-id-upper-case", Answer::Refuse),
    // Parsed, but not as a plain note key.
    ("vkey-type-04", Answer::Refuse),
    // Not supported, so not verified with.
    ("vkey-type-00", Answer::Refuse),
    ("vkey-type-03", Answer::Refuse),
];

fn open(case: &Case) -> Result<(), String> {
    let known: Vec<VerifierKey> = case
        .known
        .iter()
        .map(|vkey| vkey.parse().unwrap_or_else(|error| panic!("{}: {vkey}: {error}", case.id)))
        .collect();
    let note = Note::parse(&case.note_b64.0).map_err(|error| error.to_string())?;
    assert_eq!(note.to_string().as_bytes(), case.note_b64.0, "{}: prints otherwise", case.id);
    let verified = note.verify(&known).map_err(|error| error.to_string())?;
    if case.expect == Expect::Accept {
        let verified: Vec<VerifiedKey> = verified
            .iter()
            .map(|key| VerifiedKey { name: key.name.to_string(), key_id: key.key_id.to_string() })
            .collect();
        assert_eq!(verified, case.verified, "{}", case.id);
        let text = &case.text_b64.as_ref().expect("an accepted note has a text").0;
        assert_eq!(note.unverified_text().as_bytes(), text, "{}", case.id);
    }
    Ok(())
}

#[test]
fn shared_notes_open_or_not_as_stated() {
    let Some(file) = load::<File>("notes.json") else { return };
    file.cases.check("notes", |case| case.expect.judge(&case.id, DECIDED, &open(case)));
}

#[test]
fn shared_vkeys_are_note_keys_or_not_as_stated() {
    let Some(file) = load::<File>("notes.json") else { return };
    file.vkeys.check("vkeys", |case| {
        let parsed = case.vkey.parse::<VerifierKey>().map_err(|error| error.to_string());
        let parsed = parsed.and_then(|key| match key.algorithm() {
            Algorithm::Ed25519 => {
                assert_eq!(key.to_string(), case.vkey, "{}", case.id);
                Ok(())
            }
            other => Err(format!("a key of type {other:?}")),
        });
        case.expect.judge(&case.id, DECIDED_VKEYS, &parsed)
    });
}

#[test]
fn shared_keys_follow_from_their_seeds() {
    let Some(file) = load::<File>("notes.json") else { return };
    for case in &file.keys.0 {
        let name = KeyName::new(&*case.name).unwrap();
        let key = SignerKey::from_seed(name, Algorithm::Ed25519, &case.seed.seed());
        assert_eq!(key.verifier().to_string(), case.vkey);
        assert_eq!(key.verifier().id().to_string(), case.key_id);
        assert_eq!(*key.to_line(), case.skey);
        assert_eq!(SignerKey::parse(&case.skey).unwrap().verifier(), key.verifier());
    }
}

#[test]
fn own_notes_open_or_fail_with_this_error() {
    own::walk("note", |case| {
        let known: Vec<VerifierKey> = case.values("key").map(|vkey| vkey.parse().unwrap()).collect();
        let note = Note::parse(&case.body).map_err(|error| error.to_string())?;
        assert_eq!(note.to_string().as_bytes(), case.body);
        let verified = note.verify(&known).map_err(|error| error.to_string())?;
        let verified: Vec<String> =
            verified.iter().map(|key| format!("{}+{}", key.name, key.key_id)).collect();
        assert_eq!(verified, case.values("verified").collect::<Vec<_>>());
        Ok(())
    });
}
