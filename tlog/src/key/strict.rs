//! Ed25519 verification that accepts exactly what ed25519-dalek's `verify_strict` accepts, without
//! decoding R, which is an eighth of the work.

use ed25519_dalek::{Signature, Verifier as _, VerifyingKey};

/// Whether `signature` over `message` is `key`'s: RFC 8032's equation without cofactor, S below L, R
/// canonical and not of small order. That `key` is not of small order is for who makes it to see to.
///
/// `verify` encodes the R that S, the key and the message give, and compares bytes. An R that passes is
/// therefore the one encoding of its point, and of small order only if it is one of eight.
pub(super) fn verifies(key: &VerifyingKey, message: &[u8], signature: &Signature) -> bool {
    key.verify(message, signature).is_ok() && !is_small_order(signature.r_bytes())
}

/// The points of order 1, 2, 4 and 8: x and -x differ in the last byte's high bit.
fn is_small_order(encoding: &[u8; 32]) -> bool {
    let mut y = *encoding;
    let negative = y[31] & 0x80 != 0;
    y[31] &= 0x7f;
    match y {
        // x is zero, which has no sign.
        ORDER_1 | ORDER_2 => !negative,
        ORDER_4 | ORDER_8 | OTHER_ORDER_8 => true,
        _ => false,
    }
}

const ORDER_1: [u8; 32] = {
    let mut y = [0; 32];
    y[0] = 1;
    y
};
const ORDER_2: [u8; 32] = {
    let mut y = [0xff; 32];
    y[0] = 0xec;
    y[31] = 0x7f;
    y
};
const ORDER_4: [u8; 32] = [0; 32];
const ORDER_8: [u8; 32] = [
    0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5,
    0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
];
const OTHER_ORDER_8: [u8; 32] = [
    0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a,
    0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
];

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signer as _, SigningKey};

    use super::*;

    /// The key of the seed 07…07 plus a point of order 8.
    const MIXED_ORDER_KEY: &str = "fbb3211d177bccefd763d01a88f6473e43e5cf0a0740e44ab5c64460eefd4675";
    /// Message, R and S: for each R of small order, a message on which RFC 8032's equation holds under
    /// [`MIXED_ORDER_KEY`] with S = k * a. Worked out from the RFC's formulas in another language.
    const SMALL_ORDER_R: [[&str; 3]; 8] = [
        [
            "6",
            "0100000000000000000000000000000000000000000000000000000000000000",
            "f77e525cbb3e7696ca9ca9ce9482a0fdd0cb8f9cb4f97e99cea03c5e034ec50f",
        ],
        [
            "4",
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
            "d07d70bdbe483251f2302dfc4de2069101d615060ab19e502df362f7565f2405",
        ],
        [
            "0",
            "0000000000000000000000000000000000000000000000000000000000000000",
            "e10b409ad2dfd60e2990df6cd2c207081bd81ee5d7629a0a8d8b42eb2d70fd07",
        ],
        [
            "1",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
            "2a8248583b761357319a7b819c9087fb3f136ddbfa5e8495919c2a230524ff0d",
        ],
        [
            "4",
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "9d654437e1586ba365daf45e744e6b9106e62409f47178f4a943fb55a1ead602",
        ],
        [
            "18",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
            "2136749e7c57755f0f94aac199585fd0db347e02700bcfb2365705bf3367500f",
        ],
        [
            "11",
            "0000000000000000000000000000000000000000000000000000000000000080",
            "c30d1ddc29bfc00aaa0983f9a8c788e099c2bd6e58d441551f33d85a1eab7a0e",
        ],
        [
            "1",
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
            "4c6bed3c8011d290a98110be0cbc6a49bd5ca2017664e299933a94c91e563804",
        ],
    ];

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        hex::decode(hex).unwrap().try_into().unwrap()
    }

    #[test]
    fn each_of_the_eight_small_order_rs_is_refused_where_the_equation_holds() {
        let key = VerifyingKey::from_bytes(&bytes(MIXED_ORDER_KEY)).unwrap();
        for [message, r, s] in SMALL_ORDER_R {
            let signature = Signature::from_components(bytes(r), bytes(s));
            assert!(key.verify(message.as_bytes(), &signature).is_ok(), "R {r} has no other fault");
            assert!(!verifies(&key, message.as_bytes(), &signature), "R {r}");
        }
    }

    #[test]
    fn a_point_that_shares_only_y_or_sign_with_one_of_small_order_is_another() {
        for [_, r, _] in SMALL_ORDER_R {
            assert!(is_small_order(&bytes(r)));
            for bit in 0..255 {
                let mut other: [u8; 32] = bytes(r);
                other[bit / 8] ^= 1 << (bit % 8);
                let known = SMALL_ORDER_R.iter().any(|[_, r, _]| bytes::<32>(r) == other);
                assert_eq!(is_small_order(&other), known, "{r} with bit {bit} turned");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn a_verdict_is_that_of_verify_strict(seed: [u8; 32], message: Vec<u8>, at in 0..64usize, mask: u8) {
            let key = SigningKey::from_bytes(&seed);
            let mut signature = key.sign(&message).to_bytes();
            signature[at] ^= mask;
            let signature = Signature::from_bytes(&signature);
            let key = key.verifying_key();
            let strict = key.verify_strict(&message, &signature).is_ok();
            proptest::prop_assert_eq!(verifies(&key, &message, &signature), strict);
            proptest::prop_assert_eq!(strict, mask == 0);
        }
    }
}
