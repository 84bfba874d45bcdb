#![allow(clippy::unwrap_used)]
use kindling_random::rng;

use super::*;

fn ramp(width: usize, height: usize, channels: usize) -> Image {
    let pixels = (0..width * height * channels).map(|i| (i * 7 % 97) as f32 / 96.0).collect();
    Image { width, height, channels, pixels }
}

fn draw(sample: u64) -> Draw {
    Draw { seed: 1, epoch: 4, sample, showing: 0 }
}

fn close(a: &Image, b: &Image) -> bool {
    a.pixels.iter().zip(&b.pixels).all(|(a, b)| (a - b).abs() < 1e-4)
}

/// The image between its pixels, written for reading: a sum over four neighbours of which some may not be there.
fn slow_bilinear(image: &Image, x: f32, y: f32, channel: usize) -> f32 {
    let (left, top) = (x.floor(), y.floor());
    let (fx, fy) = (x - left, y - top);
    let neighbours =
        [(0, 0, (1.0 - fx) * (1.0 - fy)), (1, 0, fx * (1.0 - fy)), (0, 1, (1.0 - fx) * fy), (1, 1, fx * fy)];
    let mut sum = 0.0;
    for (dx, dy, weight) in neighbours {
        let (x, y) = (left as isize + dx, top as isize + dy);
        if (0..image.width as isize).contains(&x) && (0..image.height as isize).contains(&y) {
            sum += weight * image.at(x as usize, y as usize, channel);
        }
    }
    sum
}

/// The light policy as it was first released: seven numbers of one stream, and these formulas. Stored runs rest on it.
fn first_light(image: &Image, sample: u64) -> Image {
    let mut rng = rng(1, Purpose::Augment, 4, sample);
    let flip = rng.random::<f32>() < 0.5;
    let shift = [within(&mut rng, 0.04), within(&mut rng, 0.04)];
    let angle = within(&mut rng, 10.0).to_radians();
    let scale = 1.0 + within(&mut rng, 0.1);
    let brightness = within(&mut rng, 0.05);
    let contrast = 1.0 + within(&mut rng, 0.1);
    let (width, height) = (image.width as f32, image.height as f32);
    let centre = [(width - 1.0) / 2.0, (height - 1.0) / 2.0];
    let offset = [centre[0] + shift[0] * width, centre[1] + shift[1] * height];
    let (sin, cos) = (angle.sin() / scale, angle.cos() / scale);
    let mirror = if flip { -1.0 } else { 1.0 };
    let mut warped = Image::filled(image.width, image.height, image.channels, 0.0);
    for y in 0..image.height {
        for x in 0..image.width {
            let (dx, dy) = (x as f32 - offset[0], y as f32 - offset[1]);
            let from_x = centre[0] + mirror * (cos * dx + sin * dy);
            let from_y = centre[1] + cos * dy - sin * dx;
            for channel in 0..image.channels {
                warped.pixels[(y * image.width + x) * image.channels + channel] =
                    slow_bilinear(image, from_x, from_y, channel);
            }
        }
    }
    let mean = warped.pixels.iter().map(|&v| f64::from(v)).sum::<f64>() / warped.pixels.len() as f64;
    let mean = mean as f32;
    warped.pixels.iter_mut().for_each(|v| *v = (mean + (*v - mean) * contrast + brightness).clamp(0.0, 1.0));
    warped
}

#[test]
fn light_has_the_bits_it_was_released_with() {
    for sample in 0..20 {
        for channels in [1, 3] {
            let image = ramp(37, 24, channels);
            let light = Policy::light().apply(image.clone(), &draw(sample));
            let expected = first_light(&image, sample);
            let same = light.pixels.iter().zip(&expected.pixels).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "sample {sample}, {channels} channels");
        }
    }
}

/// A policy in which this one change is at its largest in every draw that is not zero.
fn only(change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = Policy::none();
    change(&mut policy);
    policy.check().unwrap();
    policy
}

#[test]
fn no_change_changes_nothing() {
    assert_eq!(Policy::none().apply(ramp(32, 24, 3), &draw(0)), ramp(32, 24, 3));
}

