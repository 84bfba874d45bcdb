//! How many bits an image needs.

use serde::Serialize;

use crate::Image;

/// The smallest kind of sample that holds every value of an image exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Depth {
    /// 8 bits.
    #[serde(rename = "8")]
    Eight,
    /// 16 bits.
    #[serde(rename = "16")]
    Sixteen,
    /// A floating point number: a window or a rescaling has left no whole steps.
    #[serde(rename = "float")]
    Float,
}

impl Depth {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eight => "8",
            Self::Sixteen => "16",
            Self::Float => "float",
        }
    }
}

/// The depth of an image: what it needs, not what its file spends.
pub fn depth_of(image: &Image) -> Depth {
    let fits = |steps: f32| image.pixels.iter().all(|&value| (value * steps).round() / steps == value);
    if fits(255.0) {
        Depth::Eight
    } else if fits(65_535.0) {
        Depth::Sixteen
    } else {
        Depth::Float
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_is_what_the_values_need() {
        assert_eq!(depth_of(&Image::from_u8(16, 16, 1, (0..=255).collect())), Depth::Eight);
        assert_eq!(depth_of(&Image::from_u16(256, 256, 1, (0..=u16::MAX).collect())), Depth::Sixteen);
        assert_eq!(depth_of(&Image::from_u16(1, 2, 1, vec![257, 514])), Depth::Eight);
        assert_eq!(depth_of(&Image::from_f32(1, 1, 1, vec![1.0 / 3000.0])), Depth::Float);
    }
}
