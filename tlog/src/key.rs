//! Note keys: names, key IDs, verifier keys (vkeys) and signer keys (c2sp.org/signed-note,
//! c2sp.org/tlog-cosignature).

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use ml_dsa::{KeyExport as _, MlDsa44, signature::Keypair as _};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::sha256::sha256;
use crate::text;

mod strict;

/// Bytes in the secret seed of every algorithm.
pub const SEED_BYTES: usize = 32;
/// Bytes in an Ed25519 signature.
pub const ED25519_SIGNATURE_BYTES: usize = 64;
/// Bytes in an ML-DSA-44 public key (FIPS 204).
pub const MLDSA44_PUBLIC_BYTES: usize = 1312;
/// Bytes in an ML-DSA-44 signature (FIPS 204).
pub const MLDSA44_SIGNATURE_BYTES: usize = 2420;

/// Why a key, or its name, is refused.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum KeyError {
    /// A name is empty or holds a space, a plus or a control character.
    #[error("key name {0:?} is empty or holds a space, a plus or a control character")]
    Name(String),
    /// Not `<name>+<8 hex digits>+<base64>`.
    #[error("not a verifier key: expected <name>+<8 hex digits>+<base64 of type byte and public key>")]
    VkeyShape,
    /// Not `PRIVATE+KEY+<name>+<8 hex digits>+<base64>`.
    #[error(
        "not a private key line: expected PRIVATE+KEY+<name>+<8 hex digits>+<base64 of type byte and seed>"
    )]
    PrivateShape,
    /// The key material is not canonical base64.
    #[error("the key material is not standard base64 with padding")]
    Base64,
    /// A signature type this build does not know.
    #[error("signature type 0x{0:02x} is not supported (0x01, 0x04 and 0x06 are)")]
    Algorithm(u8),
    /// Key material of another length than the type demands.
    #[error("a key of type 0x{kind:02x} has {expected} bytes of key material, not {found}")]
    Length {
        /// The type byte.
        kind: u8,
        /// Bytes found after it.
        found: usize,
        /// Bytes that belong there.
        expected: usize,
    },
    /// The key ID is not the one that name, type and key give.
    #[error("key ID {found} is not {expected}, which name, type and key give")]
    Id {
        /// The ID as written.
        found: KeyId,
        /// The ID as computed.
        expected: KeyId,
    },
    /// A point that is not on the curve, not canonically encoded, or of small order.
    #[error("the Ed25519 public key is not a canonical point of large order; no honest key looks like that")]
    WeakKey,
}

/// The name in a signature line: not empty, no Unicode space, no plus, no control character.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct KeyName(String);

impl KeyName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`KeyError::Name`].
    pub fn new(name: impl Into<String>) -> Result<Self, KeyError> {
        let name = name.into();
        if text::is_key_name(&name) { Ok(Self(name)) } else { Err(KeyError::Name(name)) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The first four bytes of `SHA-256(name || "\n" || type || public key)`; an identifier, not a proof.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 4]);

impl KeyId {
    /// Computes the key ID of the key that bears `name`.
    pub fn of(name: &str, algorithm: Algorithm, public_key: &[u8]) -> Self {
        let [a, b, c, d, ..] = sha256([name.as_bytes(), &[b'\n', algorithm as u8], public_key]);
        Self([a, b, c, d])
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// The signature types in use, by their identifier bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Algorithm {
    /// A plain Ed25519 signature over the note text: what logs sign with.
    Ed25519 = 0x01,
    /// A timestamped Ed25519 cosignature/v1.
    CosignatureEd25519 = 0x04,
    /// A timestamped ML-DSA-44 cosignature, subtree/v1.
    CosignatureMlDsa44 = 0x06,
}

impl Algorithm {
    /// The algorithm of a type byte.
    ///
    /// # Errors
    /// [`KeyError::Algorithm`].
    pub const fn from_byte(byte: u8) -> Result<Self, KeyError> {
        match byte {
            0x01 => Ok(Self::Ed25519),
            0x04 => Ok(Self::CosignatureEd25519),
            0x06 => Ok(Self::CosignatureMlDsa44),
            other => Err(KeyError::Algorithm(other)),
        }
    }

