//! Cosignatures (c2sp.org/tlog-cosignature): Ed25519 cosignature/v1 and ML-DSA-44 subtree/v1.

use thiserror::Error;

use crate::checkpoint::Checkpoint;
use crate::hash::NodeHash;
use crate::key::{
    Algorithm, ED25519_SIGNATURE_BYTES, KeyName, MLDSA44_SIGNATURE_BYTES, SignerKey, VerifierKey,
};
use crate::note::SignatureLine;
use crate::subtree::Subtree;

/// The largest time a cosignature may carry, 2^63 - 1.
pub const TIME_MAX: u64 = i64::MAX as u64;
/// Longest cosigner name and origin an ML-DSA-44 cosignature can name.
pub const SUBTREE_NAME_BYTES_MAX: usize = 255;

const TIME_BYTES: usize = 8;
/// `cosigned_message.label`, 12 bytes.
const SUBTREE_LABEL: &[u8; 12] = b"subtree/v1\n\0";

/// Why a cosignature cannot be made or does not hold.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum CosignatureError {
    /// Times end at 2^63 - 1. Zero is none, but for subtree/v1, where it makes no claim about time; a
    /// subtree that does not start at leaf 0 takes no other.
    #[error("{0} is not a time that this cosignature may carry")]
    Time(u64),
    /// Not a timestamp and a signature of the key's type.
    #[error("a cosignature of this type has {expected} bytes, not {found}")]
    Length {
        /// Bytes found.
        found: usize,
        /// Bytes needed.
        expected: usize,
    },
    /// The key is a plain note key.
    #[error("a key of type 0x01 makes no cosignatures")]
    NotACosigner,
    /// What is cosigned must be a checkpoint.
    #[error("the cosigned text is not a checkpoint")]
    NotACheckpoint,
    /// The ML-DSA-44 message gives cosigner name and origin one length byte each.
    #[error("name or origin has {0} bytes; an ML-DSA-44 cosignature can name 1 to 255")]
    NameLength(usize),
    /// The signature is not the key's.
    #[error("the cosignature does not verify")]
    Invalid,
}

/// Cosigns a checkpoint at `time` (POSIX seconds).
///
/// # Errors
/// [`CosignatureError`] for a time of zero or above 2^63 - 1, a plain note key, or names too long.
pub fn cosign(
    checkpoint: &Checkpoint,
    time: u64,
    key: &SignerKey,
) -> Result<SignatureLine, CosignatureError> {
    let message = message_to_sign(checkpoint, time, key.verifier())?;
    Ok(signature_line(key, time, &message))
}

/// The message that `key` signs to cosign a checkpoint at `time`, for a secret that is held elsewhere,
/// as in a signing agent. [`assemble`] makes the line of what comes back.
///
/// # Errors
/// As [`cosign`].
pub fn message_to_sign(
    checkpoint: &Checkpoint,
    time: u64,
    key: &VerifierKey,
) -> Result<Vec<u8>, CosignatureError> {
    if time == 0 || time > TIME_MAX {
        return Err(CosignatureError::Time(time));
    }
    checkpoint_message(checkpoint, &checkpoint.to_string(), time, key)
}

/// The cosignature line of a plain signature made elsewhere over [`message_to_sign`]'s message.
///
/// # Errors
/// [`CosignatureError`]; also when the signature is not `key`'s, so that a confused agent cannot make
/// this witness answer with a line that nobody can verify.
pub fn assemble(
    checkpoint: &Checkpoint,
    time: u64,
    key: &VerifierKey,
    signature: &[u8],
) -> Result<SignatureLine, CosignatureError> {
    let mut timestamped = time.to_be_bytes().to_vec();
    timestamped.extend_from_slice(signature);
    verify(&checkpoint.to_string(), &timestamped, key)?;
    Ok(SignatureLine::new(key.name().clone(), key.id(), timestamped))
}

