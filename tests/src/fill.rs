//! Numbers that follow from a name, so that weights and inputs which the scripts of references compute, too, need not be stored.

/// Numbers in `[0, 1)`, one after the other without end: splitmix64 seeded by the FNV-1a hash of a name, of which the upper 24 bits count.
/// The scripts have it as `fill01`.
pub fn numbers_of(name: &str) -> impl Iterator<Item = f64> + use<> {
    let seed = name
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    (1u64..).map(move |index| {
        let mut z = seed.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        (z >> 40) as f64 / f64::from(1 << 24)
    })
}