    /// Whether signatures of this type carry a time.
    pub const fn is_cosignature(self) -> bool {
        matches!(self, Self::CosignatureEd25519 | Self::CosignatureMlDsa44)
    }

    const fn public_bytes(self) -> usize {
        match self {
            Self::Ed25519 | Self::CosignatureEd25519 => 32,
            Self::CosignatureMlDsa44 => MLDSA44_PUBLIC_BYTES,
        }
    }
}

#[derive(Clone)]
enum Public {
    Ed25519(VerifyingKey),
    MlDsa44(Box<ml_dsa::VerifyingKey<MlDsa44>>),
}

/// A key to verify with, as a vkey line spells it. Small-order and non-canonical Ed25519 keys cannot
/// be had.
#[derive(Clone)]
pub struct VerifierKey {
    name: KeyName,
    id: KeyId,
    algorithm: Algorithm,
    public: Public,
}

impl VerifierKey {
    /// A key from its parts; the key ID follows from them.
    ///
    /// # Errors
    /// [`KeyError::Length`] and [`KeyError::WeakKey`].
    pub fn new(name: KeyName, algorithm: Algorithm, public_key: &[u8]) -> Result<Self, KeyError> {
        let wrong_length = || KeyError::Length {
            kind: algorithm as u8,
            found: public_key.len(),
            expected: algorithm.public_bytes(),
        };
        let public = match algorithm {
            Algorithm::Ed25519 | Algorithm::CosignatureEd25519 => {
                let bytes: &[u8; 32] = public_key.try_into().map_err(|_| wrong_length())?;
                let key = VerifyingKey::from_bytes(bytes).map_err(|_| KeyError::WeakKey)?;
                // One public key, one encoding: y below the field's prime, no negative zero.
                let canonical = key.to_edwards().compress().to_bytes() == *bytes;
                if !canonical || key.is_weak() {
                    return Err(KeyError::WeakKey);
                }
                Public::Ed25519(key)
            }
            Algorithm::CosignatureMlDsa44 => {
                let bytes = public_key.try_into().map_err(|_| wrong_length())?;
                Public::MlDsa44(Box::new(ml_dsa::VerifyingKey::decode(bytes)))
            }
        };
        let id = KeyId::of(name.as_str(), algorithm, public_key);
        Ok(Self { name, id, algorithm, public })
    }

    /// The key's name.
    pub const fn name(&self) -> &KeyName {
        &self.name
    }

    /// The key's ID.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// The key's signature type.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The public key, 32 or 1,312 bytes.
    pub fn public_key(&self) -> Vec<u8> {
        match &self.public {
            Public::Ed25519(key) => key.to_bytes().to_vec(),
            Public::MlDsa44(key) => key.to_bytes().to_vec(),
        }
    }

    /// Whether `signature` over `message` is this key's. Strict: RFC 8032 with S below L and no
    /// small-order points; FIPS 204 with the empty context.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.public {
            Public::Ed25519(key) => ed25519_dalek::Signature::from_slice(signature)
                .is_ok_and(|signature| strict::verifies(key, message, &signature)),
            Public::MlDsa44(key) => ml_dsa::Signature::<MlDsa44>::try_from(signature)
                .is_ok_and(|signature| key.verify_with_context(message, &[], &signature)),
        }
    }
}

impl PartialEq for VerifierKey {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.id, self.algorithm) == (&other.name, other.id, other.algorithm)
            && self.public_key() == other.public_key()
    }
}

impl Eq for VerifierKey {}

impl fmt::Debug for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifierKey({}+{})", self.name, self.id)
    }
}

/// The vkey: `<name>+<key ID>+<base64 of type byte and public key>`.
impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut material = vec![self.algorithm as u8];
        material.extend(self.public_key());
        write!(f, "{}+{}+{}", self.name, self.id, text::base64(&material))
    }
}

impl FromStr for VerifierKey {
    type Err = KeyError;

    fn from_str(vkey: &str) -> Result<Self, KeyError> {
        let mut parts = vkey.splitn(3, '+');
        let (Some(name), Some(id), Some(material)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(KeyError::VkeyShape);
        };
        let name = KeyName::new(name)?;
        let found = KeyId(text::parse_hex4(id).ok_or(KeyError::VkeyShape)?);
        let material = text::parse_base64(material).ok_or(KeyError::Base64)?;
        let (kind, public_key) = material.split_first().ok_or(KeyError::VkeyShape)?;
        let key = Self::new(name, Algorithm::from_byte(*kind)?, public_key)?;
        if key.id == found { Ok(key) } else { Err(KeyError::Id { found, expected: key.id }) }
    }
}

