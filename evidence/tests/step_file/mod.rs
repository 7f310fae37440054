//! Files of steps, built byte by byte from the words of the format, never with the crate's own writer.

#![allow(dead_code, reason = "each test binary uses the part it needs")]

use sha2::{Digest, Sha256};

/// A store id.
pub(crate) const ID: &[u8; 16] = b"0123456789abcdef";

/// Bytes of a length prefix.
pub(crate) const PREFIX_BYTES: usize = 4;

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    parts.iter().fold(Sha256::new(), Digest::chain_update).finalize().into()
}

/// What a payload is made of.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) run: &'a str,
    /// The key is derived from the path.
    pub(crate) path: &'a str,
    pub(crate) definition: &'a str,
    pub(crate) codec: &'a str,
    pub(crate) input: [u8; 32],
    pub(crate) revision: u64,
    pub(crate) steps: u32,
    pub(crate) value: &'a [u8],
}

impl Default for Fields<'_> {
    fn default() -> Self {
        let (tenant, run, path, definition, codec) = ("acme", "run-1", "charge", "refund", "json");
        let (input, revision, steps) = (sha256(&[b"runseal/step-input/v1\n", b"order 4471"]), 3, 7);
        Self { tenant, run, path, definition, codec, input, revision, steps, value: b"{}" }
    }
}

impl Fields<'_> {
    /// The key that the step at `path` has.
    pub(crate) fn key(&self) -> [u8; 32] {
        let length = (self.path.len() as u64).to_be_bytes();
        sha256(&[b"runseal/step-key/v1\n", &length, self.path.as_bytes()])
    }

    /// The payload.
    pub(crate) fn payload(&self) -> Vec<u8> {
        let names = [self.tenant, self.run, self.path, self.definition, self.codec];
        let mut bytes = [self.key(), self.input].concat();
        bytes.extend(self.revision.to_be_bytes());
        bytes.extend(self.steps.to_be_bytes());
        bytes.extend(u32::try_from(self.value.len()).unwrap().to_be_bytes());
        bytes.extend(names.iter().flat_map(|name| u16::try_from(name.len()).unwrap().to_be_bytes()));
        bytes.extend(names.concat().into_bytes());
        bytes.extend(self.value);
        bytes
    }
}

/// The digest of a step.
pub(crate) fn digest(payload: &[u8]) -> [u8; 32] {
    sha256(&[b"runseal/step/v1\n", payload])
}

/// The head of the run whose steps have these payloads.
pub(crate) fn run_head(tenant: &str, run: &str, payloads: &[Vec<u8>]) -> [u8; 32] {
    let length = |name: &str| u16::try_from(name.len()).unwrap().to_be_bytes();
    let names = [&length(tenant)[..], tenant.as_bytes(), &length(run), run.as_bytes()].concat();
    let genesis = sha256(&[b"runseal/run-steps/v1\n", &names]);
    payloads
        .iter()
        .fold(genesis, |head, payload| sha256(&[b"runseal/run-step/v1\n", &head, &digest(payload)]))
}

/// A file and where its frames start; the last entry is the file's length.
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    pub(crate) starts: Vec<usize>,
    pub(crate) head: [u8; 32],
    id: [u8; 16],
}

impl File {
    /// A file without steps.
    pub(crate) fn new(id: &[u8; 16]) -> Self {
        let mut bytes = b"runseal steps\r\n\x01".to_vec();
        bytes.extend(id);
        Self { bytes, starts: vec![32], head: sha256(&[b"runseal/step-file/v1\n", id]), id: *id }
    }

    /// The file with one more frame.
    pub(crate) fn with(mut self, payload: &[u8]) -> Self {
        let at = (self.bytes.len() as u64).to_be_bytes();
        self.head = sha256(&[b"runseal/step-frame/v1\n", &self.id, &at, &self.head, &digest(payload)]);
        self.bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
        self.bytes.extend(payload);
        self.bytes.extend(self.head);
        self.starts.push(self.bytes.len());
        self
    }

    /// The bytes, with `by` added to the length prefix of the frame `number`, counted from 1.
    pub(crate) fn lengthened(mut self, number: usize, by: i64) -> Vec<u8> {
        let start = self.starts[number - 1];
        let prefix: &mut [u8; PREFIX_BYTES] =
            (&mut self.bytes[start..start + PREFIX_BYTES]).try_into().unwrap();
        let stated = i64::from(u32::from_be_bytes(*prefix)) + by;
        *prefix = u32::try_from(stated).unwrap().to_be_bytes();
        self.bytes
    }
}