/// Cosigns a subtree with an ML-DSA-44 key. The time is zero: nothing is said about the largest tree.
///
/// # Errors
/// [`CosignatureError::NotACosigner`] for another key, [`CosignatureError::NameLength`].
pub fn cosign_subtree(
    origin: &str,
    subtree: &Subtree,
    key: &SignerKey,
) -> Result<SignatureLine, CosignatureError> {
    if key.verifier().algorithm() != Algorithm::CosignatureMlDsa44 {
        return Err(CosignatureError::NotACosigner);
    }
    let Subtree { range, hash } = subtree;
    let message = subtree_message(key.verifier().name(), 0, origin, (range.start(), range.end()), hash)?;
    Ok(signature_line(key, 0, &message))
}

fn signature_line(key: &SignerKey, time: u64, message: &[u8]) -> SignatureLine {
    let mut signature = time.to_be_bytes().to_vec();
    signature.extend(key.sign(message));
    SignatureLine::new(key.verifier().name().clone(), key.verifier().id(), signature)
}

/// The time of a `timestamped_signature`, unverified.
pub(crate) fn claimed_time(signature: &[u8]) -> Option<u64> {
    signature.first_chunk::<TIME_BYTES>().map(|bytes| u64::from_be_bytes(*bytes))
}

/// Verifies a `timestamped_signature` of `key` over a checkpoint's note text; answers its time.
///
/// # Errors
/// [`CosignatureError`].
pub fn verify(text: &str, signature: &[u8], key: &VerifierKey) -> Result<u64, CosignatureError> {
    let (time, signature) = split(signature, key.algorithm())?;
    // Only subtree/v1 gives time zero a meaning: no claim that the tree is the largest one seen.
    let timeless = key.algorithm() == Algorithm::CosignatureMlDsa44;
    if time > TIME_MAX || (time == 0 && !timeless) {
        return Err(CosignatureError::Time(time));
    }
    // Parsed whatever the type: a cosignature of something that is no checkpoint means nothing.
    let checkpoint = Checkpoint::parse(text).map_err(|_| CosignatureError::NotACheckpoint)?;
    let message = checkpoint_message(&checkpoint, text, time, key)?;
    if key.verifies(&message, signature) { Ok(time) } else { Err(CosignatureError::Invalid) }
}

/// Verifies a `timestamped_signature` of an ML-DSA-44 `key` over a subtree; answers its time.
///
/// # Errors
/// [`CosignatureError`]; also when `start` is not zero but the time is.
pub fn verify_subtree(
    origin: &str,
    subtree: &Subtree,
    signature: &[u8],
    key: &VerifierKey,
) -> Result<u64, CosignatureError> {
    if key.algorithm() != Algorithm::CosignatureMlDsa44 {
        return Err(CosignatureError::NotACosigner);
    }
    let (time, signature) = split(signature, key.algorithm())?;
    let Subtree { range, hash } = subtree;
    if time > TIME_MAX || (range.start() != 0 && time != 0) {
        return Err(CosignatureError::Time(time));
    }
    let message = subtree_message(key.name(), time, origin, (range.start(), range.end()), hash)?;
    if key.verifies(&message, signature) { Ok(time) } else { Err(CosignatureError::Invalid) }
}

fn split(signature: &[u8], algorithm: Algorithm) -> Result<(u64, &[u8]), CosignatureError> {
    let expected = TIME_BYTES
        + match algorithm {
            Algorithm::Ed25519 => return Err(CosignatureError::NotACosigner),
            Algorithm::CosignatureEd25519 => ED25519_SIGNATURE_BYTES,
            Algorithm::CosignatureMlDsa44 => MLDSA44_SIGNATURE_BYTES,
        };
    match signature.split_first_chunk::<TIME_BYTES>() {
        Some((time, rest)) if signature.len() == expected => Ok((u64::from_be_bytes(*time), rest)),
        _ => Err(CosignatureError::Length { found: signature.len(), expected }),
    }
}

