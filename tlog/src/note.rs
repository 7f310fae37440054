//! Signed notes (c2sp.org/signed-note): strict reading, printing, signing, verifying.

use std::collections::HashMap;
use std::fmt;

use thiserror::Error;

use crate::cosignature;
use crate::key::{Algorithm, KeyId, KeyName, SignerKey, VerifierKey};
use crate::text;

/// Most signature lines a note may carry. The specification asks for at least 16.
pub const SIGNATURES_MAX: usize = 128;

const LINE_START: &str = "\u{2014} ";

/// Why bytes are not a signed note.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum NoteError {
    /// The bytes are not UTF-8.
    #[error("the note is not valid UTF-8 at byte {0}")]
    Utf8(usize),
    /// A control character other than newline.
    #[error("the note holds control character 0x{byte:02x} at byte {at}")]
    Control {
        /// The character.
        byte: u8,
        /// Its offset.
        at: usize,
    },
    /// The last line does not end in a newline.
    #[error("the note does not end in a newline")]
    NoFinalNewline,
    /// No text, or no blank line between text and signatures.
    #[error("the note has no text followed by a blank line and signature lines")]
    NoSeparator,
    /// No signature line after the blank line.
    #[error("the note has no signature line after its last blank line")]
    NoSignatures,
    /// More signature lines than [`SIGNATURES_MAX`].
    #[error("the note has more than {SIGNATURES_MAX} signature lines")]
    TooManySignatures,
    /// A line of the signature block that is not a signature line.
    #[error("line {line} is not a signature line: {fault}")]
    SignatureLine {
        /// Line number in the note, from 1.
        line: usize,
        /// What is wrong with it.
        fault: SignatureLineFault,
    },
}

/// What is wrong with a signature line.
#[derive(Debug, Error, PartialEq, Eq, Clone, Copy)]
#[non_exhaustive]
pub enum SignatureLineFault {
    /// It does not start with an em dash and a space.
    #[error("it does not start with an em dash and a space")]
    Dash,
    /// Not exactly a name and a signature.
    #[error("it is not one key name, one space and one signature")]
    Fields,
    /// The name is no key name.
    #[error("its key name is empty or holds a space, a plus or a control character")]
    Name,
    /// The signature is not canonical base64.
    #[error("its signature is not standard base64 with padding")]
    Base64,
    /// Fewer bytes than a key ID and a signature.
    #[error("its signature is too short to hold a key ID and a signature")]
    Short,
}

/// One signature line, as read. Nothing about it is verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignatureLine {
    name: KeyName,
    key_id: KeyId,
    signature: Vec<u8>,
}

impl SignatureLine {
    pub(crate) const fn new(name: KeyName, key_id: KeyId, signature: Vec<u8>) -> Self {
        Self { name, key_id, signature }
    }

    /// Reads one line, without its newline.
    ///
    /// # Errors
    /// [`SignatureLineFault`].
    pub fn parse(line: &str) -> Result<Self, SignatureLineFault> {
        let rest = line.strip_prefix(LINE_START).ok_or(SignatureLineFault::Dash)?;
        let (name, encoded) = rest.split_once(' ').ok_or(SignatureLineFault::Fields)?;
        if encoded.contains(' ') {
            return Err(SignatureLineFault::Fields);
        }
        let name = KeyName::new(name).map_err(|_| SignatureLineFault::Name)?;
        let bytes = text::parse_base64(encoded).ok_or(SignatureLineFault::Base64)?;
        match bytes.split_first_chunk::<4>() {
            Some((id, signature)) if !signature.is_empty() => {
                Ok(Self { name, key_id: KeyId(*id), signature: signature.to_vec() })
            }
            _ => Err(SignatureLineFault::Short),
        }
    }

    /// The name of the key that claims to have signed.
    pub const fn name(&self) -> &KeyName {
        &self.name
    }

    /// The ID of the key that claims to have signed.
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The signature after the key ID.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Whether name and key ID are those of `key`: then, and only then, the signature must verify.
    pub fn is_of(&self, key: &VerifierKey) -> bool {
        self.key_id == key.id() && self.name == *key.name()
    }

    /// The time this line says it was made, for cosignatures of `key`; unverified.
    pub fn claimed_time(&self, key: &VerifierKey) -> Option<u64> {
        if key.algorithm().is_cosignature() { cosignature::claimed_time(&self.signature) } else { None }
    }

