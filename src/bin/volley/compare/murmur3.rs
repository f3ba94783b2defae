//! MurmurHash3, x64, 128 bits: fast, the same on every machine and for ever, and well mixed, so that a *sum* of row hashes
//! stands for a multiset of rows. (A plain FNV sum would not notice some values swapped between rows.)

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// The hash of `data` with seed 0; the low half is the first output word of the reference implementation.
pub fn hash128(data: &[u8]) -> u128 {
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let mut blocks = data.chunks_exact(16);
    for block in &mut blocks {
        h1 ^= scramble1(word(&block[..8]));
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= scramble2(word(&block[8..]));
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let tail = blocks.remainder();
    if tail.len() > 8 {
        h2 ^= scramble2(word(&tail[8..]));
    }
    if !tail.is_empty() {
        h1 ^= scramble1(word(&tail[..tail.len().min(8)]));
    }
    h1 ^= data.len() as u64;
    h2 ^= data.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    u128::from(h2) << 64 | u128::from(h1)
}

/// Up to eight bytes, little-endian, zero above.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn scramble1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn scramble2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ k >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both words as the reference implementation prints them.
    #[test]
    fn known_answers() {
        let check = |data: &str, words: [u64; 2]| {
            let hash = hash128(data.as_bytes());
            assert_eq!([hash as u64, (hash >> 64) as u64], words, "{data:?}");
        };
        check("", [0, 0]);
        check("hello", [0xcbd8_a7b3_41bd_9b02, 0x5b1e_906a_48ae_1d19]);
        check("hello, world", [0x342f_ac62_3a5e_bc8e, 0x4cdc_bc07_9642_414d]);
        check("The quick brown fox jumps over the lazy dog", [0xe34b_bc7b_bc07_1b6c, 0x7a43_3ca9_c49a_9347]);
    }
}
