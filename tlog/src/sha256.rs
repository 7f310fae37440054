//! SHA-256 (FIPS 180-4) of messages that are mostly short: hashes over a prefix and a few other hashes.

use sha2::{Digest, Sha256, block_api::compress256};

/// SHA-256 over `parts`, one after the other.
///
/// A message of up to eight blocks, its padding included, is laid out and compressed at once: that spares the
/// buffering, which takes a short message as long as the hashing.
#[inline]
pub fn sha256<const PARTS: usize>(parts: [&[u8]; PARTS]) -> [u8; 32] {
    short(parts).unwrap_or_else(|| {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize().into()
    })
}

/// The same where the message and its padding fit into a few blocks.
#[inline]
fn short<const PARTS: usize>(parts: [&[u8]; PARTS]) -> Option<[u8; 32]> {
    let length = parts.iter().try_fold(0usize, |length, part| length.checked_add(part.len()))?;
    // After the message come the 0x80 marker and its length in bits (section 5.1.1).
    let used = length.checked_add(9)?.div_ceil(BLOCK_BYTES);
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    let padded = blocks.get_mut(..used)?;
    let (message, padding) = padded.as_flattened_mut().split_at_mut_checked(length)?;
    let mut rest = message;
    for part in parts {
        let (here, behind) = rest.split_at_mut_checked(part.len())?;
        here.copy_from_slice(part);
        rest = behind;
    }
    *padding.first_mut()? = 0x80;
    *padding.last_chunk_mut()? = (length as u64 * 8).to_be_bytes();
    Some(of_padded(padded))
}

/// The hash of a message that was padded to whole blocks.
pub(crate) fn of_padded(padded: &[[u8; BLOCK_BYTES]]) -> [u8; 32] {
    let mut state = INITIAL;
    compress256(&mut state, padded);
    let mut hash = [0; 32];
    for (bytes, word) in hash.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    hash
}

const BLOCK_BYTES: usize = 64;

const BLOCKS: usize = 8;

/// The initial state (section 5.3.3).
const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_every_length_are_hashed_alike_however_they_are_parted() {
        let bytes: Vec<u8> = (0..800usize).map(|at| u8::try_from(at % 251).unwrap()).collect();
        for length in 0..bytes.len() {
            let expected: [u8; 32] = Sha256::digest(&bytes[..length]).into();
            let (head, tail) = bytes[..length].split_at(length / 3);
            assert_eq!(sha256([&bytes[..length]]), expected, "{length}");
            assert_eq!(sha256([head, &[], tail]), expected, "{length}");
        }
    }
}
