//! Keys, digests and heads: 32 bytes each, told apart by type.

use std::{fmt, str::FromStr};

use runseal_tlog::sha256;
use sha2::{Digest, Sha256};

use super::frame::StoreId;
use crate::{
    chain,
    name::{RunId, TenantId},
};

/// The text is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 lower-case hexadecimal digits")]
pub struct DigestError;

/// Declares a digest of 32 bytes, spelled as 64 lower-case hexadecimal digits.
macro_rules! digest {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            /// One that was stored or received.
            pub fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// The 32 bytes.
            pub fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = DigestError;

            fn from_str(text: &str) -> Result<Self, DigestError> {
                let mut bytes = [0; 32];
                let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
                match hex::decode_to_slice(text, &mut bytes) {
                    Ok(()) if lower => Ok(Self(bytes)),
                    _ => Err(DigestError),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

digest! {
    /// Which step of a run this is. One key has one value in a run.
    StepKey
}

digest! {
    /// What a run was given to work on.
    InputDigest
}

digest! {
    /// A step with its value: the digest of its payload.
    StepDigest
}

digest! {
    /// A point of the chain through a file of steps: its genesis, or the head of a frame.
    StoreHead
}

digest! {
    /// A point of the chain through the steps of one run: its genesis, or the head at a step.
    RunHead
}

impl StepKey {
    /// The key of the step that `parts` tell apart from every other one of its run, such as its path and
    /// arguments: `SHA-256("runseal/step-key/v1\n" ‖ u64be(bytes of a part) ‖ part ‖ …)`.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new_with_prefix("runseal/step-key/v1\n");
        for part in parts {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }
}

impl InputDigest {
    /// The digest of an input: `SHA-256("runseal/step-input/v1\n" ‖ input)`.
    pub fn of(input: &[u8]) -> Self {
        Self(sha256([b"runseal/step-input/v1\n", input]))
    }
}

impl StepDigest {
    /// The digest of the step whose payload this is.
    pub fn of(payload: &[u8]) -> Self {
        Self(sha256([b"runseal/step/v1\n", payload]))
    }
}

impl StoreHead {
    /// Where the chain of a file starts.
    pub fn genesis(id: &StoreId) -> Self {
        Self(sha256([b"runseal/step-file/v1\n", id.as_bytes()]))
    }

    /// The head of the frame at offset `at` of the file of `id` that holds `digest` and follows `self`.
    #[must_use]
    pub fn link(self, id: &StoreId, at: u64, digest: &StepDigest) -> Self {
        let label = b"runseal/step-frame/v1\n";
        Self(sha256([label, id.as_bytes(), &at.to_be_bytes(), &self.0, &digest.0]))
    }
}

impl RunHead {
    /// Where the chain through the steps of `run` starts.
    pub fn genesis(tenant: &TenantId, run: &RunId) -> Self {
        Self(chain::genesis("runseal/run-steps/v1\n", tenant, run))
    }

    /// The head at the step that `digest` is of and that follows `self`.
    #[must_use]
    pub fn link(self, digest: &StepDigest) -> Self {
        Self(sha256([b"runseal/run-step/v1\n", &self.0, &digest.0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected digests in this module come from Python's hashlib over the bytes the documentation describes.
    #[test]
    fn digests_are_those_the_documentation_describes() {
        let id = StoreId::from_bytes(*b"0123456789abcdef");
        assert_eq!(StepKey::of(&[b"charge", b"4471"]).to_string(), PYTHON[0]);
        assert_eq!(InputDigest::of(b"order 4471").to_string(), PYTHON[1]);
        assert_eq!(StepDigest::of(b"payload").to_string(), PYTHON[2]);
        assert_eq!(StoreHead::genesis(&id).to_string(), PYTHON[3]);
        let digest = StepDigest::of(b"payload");
        assert_eq!(StoreHead::genesis(&id).link(&id, 32, &digest).to_string(), PYTHON[4]);
        let genesis = RunHead::genesis(&TenantId::new("acme").unwrap(), &RunId::new("run-1").unwrap());
        assert_eq!(genesis.to_string(), PYTHON[5]);
        assert_eq!(genesis.link(&digest).to_string(), PYTHON[6]);
    }

    #[test]
    fn parts_of_a_key_keep_their_boundaries() {
        assert_ne!(StepKey::of(&[b"ab", b"c"]), StepKey::of(&[b"a", b"bc"]));
        assert_ne!(StepKey::of(&[b"ab"]), StepKey::of(&[b"ab", b""]));
    }

    #[test]
    fn a_digest_has_one_spelling() {
        let text = StepKey::of(&[]).to_string();
        assert_eq!(text.parse::<StepKey>().unwrap(), StepKey::of(&[]));
        for bad in [&text.to_uppercase(), &text[1..], &format!("{text}0"), ""] {
            assert_eq!(bad.parse::<StepKey>(), Err(DigestError), "{bad}");
        }
    }

    const PYTHON: [&str; 7] = [
        "5930d2026e1c168e26874288ff50b32cc37765729dfadfb7e03307e814557b9d",
        "bc8a4cd46dbe9b50de4eca4fc302bfabd9b56da37655f514ce9903caee9532b6",
        "a29af08731d40d14e1b06becbe66864384d7ecdcb05f661059b3566ac4d7dc8b",
        "c59313829fcf00b6a9caa37e94c8d8c6bc7c59e26536bad2ba3528af1901e6a1",
        "933d52a6fceb7e28493a7ac0c2a3add5bb383be2151b05794591a951f45b6de2",
        "709f64d3159fefec07986764c6b286f97b142f667d74a482fff4e8d7300c415a",
        "b816830d9d742d558c3e2cc1b9e8b326dace78febcbfc39aee45c7b60f9d7e2d",
    ];
}
