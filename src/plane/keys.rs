//! The master key and the keys that follow from it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hkdf::Hkdf;
use runseal_evidence::name::Base;
use runseal_evidence::signature::RecordSigner;
use runseal_tlog::key::{Algorithm, KeyName, SignerKey};
use runseal_tlog::text;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::store::Scope;

/// First word of the master key file.
const MASTER_KEY: &str = "runseal-master-key-v1";
const LOG_KEY_INFO: &str = "runseal/log-key/v1\n";
/// Most log keys kept ready. Deriving one again costs a few dozen microseconds.
const KEPT_MAX: usize = 4096;

/// The 32 bytes that every log key of a plane follows from. Wiped when dropped.
#[derive(Clone)]
pub(crate) struct MasterKey(Zeroizing<[u8; 32]>);

impl MasterKey {
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// A new one, from the operating system's randomness.
    pub(crate) fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(bytes.as_mut_slice())?;
        Ok(Self(bytes))
    }

    /// Reads the one line of the key file. The one spelling is what [`MasterKey::to_line`] writes.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let encoded = line.strip_suffix('\n')?.strip_prefix(MASTER_KEY)?.strip_prefix(' ')?;
        let bytes = Zeroizing::new(text::parse_base64(encoded)?);
        bytes.as_slice().try_into().ok().map(Self::from_bytes)
    }

    /// The line of the key file, with its line feed.
    pub(crate) fn to_line(&self) -> Zeroizing<String> {
        let encoded = Zeroizing::new(text::base64(self.0.as_slice()));
        Zeroizing::new(format!("{MASTER_KEY} {}\n", encoded.as_str()))
    }

    /// The key of the log called `origin`: HKDF-SHA256 without salt, the Ed25519 seed being its output.
    fn log_key(&self, origin: &str) -> SignerKey {
        let mut seed = Zeroizing::new([0; 32]);
        Hkdf::<Sha256>::new(None, self.0.as_slice())
            .expand_multi_info(&[LOG_KEY_INFO.as_bytes(), origin.as_bytes()], seed.as_mut_slice())
            .expect("32 bytes are within what HKDF-SHA256 gives");
        let name = KeyName::new(origin).expect("a base holds nothing that a key's name must not hold");
        SignerKey::from_seed(name, Algorithm::Ed25519, &seed)
    }
}

/// The key that signs a plane's records.
pub(crate) struct RecordKey {
    pub(crate) signer: RecordSigner,
    pub(crate) vkey: String,
}

impl RecordKey {
    /// A new one: its `PRIVATE+KEY` line, with a line feed.
    pub(crate) fn generate(base: &Base) -> Result<Zeroizing<String>, getrandom::Error> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut_slice())?;
        let name = base.record_key_name();
        let name = KeyName::new(name).expect("a base holds nothing that a key's name must not hold");
        let key = SignerKey::from_seed(name, Algorithm::Ed25519, &seed);
        Ok(Zeroizing::new(format!("{}\n", key.to_line().as_str())))
    }

    /// Reads the one line of the key file: a type 0x01 key called `<base>/records`.
    pub(crate) fn parse(line: &str, base: &Base) -> Option<Self> {
        let line = line.strip_suffix('\n')?;
        let key = SignerKey::parse(line).ok()?;
        let verifier = key.verifier();
        let name = verifier.name().as_str();
        if verifier.algorithm() != Algorithm::Ed25519 || name != base.record_key_name() {
            return None;
        }
        // The material after the last `+` is the type byte and the seed: the line has just been parsed.
        let material = Zeroizing::new(text::parse_base64(line.splitn(5, '+').nth(4)?)?);
        let seed: Zeroizing<[u8; 32]> = Zeroizing::new(material.get(1..)?.try_into().ok()?);
        Some(Self { signer: RecordSigner::new(name, &seed), vkey: verifier.to_string() })
    }
}

/// The log keys of a plane, derived when first asked for.
pub(crate) struct Keys {
    master: MasterKey,
    derived: Mutex<HashMap<Scope, Arc<SignerKey>>>,
}

impl Keys {
    pub(crate) fn new(master: MasterKey) -> Self {
        Self { master, derived: Mutex::default() }
    }

    /// The key of a scope's log.
    pub(crate) fn log_key(&self, scope: &Scope, origin: impl FnOnce() -> String) -> Arc<SignerKey> {
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = derived.get(scope) {
            return Arc::clone(key);
        }
        if derived.len() >= KEPT_MAX {
            derived.clear();
        }
        let key = Arc::new(self.master.log_key(&origin()));
        derived.insert(scope.clone(), Arc::clone(&key));
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of docs/format.md.
    #[test]
    fn log_keys_are_those_of_the_format_description() {
        let master =
            MasterKey::parse("runseal-master-key-v1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
        for (origin, vkey) in [
            (
                "log.example.com/plane",
                "log.example.com/plane+a6e61724+AZQFwAt8/ZynriptLQC/lzSWF+sD0INIDRrjlGeHGMYG",
            ),
            (
                "log.example.com/plane/log/acme",
                "log.example.com/plane/log/acme+13f58d97+AURjtcn5LOU7I1O9nExGzY+tnwC/XlfEQ848V2gnonHu",
            ),
        ] {
            assert_eq!(master.log_key(origin).verifier().to_string(), vkey);
        }
    }

    #[test]
    fn a_master_key_line_has_one_spelling() {
        let line = "runseal-master-key-v1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
        assert_eq!(MasterKey::parse(line).unwrap().to_line().as_str(), line);
        for bad in [
            line.trim_end(),
            &line.replace("v1", "v2"),
            &line.replace(' ', "  "),
            &line.replace('=', ""),
            &format!("{line}\n"),
            "runseal-master-key-v1 AAEC\n",
        ] {
            assert!(MasterKey::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn a_record_key_is_read_from_its_line_and_only_under_its_own_name() {
        let line = "PRIVATE+KEY+log.example.com/plane/records+ad71085e+ASAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4/\n";
        let base = Base::new("log.example.com/plane").unwrap();
        let key = RecordKey::parse(line, &base).unwrap();
        assert_eq!(key.signer.key_id().to_string(), "ad71085e");
        assert_eq!(
            key.vkey,
            "log.example.com/plane/records+ad71085e+ASmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X"
        );
        assert!(RecordKey::parse(line, &Base::new("elsewhere").unwrap()).is_none());
        assert!(RecordKey::parse(line.trim_end(), &base).is_none());
        let made = RecordKey::generate(&base).unwrap();
        assert!(RecordKey::parse(&made, &base).is_some());
    }
}