enum Secret {
    Ed25519(Box<SigningKey>),
    MlDsa44(Box<ml_dsa::SigningKey<MlDsa44>>),
}

/// A key to sign with. Its secret is wiped when it is dropped and never shown by `Debug`.
pub struct SignerKey {
    verifier: VerifierKey,
    secret: Secret,
}

impl SignerKey {
    /// The key that `seed` gives: the RFC 8032 seed, or FIPS 204's xi.
    pub fn from_seed(name: KeyName, algorithm: Algorithm, seed: &[u8; SEED_BYTES]) -> Self {
        let (secret, public_key) = match algorithm {
            Algorithm::Ed25519 | Algorithm::CosignatureEd25519 => {
                let key = SigningKey::from_bytes(seed);
                let public_key = key.verifying_key().to_bytes().to_vec();
                (Secret::Ed25519(Box::new(key)), public_key)
            }
            Algorithm::CosignatureMlDsa44 => {
                let key = ml_dsa::SigningKey::<MlDsa44>::from_seed(seed.into());
                let public_key = key.verifying_key().to_bytes().to_vec();
                (Secret::MlDsa44(Box::new(key)), public_key)
            }
        };
        Self { verifier: Self::derived(name, algorithm, &public_key), secret }
    }

    fn derived(name: KeyName, algorithm: Algorithm, public_key: &[u8]) -> VerifierKey {
        VerifierKey::new(name, algorithm, public_key)
            .expect("a public key derived from a seed is canonical, of large order and of the right length")
    }

    /// Reads a `PRIVATE+KEY+<name>+<key ID>+<base64 of type byte and seed>` line, without its newline.
    ///
    /// # Errors
    /// [`KeyError`]; the message never holds key material.
    pub fn parse(line: &str) -> Result<Self, KeyError> {
        let rest = line.strip_prefix("PRIVATE+KEY+").ok_or(KeyError::PrivateShape)?;
        let mut parts = rest.splitn(3, '+');
        let (Some(name), Some(id), Some(material)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(KeyError::PrivateShape);
        };
        let name = KeyName::new(name)?;
        let found = KeyId(text::parse_hex4(id).ok_or(KeyError::PrivateShape)?);
        let material = Zeroizing::new(text::parse_base64(material).ok_or(KeyError::Base64)?);
        let (kind, seed) = material.split_first().ok_or(KeyError::PrivateShape)?;
        let algorithm = Algorithm::from_byte(*kind)?;
        let seed: &[u8; SEED_BYTES] = seed.try_into().map_err(|_| KeyError::Length {
            kind: *kind,
            found: seed.len(),
            expected: SEED_BYTES,
        })?;
        let key = Self::from_seed(name, algorithm, seed);
        let expected = key.verifier.id;
        if expected == found { Ok(key) } else { Err(KeyError::Id { found, expected }) }
    }

    /// The private key line, without a newline.
    pub fn to_line(&self) -> Zeroizing<String> {
        let mut material = Zeroizing::new(vec![self.verifier.algorithm as u8]);
        material.extend_from_slice(self.seed().as_slice());
        let encoded = Zeroizing::new(text::base64(&material));
        Zeroizing::new(format!("PRIVATE+KEY+{}+{}+{}", self.verifier.name, self.verifier.id, *encoded))
    }

    /// The public half.
    pub const fn verifier(&self) -> &VerifierKey {
        &self.verifier
    }

    /// The same Ed25519 secret as a cosignature/v1 key, for private keys that other tools wrote as
    /// plain note keys. Other keys stay what they are.
    #[must_use]
    pub fn into_cosigner(self) -> Self {
        match self.verifier.algorithm {
            Algorithm::Ed25519 => {
                let seed = self.seed();
                Self::from_seed(self.verifier.name.clone(), Algorithm::CosignatureEd25519, &seed)
            }
            Algorithm::CosignatureEd25519 | Algorithm::CosignatureMlDsa44 => self,
        }
    }

