//! Signing through an ssh-agent, so that an Ed25519 key can stay in a hardware token.
//!
//! The protocol is draft-ietf-sshm-ssh-agent: a length, a message number, and strings with lengths.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use runseal_tlog::checkpoint::Checkpoint;
use runseal_tlog::cosignature::{self, CosignatureError};
use runseal_tlog::key::{Algorithm, KeyError, KeyName, VerifierKey};
use runseal_tlog::note::SignatureLine;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// How long an agent may take to answer, a touch on a token included.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Longest answer read.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
const KEY_TYPE: &[u8] = b"ssh-ed25519";

const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;

/// Why an agent cannot be signed with.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The socket fails.
    #[error("the ssh-agent at {socket}: {source}", socket = .socket.display())]
    Io {
        /// The agent's socket.
        socket: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not the answer that was asked for.
    #[error("the ssh-agent at {socket} refused, or answered something else", socket = .0.display())]
    Refused(PathBuf),
    /// No such key in the agent.
    #[error("the ssh-agent at {socket} has no Ed25519 key {wanted}; it has {found}", socket = .socket.display())]
    NoKey {
        /// The agent's socket.
        socket: PathBuf,
        /// The fingerprint asked for, or that any would do.
        wanted: String,
        /// What it has.
        found: String,
    },
    /// The key in the agent is no usable key.
    #[error("the key in the ssh-agent: {0}")]
    Key(#[from] KeyError),
    /// What it signed does not hold, or cannot be signed.
    #[error("{0}")]
    Cosignature(#[from] CosignatureError),
}

/// An Ed25519 key that an ssh-agent holds, as a cosignature/v1 key.
#[derive(Debug)]
pub struct AgentKey {
    socket: PathBuf,
    blob: Vec<u8>,
    verifier: VerifierKey,
    /// Kept open between signatures; opened anew when it fails.
    connection: Mutex<Option<UnixStream>>,
}

impl AgentKey {
    /// Finds the key with this `SHA256:` fingerprint, or the only Ed25519 key if none is named.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn find(socket: &Path, fingerprint: Option<&str>, name: KeyName) -> Result<Self, AgentError> {
        let mut stream = connect(socket)?;
        let answer = exchange(&mut stream, socket, &[REQUEST_IDENTITIES], IDENTITIES_ANSWER)?;
        let refused = || AgentError::Refused(socket.to_owned());
        let keys: Vec<Vec<u8>> = identities(&answer)
            .ok_or_else(refused)?
            .into_iter()
            .filter(|blob| public_key(blob).is_some())
            .collect();
        let fits = |blob: &&Vec<u8>| fingerprint.is_none_or(|wanted| fingerprint_of(blob) == wanted);
        let mut fitting = keys.iter().filter(fits);
        let (Some(blob), None) = (fitting.next(), fitting.next()) else {
            let found: Vec<String> = keys.iter().map(|blob| fingerprint_of(blob)).collect();
            return Err(AgentError::NoKey {
                socket: socket.to_owned(),
                wanted: fingerprint.unwrap_or("by itself (name one of several)").to_owned(),
                found: if found.is_empty() { "none".to_owned() } else { found.join(", ") },
            });
        };
        let public = public_key(blob).ok_or_else(refused)?;
        let verifier = VerifierKey::new(name, Algorithm::CosignatureEd25519, public)?;
        Ok(Self {
            socket: socket.to_owned(),
            blob: blob.clone(),
            verifier,
            connection: Mutex::new(Some(stream)),
        })
    }

    /// The public half.
    pub const fn verifier(&self) -> &VerifierKey {
        &self.verifier
    }

    /// Cosigns a checkpoint. Blocks for as long as the agent takes, at most a few seconds.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn cosign(&self, checkpoint: &Checkpoint, time: u64) -> Result<SignatureLine, AgentError> {
        let message = cosignature::message_to_sign(checkpoint, time, &self.verifier)?;
        let signature = self.sign(&message)?;
        Ok(cosignature::assemble(checkpoint, time, &self.verifier, &signature)?)
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, AgentError> {
        let mut request = vec![SIGN_REQUEST];
        push_string(&mut request, &self.blob);
        push_string(&mut request, message);
        request.extend(0u32.to_be_bytes());
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = connection.take().map(|mut stream| {
            let answer = exchange(&mut stream, &self.socket, &request, SIGN_RESPONSE);
            (stream, answer)
        });
        let (stream, answer) = match kept {
            Some((stream, Ok(answer))) => (stream, answer),
            // An agent may close what was idle; whoever restarted it gets one more try.
            Some((_, Err(AgentError::Io { .. }))) | None => {
                let mut stream = connect(&self.socket)?;
                let answer = exchange(&mut stream, &self.socket, &request, SIGN_RESPONSE)?;
                (stream, answer)
            }
            Some((_, Err(error))) => return Err(error),
        };
        *connection = Some(stream);
        let signature = take_string(&mut &answer[..]).and_then(|mut blob| {
            let (kind, signature) = (take_string(&mut blob)?, take_string(&mut blob)?);
            (kind == KEY_TYPE && blob.is_empty()).then(|| signature.to_vec())
        });
        signature.ok_or_else(|| AgentError::Refused(self.socket.clone()))
    }
}

fn connect(socket: &Path) -> Result<UnixStream, AgentError> {
    let io = |source| AgentError::Io { socket: socket.to_owned(), source };
    let stream = UnixStream::connect(socket).map_err(io)?;
    stream.set_read_timeout(Some(ANSWER_TIME)).map_err(io)?;
    stream.set_write_timeout(Some(ANSWER_TIME)).map_err(io)?;
    Ok(stream)
}

/// Sends one message and reads the body of the answer, which must have number `expected`.
fn exchange(
    stream: &mut UnixStream,
    socket: &Path,
    message: &[u8],
    expected: u8,
) -> Result<Vec<u8>, AgentError> {
    let io = |source| AgentError::Io { socket: socket.to_owned(), source };
    let mut framed = Vec::with_capacity(4 + message.len());
    push_string(&mut framed, message);
    stream.write_all(&framed).map_err(io)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).map_err(io)?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length == 0 || length > ANSWER_BYTES_MAX {
        return Err(AgentError::Refused(socket.to_owned()));
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).map_err(io)?;
    if answer.remove(0) == expected { Ok(answer) } else { Err(AgentError::Refused(socket.to_owned())) }
}

