//! The difficulty of the task. Lengths are in pixels of the 512x512 image, intensities are of values in `[0, 1]`, and a pair is the range
//! of a uniform draw.
//!
//! With these numbers a MobileNetV3-Small trained from scratch at 512x512 (Keras 3, AdamW at 0.003 with warm-up and
//! cosine, batch 8, flips and shifts, 2 CPU cores) recognises 57 % of the 150 test images after 100 steps (99 % with batch
//! statistics, because running statistics lag behind), 99 % after 300 and 100 % after 400. Slightly harder numbers make the task
//! impossible: with contrast 0.25 to 0.40, cores of 14 to 26, specks of up to 6 and 0.40 and a bias of 0.25, the same run at 0.002
//! could not distinguish round from none (67 % after 400 steps).

/// Radius of a lesion's core, in pixels.
pub const CORE_RADIUS: [f32; 2] = [17.0, 28.0];
/// Short over long axis of a core.
pub const CORE_ASPECT: [f32; 2] = [0.8, 1.0];
/// Brightness of a lesion above what lies under it.
pub const CONTRAST: [f32; 2] = [0.30, 0.45];
/// How much of a lesion's brightness covers the texture under it.
pub const OPACITY: f32 = 0.9;
/// Width of the core's soft edge, in pixels.
pub const CORE_EDGE: f32 = 4.0;
/// How many spicules a spiculated lesion has, both ends included.
pub const SPICULES: [u32; 2] = [8, 16];
/// Length of a spicule beyond the core, in core radii.
pub const SPICULE_LENGTH: [f32; 2] = [1.0, 1.8];
/// Width of a spicule at the core, in pixels; it is half as wide at the tip.
pub const SPICULE_WIDTH: [f32; 2] = [2.5, 4.0];
/// Where lesions are: at most this share of the way from the centre to the inside of the skull.
pub const LESION_REACH: f32 = 0.68;

/// How many vessels an image of any class has: bright lines as thin as spicules.
pub const VESSELS: [u32; 2] = [5, 10];
/// Length of a vessel, in pixels.
pub const VESSEL_LENGTH: [f32; 2] = [20.0, 70.0];
/// Width of a vessel, in pixels; about that of a spicule.
pub const VESSEL_WIDTH: [f32; 2] = [2.0, 3.5];
/// Brightness that a vessel adds to what lies under it, on the scale of 0 to 1.
pub const VESSEL_CONTRAST: [f32; 2] = [0.12, 0.28];
/// How many specks an image of any class has: bright discs, far smaller than a lesion's core.
pub const SPECKS: [u32; 2] = [4, 9];
/// Radius of a speck, in pixels.
pub const SPECK_RADIUS: [f32; 2] = [2.0, 4.5];
/// Brightness that a speck adds to what lies under it, on the scale of 0 to 1.
pub const SPECK_CONTRAST: [f32; 2] = [0.12, 0.30];
/// How many hazes an image of any class has: large discs that fade out from their centre.
pub const HAZES: [u32; 2] = [1, 3];
/// Radius of a haze, in pixels.
pub const HAZE_RADIUS: [f32; 2] = [25.0, 60.0];
/// Brightness of the middle of a haze relative to what lies under it; negative values darken.
pub const HAZE_CONTRAST: [f32; 2] = [-0.08, 0.10];

/// Standard deviation of the noise in either channel of the receiver.
pub const NOISE: [f32; 2] = [0.018, 0.032];
/// Largest departure of the bias field from 1.
pub const BIAS: f32 = 0.18;