    /// Verifies this line over `text` with `key`, whose name and ID it must bear.
    ///
    /// # Errors
    /// [`VerifyError::Invalid`].
    pub fn verify(&self, text: &str, key: &VerifierKey) -> Result<Verified, VerifyError> {
        let invalid = || VerifyError::Invalid { name: self.name.clone(), key_id: self.key_id };
        if !self.is_of(key) {
            return Err(invalid());
        }
        let time = match key.algorithm() {
            Algorithm::Ed25519 => key.verifies(text.as_bytes(), &self.signature).then_some(None),
            Algorithm::CosignatureEd25519 | Algorithm::CosignatureMlDsa44 => {
                cosignature::verify(text, &self.signature, key).ok().map(Some)
            }
        };
        let time = time.ok_or_else(invalid)?;
        Ok(Verified { name: self.name.clone(), key_id: self.key_id, time })
    }
}

impl fmt::Display for SignatureLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.key_id.0.to_vec();
        bytes.extend_from_slice(&self.signature);
        write!(f, "{LINE_START}{} {}", self.name, text::base64(&bytes))
    }
}

/// A signature that a known key was seen to have made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    /// The key's name.
    pub name: KeyName,
    /// The key's ID.
    pub key_id: KeyId,
    /// When a cosigner says it signed, in POSIX seconds; `None` for plain signatures.
    pub time: Option<u64>,
}

/// Why a note is not accepted.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum VerifyError {
    /// A line bears a known key's name and ID, but the signature is not that key's.
    #[error("the signature of {name} ({key_id}) does not verify")]
    Invalid {
        /// The key's name.
        name: KeyName,
        /// The key's ID.
        key_id: KeyId,
    },
    /// A known key signed twice; which of the lines counts would be a matter of taste.
    #[error("{name} ({key_id}) signed more than once")]
    Repeated {
        /// The key's name.
        name: KeyName,
        /// The key's ID.
        key_id: KeyId,
    },
    /// No known key signed.
    #[error("no known key has signed")]
    NoKnownKey,
}

/// A note as read: text and signature lines, none of them verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    text: String,
    signatures: Vec<SignatureLine>,
}

impl Note {
    /// Reads a note. Exactly the bytes that [`Note`]'s `Display` writes are accepted.
    ///
    /// # Errors
    /// [`NoteError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, NoteError> {
        let all = std::str::from_utf8(bytes).map_err(|error| NoteError::Utf8(error.valid_up_to()))?;
        refuse_controls(all)?;
        if !all.ends_with('\n') {
            return Err(NoteError::NoFinalNewline);
        }
        let (text, block) = all.rsplit_once("\n\n").ok_or(NoteError::NoSeparator)?;
        let block = block.strip_suffix('\n').ok_or(NoteError::NoSignatures)?;
        // The text's lines, the empty one, and the next.
        let first_line = text.split('\n').count() + 2;
        let mut signatures = Vec::new();
        for (offset, line) in block.split('\n').enumerate() {
            if signatures.len() == SIGNATURES_MAX {
                return Err(NoteError::TooManySignatures);
            }
            let parsed = SignatureLine::parse(line)
                .map_err(|fault| NoteError::SignatureLine { line: first_line + offset, fault })?;
            signatures.push(parsed);
        }
        Ok(Self { text: [text, "\n"].concat(), signatures })
    }

    /// Signs `text`, which must end in a newline, with a plain Ed25519 key.
    ///
    /// # Errors
    /// [`NoteError`] when the text cannot stand in a note.
    ///
    /// # Panics
    /// When `key` is a cosignature key; those sign through [`cosignature::cosign`].
    pub fn sign(text: &str, key: &SignerKey) -> Result<Self, NoteError> {
        assert_eq!(key.verifier().algorithm(), Algorithm::Ed25519, "a note is signed with a type 0x01 key");
        refuse_controls(text)?;
        if !text.ends_with('\n') {
            return Err(NoteError::NoFinalNewline);
        }
        let verifier = key.verifier();
        let line = SignatureLine::new(verifier.name().clone(), verifier.id(), key.sign(text.as_bytes()));
        Ok(Self { text: text.to_owned(), signatures: vec![line] })
    }

    /// The text, with its final newline. Unverified: hold it against keys before believing it.
    pub fn unverified_text(&self) -> &str {
        &self.text
    }

    /// The signature lines, unverified.
    pub fn signatures(&self) -> &[SignatureLine] {
        &self.signatures
    }

    /// Adds a signature line at the end.
    ///
    /// # Errors
    /// [`NoteError::TooManySignatures`].
    pub fn add(&mut self, line: SignatureLine) -> Result<(), NoteError> {
        if self.signatures.len() >= SIGNATURES_MAX {
            return Err(NoteError::TooManySignatures);
        }
        self.signatures.push(line);
        Ok(())
    }

    /// The same text with only those signature lines that `keep` wants.
    #[must_use]
    pub fn retain(&self, mut keep: impl FnMut(&SignatureLine) -> bool) -> Self {
        let signatures = self.signatures.iter().filter(|line| keep(line)).cloned().collect();
        Self { text: self.text.clone(), signatures }
    }

    /// Verifies the note with `keys`: every line of a known key must verify, and there must be one.
    /// Lines of unknown keys are ignored. Each key is tried at most once.
    ///
    /// # Errors
    /// [`VerifyError`].
    pub fn verify<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k VerifierKey>,
    ) -> Result<Vec<Verified>, VerifyError> {
        let keys: HashMap<(&KeyName, KeyId), &VerifierKey> =
            keys.into_iter().map(|key| ((key.name(), key.id()), key)).collect();
        let mut verified: Vec<Verified> = Vec::new();
        for line in &self.signatures {
            let Some(key) = keys.get(&(&line.name, line.key_id)) else { continue };
            if verified.iter().any(|seen| seen.key_id == line.key_id && seen.name == line.name) {
                return Err(VerifyError::Repeated { name: line.name.clone(), key_id: line.key_id });
            }
            verified.push(line.verify(&self.text, key)?);
        }
        if verified.is_empty() { Err(VerifyError::NoKnownKey) } else { Ok(verified) }
    }
}