fn push_string(to: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("a checkpoint is far below 4 GiB");
    to.extend(length.to_be_bytes());
    to.extend_from_slice(bytes);
}

fn take_u32(from: &mut &[u8]) -> Option<u32> {
    let (head, rest) = from.split_first_chunk::<4>()?;
    *from = rest;
    Some(u32::from_be_bytes(*head))
}

fn take_string<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_u32(from)?).ok()?;
    let (string, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(string)
}

/// Key blobs in the body of an identities answer; `None` when it is none.
pub fn identities(mut answer: &[u8]) -> Option<Vec<Vec<u8>>> {
    let count = take_u32(&mut answer)?;
    let mut blobs = Vec::new();
    for _ in 0..count {
        blobs.push(take_string(&mut answer)?.to_vec());
        take_string(&mut answer)?;
    }
    Some(blobs)
}

/// The 32 bytes of an `ssh-ed25519` key blob.
fn public_key(mut blob: &[u8]) -> Option<&[u8]> {
    let (kind, public) = (take_string(&mut blob)?, take_string(&mut blob)?);
    (kind == KEY_TYPE && public.len() == 32 && blob.is_empty()).then_some(public)
}

/// As `ssh-add -l` prints it.
fn fingerprint_of(blob: &[u8]) -> String {
    format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(blob)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_lie_about_lengths_are_no_answers() {
        let mut good = 1u32.to_be_bytes().to_vec();
        push_string(&mut good, b"blob");
        push_string(&mut good, b"comment");
        assert_eq!(identities(&good), Some(vec![b"blob".to_vec()]));
        for cut in 0..good.len() {
            assert_eq!(identities(&good[..cut]), None, "{cut}");
        }
        let mut many = good.clone();
        many[..4].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(identities(&many), None);
        assert_eq!(public_key(b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20short"), None);
    }
}