/// The message signed for a checkpoint. `text` is the whole note text, extension lines and all.
fn checkpoint_message(
    checkpoint: &Checkpoint,
    text: &str,
    time: u64,
    key: &VerifierKey,
) -> Result<Vec<u8>, CosignatureError> {
    match key.algorithm() {
        Algorithm::Ed25519 => Err(CosignatureError::NotACosigner),
        Algorithm::CosignatureEd25519 => Ok(format!("cosignature/v1\ntime {time}\n{text}").into_bytes()),
        Algorithm::CosignatureMlDsa44 => {
            // A checkpoint of size zero is signed as [0, 0), although that is no subtree.
            subtree_message(key.name(), time, checkpoint.origin(), (0, checkpoint.size()), checkpoint.root())
        }
    }
}

/// `cosigned_message` of the specification.
fn subtree_message(
    cosigner: &KeyName,
    time: u64,
    origin: &str,
    (start, end): (u64, u64),
    hash: &NodeHash,
) -> Result<Vec<u8>, CosignatureError> {
    let mut message = SUBTREE_LABEL.to_vec();
    push_named(&mut message, cosigner.as_str())?;
    message.extend(time.to_be_bytes());
    push_named(&mut message, origin)?;
    message.extend(start.to_be_bytes());
    message.extend(end.to_be_bytes());
    message.extend(hash.as_bytes());
    Ok(message)
}

