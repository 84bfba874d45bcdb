//! What the atlas calls the parts of a brain.

/// The classes of a pixel.
pub const CLASSES: [&str; 3] = ["background", "cerebrum", "cerebellum"];

/// The class of a region of the AAL atlas: 1 to 90 are of the cerebrum, deep nuclei among them, and 91 to 116 of the cerebellum, of which
/// 109 to 116 are the vermis. Everything else, such as the brain stem and the deep white matter, has no region.
pub(crate) fn class_of(region: u16) -> u8 {
    match region {
        1..=90 => 1,
        91..=116 => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_region_is_of_one_part() {
        let classes: Vec<u8> = (0..=117).map(class_of).collect();
        assert_eq!((classes[0], classes[117]), (0, 0));
        assert!(classes[1..=90].iter().all(|class| *class == 1) && classes[91..=116].iter().all(|class| *class == 2));
    }
}
