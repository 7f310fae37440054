//! Signatures of records: who wrote them, beside the chain, which says that nothing changed.
//!
//! Ed25519 over `"runseal/record-signature/v1\n" || hash`, the hash being the record's [`ChainHash`]. The key
//! is named `<base>/records`, and its id is the note key id of a type 0x01 key (c2sp.org/signed-note): the
//! first four bytes of `SHA-256(name || "\n" || 0x01 || public key)`. An unsigned record is a state of its own.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use runseal_tlog::key::{Algorithm, KeyId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::chain::ChainHash;

/// The note key id of a record key. Spelled as 8 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKeyId([u8; 4]);

impl RecordKeyId {
    /// The id of the Ed25519 key `public_key` under `name`.
    pub fn of(name: &str, public_key: &[u8; 32]) -> Self {
        Self(KeyId::of(name, Algorithm::Ed25519, public_key).0)
    }

    /// An id that was stored or received.
    pub fn from_bytes(bytes: [u8; 4]) -> Self {
        Self(bytes)
    }

    /// The four bytes.
    pub fn to_bytes(self) -> [u8; 4] {
        self.0
    }
}

impl fmt::Display for RecordKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for RecordKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordKeyId({self})")
    }
}

impl FromStr for RecordKeyId {
    type Err = SignatureTextError;

    fn from_str(text: &str) -> Result<Self, SignatureTextError> {
        let mut bytes = [0; 4];
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        match hex::decode_to_slice(text, &mut bytes) {
            Ok(()) if lower => Ok(Self(bytes)),
            _ => Err(SignatureTextError::KeyId),
        }
    }
}

/// A record's signature and the id of the key that made it. One never stands without the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSignature {
    /// The key's id.
    pub key_id: RecordKeyId,
    /// The Ed25519 signature.
    pub signature: [u8; 64],
}

/// A key id or signature is not spelled as it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureTextError {
    /// The key id is not 8 lower-case hexadecimal digits.
    #[error("a record key id is 8 lower-case hexadecimal digits")]
    KeyId,
    /// The signature is not 64 bytes in canonical base64.
    #[error("a record signature is 64 bytes in base64")]
    Signature,
}

/// The JSON form: `{"key_id":"<8 hex>","signature":"<base64>"}`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignatureText {
    key_id: String,
    signature: String,
}

impl Serialize for RecordSignature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SignatureText { key_id: self.key_id.to_string(), signature: STANDARD.encode(self.signature) }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RecordSignature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = SignatureText::deserialize(deserializer)?;
        text.try_into().map_err(serde::de::Error::custom)
    }
}

impl TryFrom<SignatureText> for RecordSignature {
    type Error = SignatureTextError;

    fn try_from(text: SignatureText) -> Result<Self, SignatureTextError> {
        let key_id = text.key_id.parse()?;
        match STANDARD.decode(&text.signature).map(<[u8; 64]>::try_from) {
            Ok(Ok(signature)) => Ok(Self { key_id, signature }),
            _ => Err(SignatureTextError::Signature),
        }
    }
}

/// Signs records. The key is wiped from memory when dropped and is not part of its debug text.
pub struct RecordSigner {
    key: SigningKey,
    key_id: RecordKeyId,
}

impl RecordSigner {
    /// The signer called `name` (`<base>/records`) whose Ed25519 seed is `seed`.
    pub fn new(name: &str, seed: &[u8; 32]) -> Self {
        let key = SigningKey::from_bytes(seed);
        let key_id = RecordKeyId::of(name, key.verifying_key().as_bytes());
        Self { key, key_id }
    }

    /// Signs the record whose chain hash is `hash`.
    pub fn sign(&self, hash: &ChainHash) -> RecordSignature {
        RecordSignature { key_id: self.key_id, signature: self.key.sign(&message(hash)).to_bytes() }
    }

    /// The id of the key.
    pub fn key_id(&self) -> RecordKeyId {
        self.key_id
    }

    /// The Ed25519 public key.
    pub fn public_key(&self) -> [u8; 32] {
        self.key.verifying_key().to_bytes()
    }
}

impl fmt::Debug for RecordSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordSigner").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// Checks signatures of records.
#[derive(Debug, Clone)]
pub struct RecordVerifier {
    key: VerifyingKey,
    key_id: RecordKeyId,
}

/// The 32 bytes are no Ed25519 public key to trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordKeyError {
    /// Not the canonical encoding of a point of the curve.
    #[error("the record key is not a canonical Ed25519 public key")]
    NotAPoint,
    /// A point of small order, under which anybody can make signatures.
    #[error("the record key is a point of small order")]
    SmallOrder,
}

/// Why a signature does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// Another key made it.
    #[error("the signature is by key {found}, not {expected}")]
    OtherKey {
        /// The id of the key it was checked with.
        expected: RecordKeyId,
        /// The id it carries.
        found: RecordKeyId,
    },
    /// It is not a signature of this record by this key.
    #[error("the signature by key {key_id} does not verify")]
    Invalid {
        /// The key's id.
        key_id: RecordKeyId,
    },
}

impl RecordVerifier {
    /// The verifier of the key `public_key` called `name` (`<base>/records`).
    pub fn new(name: &str, public_key: &[u8; 32]) -> Result<Self, RecordKeyError> {
        let key = VerifyingKey::from_bytes(public_key).map_err(|_| RecordKeyError::NotAPoint)?;
        if key.to_edwards().compress().as_bytes() != public_key {
            return Err(RecordKeyError::NotAPoint);
        }
        if key.is_weak() {
            return Err(RecordKeyError::SmallOrder);
        }
        Ok(Self { key, key_id: RecordKeyId::of(name, public_key) })
    }