fn refuse_controls(text: &str) -> Result<(), NoteError> {
    match text.bytes().enumerate().find(|(_, byte)| *byte < b' ' && *byte != b'\n') {
        Some((at, byte)) => Err(NoteError::Control { byte, at }),
        None => Ok(()),
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specification_example_parses_and_prints_unchanged() {
        let example = "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\n\
            ed \u{e8} subito sera.\n\n\u{2014} quasimodo.example/salvatore NnugSzTjtVAewIS+Z/iJhUPeFDkO/\
            5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=\n";
        let note = Note::parse(example.as_bytes()).unwrap();
        assert_eq!(note.to_string(), example);
        assert!(note.unverified_text().ends_with("subito sera.\n"));
        assert_eq!(note.signatures().len(), 1);
    }

    #[test]
    fn a_note_signed_here_verifies_here_and_nowhere_else() {
        let key = SignerKey::from_seed(KeyName::new("log.example").unwrap(), Algorithm::Ed25519, &[3; 32]);
        let other = SignerKey::from_seed(KeyName::new("log.example").unwrap(), Algorithm::Ed25519, &[4; 32]);
        let note = Note::sign("hello\n", &key).unwrap();
        let again = Note::parse(note.to_string().as_bytes()).unwrap();
        assert_eq!(again, note);
        assert_eq!(again.verify([key.verifier()]).unwrap().len(), 1);
        assert_eq!(again.verify([other.verifier()]), Err(VerifyError::NoKnownKey));
        assert_eq!(again.verify([]), Err(VerifyError::NoKnownKey));
        // Two keys of one name are two signers.
        let line = &again.signatures()[0];
        assert_eq!((line.is_of(key.verifier()), line.is_of(other.verifier())), (true, false));
        let mut both = note.clone();
        both.add(Note::sign("hello\n", &other).unwrap().signatures()[0].clone()).unwrap();
        assert_eq!(both.verify([key.verifier(), other.verifier()]).unwrap().len(), 2);
        both.add(note.signatures()[0].clone()).unwrap();
        assert!(matches!(both.verify([key.verifier()]), Err(VerifyError::Repeated { .. })));
    }

    #[test]
    fn an_error_names_the_line() {
        let error = Note::parse(b"text\n\n\xe2\x80\x94 a AAAAAAA=\nnonsense\n").unwrap_err();
        assert_eq!(error, NoteError::SignatureLine { line: 4, fault: SignatureLineFault::Dash });
    }

    proptest::proptest! {
        #[test]
        fn what_is_read_prints_unchanged(text in "[ -~\u{e8}\n]{0,40}", block in "(\u{2014} [a-z]{1,3} [A-Za-z0-9+/=]{8,12}\n){0,3}") {
            let bytes = format!("{text}\n{block}");
            if let Ok(note) = Note::parse(bytes.as_bytes()) {
                proptest::prop_assert_eq!(note.to_string(), bytes);
            }
        }
    }
}