#[test]
fn flips_mirror_exactly() {
    let image = ramp(32, 24, 3);
    let across = only(|p| p.flip = 1.0).apply(image.clone(), &draw(0));
    let down = only(|p| p.vertical_flip = 1.0).apply(image.clone(), &draw(0));
    for (y, x) in (0..24).flat_map(|y| (0..32).map(move |x| (y, x))) {
        assert!((across.at(x, y, 1) - image.at(31 - x, y, 1)).abs() < 1e-4);
        assert!((down.at(x, y, 2) - image.at(x, 23 - y, 2)).abs() < 1e-4);
    }
}

#[test]
fn no_named_policy_turns_a_scan_upside_down() {
    for named in Augment::NAMED {
        assert_eq!(named.policy().vertical_flip, 0.0, "{named}");
        named.policy().check().unwrap();
    }
}

#[test]
fn geometry_goes_where_it_should() {
    // A dot, and where each change must take it; angles turn clockwise as the eye sees it.
    let dot = |x: usize, y: usize| {
        let mut image = Image::filled(25, 25, 1, 0.0);
        image.pixels[y * 25 + x] = 1.0;
        image
    };
    let warp = |image: &Image, translate, angle: f32, scale, shear: f32| {
        let affine =
            geometry::Affine::new(image, false, false, translate, angle.to_radians(), scale, shear.to_radians());
        geometry::warp(image, &affine, None)
    };
    assert!((warp(&dot(20, 3), [0.0; 2], 90.0, 1.0, 0.0).at(21, 20, 0) - 1.0).abs() < 1e-4, "a quarter turn");
    assert!((warp(&dot(5, 3), [0.2, 0.4], 0.0, 1.0, 0.0).at(10, 13, 0) - 1.0).abs() < 1e-4, "a shift");
    assert!(warp(&dot(15, 12), [0.0; 2], 0.0, 2.0, 0.0).at(18, 12, 0) > 0.99, "twice the size about the centre");
    assert!((warp(&dot(12, 17), [0.0; 2], 0.0, 1.0, 45.0).at(17, 17, 0) - 1.0).abs() < 1e-4, "sheared by its height");
    let shifted = warp(&ramp(32, 24, 3), [0.25, 0.0], 0.0, 1.0, 0.0);
    assert!((0..24).all(|y| (0..8).all(|x| shifted.at(x, y, 0) == 0.0)), "zeros come in");
}

#[test]
fn an_elastic_deformation_is_smooth_and_no_farther_than_its_strength() {
    let elastic = Elastic { probability: 1.0, strength: 0.1, cells: 5 };
    let field = elastic.draw(&mut draw(3).rng(Change::Elastic)).unwrap();
    let mut rows = field.rows(100, 80);
    let mut last: Option<Vec<[f32; 2]>> = None;
    let mut largest = 0f32;
    for y in 0..80 {
        let row = rows.row(y).to_vec();
        assert!(row.iter().all(|[x, y]| x.abs() <= 10.0 && y.abs() <= 8.0));
        largest = row.iter().fold(largest, |largest, [x, _]| largest.max(x.abs()));
        // A spline between points at most 20 pixels apart in value, 20 pixels apart in place: no step is a jump.
        assert!(row.windows(2).all(|pair| (pair[0][0] - pair[1][0]).abs() < 1.5));
        if let Some(last) = last {
            assert!(row.iter().zip(&last).all(|(a, b)| (a[0] - b[0]).abs() < 1.5 && (a[1] - b[1]).abs() < 1.5));
        }
        last = Some(row);
    }
    assert!(largest > 2.0, "it moves nothing: {largest}");
    let never = Elastic { probability: 0.0, ..elastic };
    assert!(never.draw(&mut draw(3).rng(Change::Elastic)).is_none());
}

#[test]
fn gamma_is_a_power_of_every_value() {
    for exponent in [0.5, 0.8, 1.0, 1.7] {
        let mut image = ramp(32, 24, 1);
        values::gamma(&mut image, exponent);
        for (found, value) in image.pixels.iter().zip(ramp(32, 24, 1).pixels) {
            assert!((found - value.powf(exponent)).abs() < 1e-4, "{value} ^ {exponent}: {found}");
        }
    }
}