fn push_named(message: &mut Vec<u8>, name: &str) -> Result<(), CosignatureError> {
    let length = u8::try_from(name.len()).ok().filter(|length| *length > 0);
    message.push(length.ok_or(CosignatureError::NameLength(name.len()))?);
    message.extend_from_slice(name.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::Note;
    use crate::subtree::SubtreeRange;

    #[test]
    fn the_time_is_big_endian_right_after_the_key_id() {
        // The cosignature line of the tlog-cosignature example, made at 1679315147.
        let line = SignatureLine::parse(
            "\u{2014} witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==",
        )
        .unwrap();
        assert_eq!(line.signature()[..8], [0, 0, 0, 0, 0x64, 0x18, 0x50, 0xcb]);
        assert_eq!(claimed_time(line.signature()), Some(1_679_315_147));
    }

    #[test]
    fn cosignatures_of_both_types_verify_and_bind_what_they_must() {
        let checkpoint = Checkpoint::parse(
            "example.com/log\n1\n2zQm6HgGjSjSabbIcXIyLOU3K2V1bQeJAB00g19gHAM=\nextension\n",
        )
        .unwrap();
        for algorithm in [Algorithm::CosignatureEd25519, Algorithm::CosignatureMlDsa44] {
            let key = SignerKey::from_seed(KeyName::new("w.example").unwrap(), algorithm, &[5; 32]);
            let line = cosign(&checkpoint, 1_700_000_000, &key).unwrap();
            let text = checkpoint.to_string();
            assert_eq!(verify(&text, line.signature(), key.verifier()), Ok(1_700_000_000));
            let larger = text.replace("\n1\n", "\n2\n");
            assert_eq!(verify(&larger, line.signature(), key.verifier()), Err(CosignatureError::Invalid));
            let mut later = line.signature().to_vec();
            later[7] ^= 1;
            assert_eq!(verify(&text, &later, key.verifier()), Err(CosignatureError::Invalid));
            assert_eq!(cosign(&checkpoint, 0, &key), Err(CosignatureError::Time(0)));
            assert_eq!(cosign(&checkpoint, 1 << 63, &key), Err(CosignatureError::Time(1 << 63)));
        }
        // Only the Ed25519 message covers extension lines.
        let key =
            SignerKey::from_seed(KeyName::new("w.example").unwrap(), Algorithm::CosignatureEd25519, &[5; 32]);
        let line = cosign(&checkpoint, 7, &key).unwrap();
        let other = checkpoint.to_string().replace("extension", "other");
        assert_eq!(verify(&other, line.signature(), key.verifier()), Err(CosignatureError::Invalid));
    }

    #[test]
    fn a_signature_made_elsewhere_becomes_the_same_line_or_none() {
        let checkpoint = Checkpoint::new("example.com/log", 0, NodeHash::EMPTY_ROOT).unwrap();
        let name = KeyName::new("w.example").unwrap();
        let key = SignerKey::from_seed(name, Algorithm::CosignatureEd25519, &[5; 32]);
        let line = cosign(&checkpoint, 7, &key).unwrap();
        let (_, plain) = line.signature().split_at(TIME_BYTES);
        assert_eq!(key.sign(&message_to_sign(&checkpoint, 7, key.verifier()).unwrap()), plain);
        assert_eq!(assemble(&checkpoint, 7, key.verifier(), plain), Ok(line.clone()));
        assert_eq!(assemble(&checkpoint, 8, key.verifier(), plain), Err(CosignatureError::Invalid));
        let short = assemble(&checkpoint, 7, key.verifier(), &plain[1..]);
        assert_eq!(short, Err(CosignatureError::Length { found: 71, expected: 72 }));
    }

    #[test]
    fn a_subtree_that_starts_inside_the_log_takes_no_time() {
        let name = KeyName::new("w.example").unwrap();
        let key = SignerKey::from_seed(name, Algorithm::CosignatureMlDsa44, &[5; 32]);
        let hash = NodeHash::from_bytes([9; 32]);
        // cosigned_message and timestamped_signature, from the specification's own words.
        let signed = |time: u64, start: u64, end: u64| {
            let mut message = b"subtree/v1\n\0\x09w.example".to_vec();
            message.extend(time.to_be_bytes());
            message.extend(b"\x0blog.example");
            message.extend(start.to_be_bytes());
            message.extend(end.to_be_bytes());
            message.extend([9; 32]);
            [time.to_be_bytes().to_vec(), key.sign(&message)].concat()
        };
        for (time, start, end, expected) in [
            (0, 0, 8, Ok(0)),
            (7, 0, 8, Ok(7)),
            (0, 8, 13, Ok(0)),
            (7, 8, 13, Err(CosignatureError::Time(7))),
            (TIME_MAX, 0, 8, Ok(TIME_MAX)),
            (1 << 63, 0, 8, Err(CosignatureError::Time(1 << 63))),
        ] {
            let subtree = Subtree { range: SubtreeRange::new(start, end).unwrap(), hash };
            let verified = verify_subtree("log.example", &subtree, &signed(time, start, end), key.verifier());
            assert_eq!(verified, expected, "time {time}, [{start}, {end})");
        }
        let subtree = Subtree { range: SubtreeRange::new(8, 13).unwrap(), hash };
        let line = cosign_subtree("log.example", &subtree, &key).unwrap();
        assert_eq!(line.signature(), signed(0, 8, 13));
        assert_eq!(cosign_subtree("", &subtree, &key), Err(CosignatureError::NameLength(0)));
        let another = verify_subtree("other.example", &subtree, line.signature(), key.verifier());
        assert_eq!(another, Err(CosignatureError::Invalid));
    }

    #[test]
    fn a_plain_key_makes_no_cosignature() {
        let key = SignerKey::from_seed(KeyName::new("w.example").unwrap(), Algorithm::Ed25519, &[5; 32]);
        let checkpoint = Checkpoint::new("example.com/log", 0, NodeHash::EMPTY_ROOT).unwrap();
        assert_eq!(cosign(&checkpoint, 1, &key), Err(CosignatureError::NotACosigner));
        let note = Note::sign(&checkpoint.to_string(), &key).unwrap();
        assert_eq!(note.signatures()[0].claimed_time(key.verifier()), None);
    }
}
