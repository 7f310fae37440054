//! A log for tests, and what a witness must answer it, written from the specifications' words.

/// A log for tests: its tree hashes and its notes are written from the specifications' words.
pub(crate) struct TestLog {
    pub(crate) origin: String,
    key: ed25519_dalek::SigningKey,
    leaves: Vec<[u8; 32]>,
}

impl TestLog {
    pub(crate) fn new(origin: &str, seed: u8) -> Self {
        let key = ed25519_dalek::SigningKey::from_bytes(&[seed; 32]);
        Self { origin: origin.to_owned(), key, leaves: Vec::new() }
    }

    /// `name+hash+base64(0x01 || key)`, hash the first four bytes of SHA-256(name || LF || 0x01 || key).
    pub(crate) fn vkey(&self) -> String {
        let mut material = vec![1];
        material.extend(self.key.verifying_key().to_bytes());
        format!("{}+{}+{}", self.origin, hex::encode(self.key_id()), base64(&material))
    }

    /// A `logs/v0` list of this log.
    pub(crate) fn list(&self) -> String {
        format!("logs/v0\nvkey {}\n", self.vkey())
    }

    fn key_id(&self) -> [u8; 4] {
        let mut material = vec![1];
        material.extend(self.key.verifying_key().to_bytes());
        let hash = sha256(&[self.origin.as_bytes(), b"\n", &material]);
        [hash[0], hash[1], hash[2], hash[3]]
    }

    /// Grows to `size` leaves; `salt` tells one history from another.
    pub(crate) fn grow(&mut self, size: usize, salt: &str) {
        for leaf in self.leaves.len()..size {
            self.leaves.push(sha256(&[&[0], format!("{salt}{leaf}").as_bytes()]));
        }
    }

    pub(crate) fn forget(&mut self, size: usize) {
        self.leaves.truncate(size);
    }

    /// MTH(D[0:size]) of RFC 6962, section 2.1.
    pub(crate) fn root(&self, size: usize) -> [u8; 32] {
        mth(&self.leaves[..size])
    }

    pub(crate) fn leaf_hashes(&self) -> &[[u8; 32]] {
        &self.leaves
    }

    /// PROOF(old, D[0:new]) of RFC 6962, section 2.1.2.
    pub(crate) fn proof(&self, old: usize, new: usize) -> Vec<[u8; 32]> {
        if old == 0 || old == new { Vec::new() } else { subproof(old, &self.leaves[..new], true) }
    }

    pub(crate) fn checkpoint(&self, size: usize) -> String {
        self.checkpoint_of(size, &self.root(size), "")
    }

    /// The text of [`Self::checkpoint`], which is what is signed.
    pub(crate) fn text(&self, size: usize) -> String {
        let note = self.checkpoint(size);
        note[..=note.rfind("\n\n").unwrap()].to_owned()
    }

    pub(crate) fn checkpoint_of(&self, size: usize, root: &[u8; 32], extension: &str) -> String {
        use ed25519_dalek::Signer as _;
        let text = format!("{}\n{size}\n{}\n{extension}", self.origin, base64(root));
        let mut signature = self.key_id().to_vec();
        signature.extend(self.key.sign(text.as_bytes()).to_bytes());
        format!("{text}\n\u{2014} {} {}\n", self.origin, base64(&signature))
    }

    /// An `add-checkpoint` body.
    pub(crate) fn request(&self, old: usize, new: usize) -> String {
        request_body(old, &self.proof(old, new), &self.checkpoint(new))
    }
}

pub(crate) fn request_body(old: usize, proof: &[[u8; 32]], checkpoint: &str) -> String {
    let lines: String = proof.iter().map(|hash| base64(hash) + "\n").collect();
    format!("old {old}\n{lines}\n{checkpoint}")
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

pub(crate) fn unbase64(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    use sha2::Digest as _;
    let mut hasher = sha2::Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

fn split(length: usize) -> usize {
    length.next_power_of_two() / 2
}

pub(crate) fn mth(leaves: &[[u8; 32]]) -> [u8; 32] {
    match leaves {
        [] => sha256(&[]),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(split(leaves.len()));
            sha256(&[&[1], &mth(left), &mth(right)])
        }
    }
}

fn subproof(m: usize, leaves: &[[u8; 32]], whole: bool) -> Vec<[u8; 32]> {
    if m == leaves.len() {
        return if whole { Vec::new() } else { vec![mth(leaves)] };
    }
    let k = split(leaves.len());
    let (mut proof, sibling) = if m <= k {
        (subproof(m, &leaves[..k], whole), mth(&leaves[k..]))
    } else {
        (subproof(m - k, &leaves[k..], false), mth(&leaves[..k]))
    };
    proof.push(sibling);
    proof
}

/// Checks signature lines against an Ed25519 cosigner's vkey and the checkpoint text, from the words of
/// tlog-cosignature; answers the time of the line that verifies.
pub(crate) fn cosignature_time(text: &str, lines: &str, vkey: &str) -> Option<u64> {
    let mut parts = vkey.splitn(3, '+');
    let (name, id) = (parts.next()?, hex::decode(parts.next()?).ok()?);
    let public: [u8; 32] = unbase64(parts.next()?).strip_prefix(&[4])?.try_into().ok()?;
    let key = ed25519_dalek::VerifyingKey::from_bytes(&public).ok()?;
    lines.lines().find_map(|line| {
        let (found, encoded) = line.strip_prefix("\u{2014} ")?.rsplit_once(' ')?;
        let bytes = unbase64(encoded);
        if found != name || bytes.len() != 4 + 8 + 64 || bytes[..4] != id {
            return None;
        }
        let time = u64::from_be_bytes(bytes[4..12].try_into().ok()?);
        let message = format!("cosignature/v1\ntime {time}\n{text}");
        let signature = ed25519_dalek::Signature::from_slice(&bytes[12..]).ok()?;
        key.verify_strict(message.as_bytes(), &signature).ok().map(|()| time)
    })
}