#[test]
fn noise_has_the_mean_and_the_deviation_it_should() {
    let noise = Noise { probability: 1.0, deviation: 0.1 };
    // The share of the largest deviation is the second number of the stream.
    let mut rng = draw(2).rng(Change::Noise);
    let share = [rng.random::<f32>(), rng.random::<f32>()][1];
    let mut image = Image::filled(256, 256, 1, 0.5);
    noise.apply(&mut image, &mut draw(2).rng(Change::Noise));
    let count = image.pixels.len() as f64;
    let mean = image.pixels.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
    let deviation = (image.pixels.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / count).sqrt();
    assert!((mean - 0.5).abs() < 1e-3, "{mean}");
    assert!((deviation / f64::from(share * 0.1) - 1.0).abs() < 0.02, "{deviation}");
}

#[test]
fn a_blur_spreads_a_dot_by_its_deviation_and_keeps_the_sum() {
    for channels in [1, 3] {
        let mut image = Image::filled(41, 41, channels, 0.0);
        image.pixels[(20 * 41 + 20) * channels] = 1.0;
        values::blur(&mut image, 2.0);
        let values = |f: &dyn Fn(f64) -> f64| -> f64 {
            (0..41 * 41).map(|at| f((at % 41) as f64 - 20.0) * f64::from(image.pixels[at * channels])).sum()
        };
        assert!((values(&|_| 1.0) - 1.0).abs() < 1e-5);
        assert!((values(&|x| x * x).sqrt() - 2.0).abs() < 0.05, "{}", values(&|x| x * x).sqrt());
        assert!(channels == 1 || image.pixels[(20 * 41 + 20) * 3 + 1] == 0.0, "channels stay apart");
    }
    let mut flat = Image::filled(9, 5, 3, 0.25);
    values::blur(&mut flat, 3.0);
    assert!(close(&flat, &Image::filled(9, 5, 3, 0.25)), "edges too");
}

#[test]
fn a_cutout_is_one_rectangle_of_the_mean() {
    let cutout = Cutout { probability: 1.0, size: 0.5 };
    let image = ramp(40, 20, 1);
    let mean = values::mean(&image);
    let mut areas = Vec::new();
    for sample in 0..20 {
        let mut cut = image.clone();
        cutout.apply(&mut cut, &mut draw(sample).rng(Change::Cutout));
        let changed: Vec<usize> = (0..800).filter(|&at| cut.pixels[at] != image.pixels[at]).collect();
        assert!(changed.iter().all(|&at| cut.pixels[at] == mean));
        assert!(changed.len() <= 20 * 10);
        areas.push(changed.len());
    }
    assert!(areas.iter().any(|area| *area > 150), "{areas:?}");
}

#[test]
fn every_policy_keeps_shape_and_range_and_depends_on_the_key_alone() {
    let mut policies: Vec<Policy> = Augment::NAMED.iter().map(Augment::policy).collect();
    policies.push(Policy { vertical_flip: 0.5, ..Policy::heavy() });
    for policy in &policies[1..] {
        for channels in [1, 3] {
            let apply = |draw| policy.apply(ramp(32, 24, channels), &draw);
            let image = apply(draw(0));
            assert_eq!((image.width, image.height, image.channels), (32, 24, channels));
            assert!((0..50).all(|s| apply(draw(s)).pixels.iter().all(|v| (0.0..=1.0).contains(v))));
            assert_eq!(image, apply(draw(0)));
            let others =
                [draw(1), Draw { showing: 1, ..draw(0) }, Draw { seed: 2, ..draw(0) }, Draw { epoch: 0, ..draw(0) }];
            for other in others {
                assert_ne!(image, apply(other), "{other:?}");
            }
        }
    }
    let tiny = Image::filled(1, 1, 3, 0.5);
    assert!((0..50).all(|s| policies[4].apply(tiny.clone(), &draw(s)).pixels.len() == 3));
}