    /// The secret seed, for protocols that know the key in another form than notes do.
    pub fn seed(&self) -> Zeroizing<[u8; SEED_BYTES]> {
        match &self.secret {
            Secret::Ed25519(key) => Zeroizing::new(key.to_bytes()),
            Secret::MlDsa44(key) => {
                let mut seed = Zeroizing::new([0; SEED_BYTES]);
                seed.copy_from_slice(key.as_seed().as_slice());
                seed
            }
        }
    }

    /// Signs `message` itself; callers frame it as the signature type demands. Deterministic.
    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.secret {
            Secret::Ed25519(key) => key.sign(message).to_bytes().to_vec(),
            Secret::MlDsa44(key) => key
                .expanded_key()
                .sign_deterministic(message, &[])
                .expect("an empty context is never too long")
                .encode()
                .to_vec(),
        }
    }
}

impl fmt::Debug for SignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignerKey({}+{})", self.verifier.name, self.verifier.id)
    }
}

#[cfg(test)]
mod primitives;

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example's key in the signed-note specification.
    const VKEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";

    #[test]
    fn keys_round_trip_through_their_lines() {
        for algorithm in [Algorithm::Ed25519, Algorithm::CosignatureEd25519, Algorithm::CosignatureMlDsa44] {
            let name = KeyName::new("witness.example/w1").unwrap();
            let key = SignerKey::from_seed(name, algorithm, &[7; 32]);
            let again = SignerKey::parse(&key.to_line()).unwrap();
            assert_eq!(again.verifier(), key.verifier());
            let vkey = key.verifier().to_string();
            assert_eq!(vkey.parse::<VerifierKey>().as_ref(), Ok(key.verifier()));
            assert_eq!(vkey.parse::<VerifierKey>().unwrap().to_string(), vkey);
        }
    }

    #[test]
    fn a_wrong_key_id_names_both_ids() {
        assert_eq!(VKEY.parse::<VerifierKey>().unwrap().to_string(), VKEY);
        let error = VKEY.replace("530d903a", "530d903b").parse::<VerifierKey>().unwrap_err();
        let (found, expected) = (KeyId([0x53, 0x0d, 0x90, 0x3b]), KeyId([0x53, 0x0d, 0x90, 0x3a]));
        assert_eq!(error, KeyError::Id { found, expected });
        assert_eq!(error.to_string(), "key ID 530d903b is not 530d903a, which name, type and key give");
    }

    #[test]
    fn small_order_and_non_canonical_points_are_refused() {
        // The eight points of small order, then encodings of y at or above the prime.
        let mut points: Vec<[u8; 32]> = [
            "0000000000000000000000000000000000000000000000000000000000000000",
            "0100000000000000000000000000000000000000000000000000000000000000",
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "0000000000000000000000000000000000000000000000000000000000000080",
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        ]
        .iter()
        .map(|hex| hex::decode(hex).unwrap().try_into().unwrap())
        .collect();
        for low in 0xedu8..=0xff {
            for high in [0x7f, 0xff] {
                let mut point = [0xff; 32];
                (point[0], point[31]) = (low, high);
                points.push(point);
            }
        }
        // Negative zero: y = 1 with the sign bit set.
        let mut negative_zero = [0; 32];
        (negative_zero[0], negative_zero[31]) = (1, 0x80);
        points.push(negative_zero);
        for point in points {
            let name = KeyName::new("log.example").unwrap();
            let result = VerifierKey::new(name, Algorithm::Ed25519, &point);
            assert_eq!(result.unwrap_err(), KeyError::WeakKey, "{}", hex::encode(point));
        }
    }

    #[test]
    fn no_secret_shows_in_debug_or_errors() {
        let key = SignerKey::from_seed(KeyName::new("n").unwrap(), Algorithm::Ed25519, &[9; 32]);
        let secret = text::base64(&[[1u8].as_slice(), &[9; 32]].concat());
        assert!(key.to_line().contains(&secret));
        assert!(!format!("{key:?}").contains(&secret));
        let mut broken = key.to_line().to_string();
        broken.truncate(broken.len() - 1);
        let error = SignerKey::parse(&broken).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(&secret[..20]));
    }
}