    /// Checks that this key signed the record whose chain hash is `hash`.
    pub fn verify(&self, hash: &ChainHash, signature: &RecordSignature) -> Result<(), SignatureError> {
        if signature.key_id != self.key_id {
            return Err(SignatureError::OtherKey { expected: self.key_id, found: signature.key_id });
        }
        self.key
            .verify_strict(&message(hash), &Signature::from_bytes(&signature.signature))
            .map_err(|_| SignatureError::Invalid { key_id: self.key_id })
    }

    /// The id of the key.
    pub fn key_id(&self) -> RecordKeyId {
        self.key_id
    }
}

const DOMAIN: &[u8; 28] = b"runseal/record-signature/v1\n";

fn message(hash: &ChainHash) -> [u8; DOMAIN.len() + 32] {
    let mut message = [0; DOMAIN.len() + 32];
    message[..DOMAIN.len()].copy_from_slice(DOMAIN);
    message[DOMAIN.len()..].copy_from_slice(hash.as_bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "example.com/plane/records";
    const SEED: [u8; 32] = [7; 32];

    fn hash() -> ChainHash {
        ChainHash::from_bytes([0x5a; 32])
    }

    fn verifier() -> RecordVerifier {
        RecordVerifier::new(NAME, &RecordSigner::new(NAME, &SEED).public_key()).unwrap()
    }

    // Made with Python's hashlib and cryptography from the module's documentation.
    #[test]
    fn the_signature_is_the_one_made_elsewhere() {
        let signer = RecordSigner::new(NAME, &SEED);
        assert_eq!(
            hex::encode(signer.public_key()),
            "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c"
        );
        assert_eq!(signer.key_id().to_string(), "2a8705a2");
        let signature = signer.sign(&hash());
        assert_eq!(
            serde_json::to_string(&signature).unwrap(),
            r#"{"key_id":"2a8705a2","signature":"oEGs/8/yNWeQmuCPnefWVgW0ZY7ibw2xoFC1aDf6avvvqbgnTZSGR7hmieGOx4TYweNAu4m1Nh8BOJW4Vie8CA=="}"#
        );
        assert_eq!(verifier().verify(&hash(), &signature), Ok(()));
    }

    #[test]
    fn a_signature_holds_for_one_record_and_one_key() {
        let signer = RecordSigner::new(NAME, &SEED);
        let signature = signer.sign(&hash());
        let invalid = Err(SignatureError::Invalid { key_id: signer.key_id() });
        assert_eq!(verifier().verify(&ChainHash::from_bytes([0x5b; 32]), &signature), invalid);
        for at in 0..64 {
            let mut damaged = signature;
            damaged.signature[at] ^= 1;
            assert_eq!(verifier().verify(&hash(), &damaged), invalid, "byte {at}");
        }
        let other = RecordSigner::new("other/records", &SEED).sign(&hash());
        assert!(matches!(verifier().verify(&hash(), &other), Err(SignatureError::OtherKey { .. })));
        let forged =
            RecordSignature { key_id: signer.key_id(), ..RecordSigner::new(NAME, &[8; 32]).sign(&hash()) };
        assert_eq!(
            verifier().verify(&hash(), &forged),
            Err(SignatureError::Invalid { key_id: signer.key_id() })
        );
    }

    #[test]
    fn the_bare_hash_is_not_what_is_signed() {
        let key = SigningKey::from_bytes(&SEED);
        let signature = RecordSignature {
            key_id: verifier().key_id(),
            signature: key.sign(hash().as_bytes()).to_bytes(),
        };
        assert!(verifier().verify(&hash(), &signature).is_err());
    }

    #[test]
    fn weak_and_misspelled_keys_are_refused() {
        let key = |text: &str| <[u8; 32]>::try_from(hex::decode(text).unwrap()).unwrap();
        // The points of order 1, 2, 4 and 8.
        for small in [
            "0100000000000000000000000000000000000000000000000000000000000000",
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "0000000000000000000000000000000000000000000000000000000000000000",
            "0000000000000000000000000000000000000000000000000000000000000080",
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        ] {
            assert_eq!(
                RecordVerifier::new(NAME, &key(small)).unwrap_err(),
                RecordKeyError::SmallOrder,
                "{small}"
            );
        }
        for bad in [
            // y = 2 is not on the curve; y = p + 1 and p + 3 are other spellings of 1 and 3; 1 with a sign.
            "0200000000000000000000000000000000000000000000000000000000000000",
            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "0100000000000000000000000000000000000000000000000000000000000080",
        ] {
            assert_eq!(RecordVerifier::new(NAME, &key(bad)).unwrap_err(), RecordKeyError::NotAPoint, "{bad}");
        }
    }

    #[test]
    fn the_json_form_has_one_spelling() {
        let good = serde_json::to_string(&RecordSigner::new(NAME, &SEED).sign(&hash())).unwrap();
        assert!(serde_json::from_str::<RecordSignature>(&good).is_ok());
        for bad in [
            good.replace("2a8705a2", &"2a8705a2".to_uppercase()),
            good.replace("==\"", "\""),
            good.replace("\"}", "\",\"alg\":1}"),
            good.replace("==\"", "AA==\""),
            r#"{"key_id":"00000000"}"#.to_owned(),
        ] {
            assert!(serde_json::from_str::<RecordSignature>(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_signer_does_not_show_its_key() {
        let text = format!("{:?}", RecordSigner::new(NAME, &SEED));
        assert_eq!(text, "RecordSigner { key_id: RecordKeyId(2a8705a2), .. }");
    }
}