#[test]
fn one_change_more_leaves_the_others_as_they_were() {
    let noisy = Policy { noise: Some(Noise { probability: 1.0, deviation: 1e-6 }), ..Policy::light() };
    for sample in 0..10 {
        let image = ramp(32, 24, 1);
        assert!(close(&noisy.apply(image.clone(), &draw(sample)), &Policy::light().apply(image, &draw(sample))));
    }
}

#[test]
fn names_are_read_and_written_alike() {
    for policy in Augment::NAMED {
        assert_eq!(policy.to_string().parse::<Augment>().unwrap(), policy);
        assert_eq!(serde_json::to_string(&policy).unwrap(), format!("\"{policy}\""));
        assert_eq!(serde_json::from_str::<Augment>(&format!("\"{policy}\"")).unwrap(), policy);
    }
    let error = "wild".parse::<Augment>().unwrap_err().to_string();
    assert_eq!(error, "`wild` is no augmentation: choose none, light, medium or heavy");
}

#[test]
fn a_policy_of_ones_own_survives_a_file_and_is_checked() {
    let own = Augment::custom(Policy { rotate: 12.5, cutmix: 1.0, ..Policy::heavy() }).unwrap();
    let text = serde_json::to_string(&own).unwrap();
    assert_eq!(serde_json::from_str::<Augment>(&text).unwrap(), own);
    let wrong = serde_json::from_str::<Augment>(r#"{"rotate": 720.0}"#).unwrap_err().to_string();
    assert!(wrong.contains("rotate is 720; it must lie between 0 and 180"), "{wrong}");
    let cells = Policy { elastic: Some(Elastic { probability: 1.0, strength: 0.1, cells: 1 }), ..Policy::none() };
    assert!(Augment::custom(cells).unwrap_err().to_string().contains("elastic.cells"));
    assert!(Policy { flip: f32::NAN, ..Policy::none() }.check().is_err());
}

/// Every change there is, alone and together.
fn every_policy() -> Vec<Policy> {
    let mut policies: Vec<Policy> = Augment::NAMED.iter().map(Augment::policy).collect();
    policies.extend([
        only(|p| p.flip = 1.0),
        only(|p| p.vertical_flip = 1.0),
        only(|p| p.rotate = 180.0),
        only(|p| p.scale = 0.9),
        only(|p| p.translate = 1.0),
        only(|p| p.shear = 60.0),
        only(|p| p.elastic = Some(Elastic { probability: 1.0, strength: 0.5, cells: 3 })),
        only(|p| p.gamma = 1.0),
        only(|p| p.cutout = Some(Cutout { probability: 1.0, size: 0.5 })),
        Policy { vertical_flip: 0.5, ..Policy::heavy() },
    ]);
    policies
}

/// Neighbours differ, and there is more than the background at the edges.
fn mask(width: usize, height: usize) -> Mask {
    let class = |at: usize| [3, 5, 0, crate::decode::IGNORED][(at * 5 + at / 7) % 4];
    Mask { width, height, classes: (0..width * height).map(class).collect() }
}

#[test]
fn an_image_with_a_mask_has_the_bits_of_one_without() {
    for (policy, sample) in every_policy().iter().flat_map(|policy| (0..20).map(move |sample| (policy, sample))) {
        for channels in [1, 3] {
            let alone = policy.apply(ramp(37, 24, channels), &draw(sample));
            let (image, _) = policy.apply_with_mask(ramp(37, 24, channels), mask(37, 24), &draw(sample));
            let same = alone.pixels.iter().zip(&image.pixels).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{policy:?}, sample {sample}");
        }
    }
}

#[test]
fn no_policy_makes_a_class_or_another_size() {
    for (policy, sample) in every_policy().iter().flat_map(|policy| (0..30).map(move |sample| (policy, sample))) {
        let before =
            Mask { classes: mask(37, 24).classes.iter().map(|class| (*class).max(3)).collect(), ..mask(37, 24) };
        let (_, moved) = policy.apply_with_mask(ramp(37, 24, 1), before, &draw(sample));
        assert_eq!((moved.width, moved.height, moved.classes.len()), (37, 24, 37 * 24));
        let known = [0, 3, 5, crate::decode::IGNORED];
        assert!(moved.classes.iter().all(|class| known.contains(class)), "{policy:?}, sample {sample}");
    }
    let tiny = Policy::heavy().apply_with_mask(ramp(1, 1, 1), mask(1, 1), &draw(0)).1;
    assert_eq!(tiny.classes.len(), 1);
}

#[test]
fn a_mask_goes_where_its_image_goes() {
    // A disc away from the middle: where it is seen at least half in the image is where its class is, but for the edge.
    let (width, height) = (64, 48);
    let inside = |at: usize| (at % width).abs_diff(24).pow(2) + (at / width).abs_diff(18).pow(2) < 100;
    let disc = Mask { width, height, classes: (0..width * height).map(|at| u8::from(inside(at)) * 4).collect() };
    let seen = |mask: &Mask| Image {
        pixels: mask.classes.iter().map(|class| f32::from(class / 4)).collect(),
        ..Image::filled(width, height, 1, 0.0)
    };
    for policy in every_policy() {
        // What changes values would hide the disc.
        let Policy { flip, vertical_flip, rotate, scale, translate, shear, elastic, .. } = policy;
        let policy = Policy { flip, vertical_flip, rotate, scale, translate, shear, elastic, ..Policy::none() };
        for sample in 0..20 {
            let (image, moved) = policy.apply_with_mask(seen(&disc), disc.clone(), &draw(sample));
            let is_edge = |at: usize| {
                let around = |at: usize, side: usize| at.saturating_sub(1)..(at + 2).min(side);
                let (x, y) = (at % width, at / width);
                let mut near = around(y, height).flat_map(|y| around(x, width).map(move |x| (x, y)));
                x == 0
                    || y == 0
                    || x + 1 == width
                    || y + 1 == height
                    || near.any(|(x, y)| moved.at(x, y) != moved.at(at % width, at / width))
            };
            let wrong =
                (0..width * height).find(|&at| (image.pixels[at] >= 0.5) != (moved.classes[at] == 4) && !is_edge(at));
            assert_eq!(wrong, None, "{policy:?}, sample {sample}");
        }
    }
}

#[test]
fn a_flip_mirrors_a_mask_exactly_and_a_shift_by_pixels_moves_it_by_these() {
    let before = mask(32, 24);
    let moved = |policy: Policy| policy.apply_with_mask(ramp(32, 24, 1), before.clone(), &draw(0)).1;
    let (across, down) = (moved(only(|p| p.flip = 1.0)), moved(only(|p| p.vertical_flip = 1.0)));
    for (y, x) in (0..24).flat_map(|y| (0..32).map(move |x| (y, x))) {
        assert_eq!((across.at(x, y), down.at(x, y)), (before.at(31 - x, y), before.at(x, 23 - y)));
    }
    let affine = geometry::Affine::new(&ramp(32, 24, 1), false, false, [0.25, 0.0], 0.0, 1.0, 0.0);
    let shifted = geometry::warp_mask(&before, &affine, None);
    for (y, x) in (0..24).flat_map(|y| (0..32).map(move |x| (y, x))) {
        assert_eq!(shifted.at(x, y), if x < 8 { 0 } else { before.at(x - 8, y) }, "background comes in");
    }
}

#[test]
fn what_changes_values_alone_leaves_a_mask_as_it_is() {
    let policy = Policy {
        brightness: 0.5,
        contrast: 0.5,
        gamma: 1.0,
        noise: Some(Noise { probability: 1.0, deviation: 0.5 }),
        blur: Some(Blur { probability: 1.0, sigma: 4.0 }),
        cutout: Some(Cutout { probability: 1.0, size: 0.8 }),
        ..Policy::none()
    };
    for sample in 0..10 {
        let (image, moved) = policy.apply_with_mask(ramp(32, 24, 1), mask(32, 24), &draw(sample));
        assert_eq!(moved, mask(32, 24));
        assert_ne!(image, ramp(32, 24, 1));
    }
}
