//! How long the scores of one large case take: a volume of 100 planes of 512x512 voxels with 3 classes.
//!
//!     cargo run --release -p kindling-metrics --example segmentation_speed
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use kindling_metrics::{LabelMap, SegmentationScorer, SegmentedClass, SurfaceDice};

const SHAPE: [usize; 3] = [100, 512, 512];
const SPACING: [f64; 3] = [3.0, 0.7, 0.7];

/// Three ellipsoids as large as organs, moved by some voxels, and some single voxels far away, so that nothing can be cut off.
fn organs(moved: f64) -> Vec<u8> {
    let centres = [[50.0, 180.0, 180.0], [40.0, 330.0, 300.0], [60.0, 256.0, 420.0]];
    let radii = [[40.0, 120.0, 100.0], [35.0, 90.0, 110.0], [30.0, 60.0, 50.0]];
    let label = |index: usize| {
        let place = [index / SHAPE[2] / SHAPE[1], index / SHAPE[2] % SHAPE[1], index % SHAPE[2]];
        if index % 4_000_037 == 1 {
            return 1 + (index / 4_000_037 % 3) as u8;
        }
        let inside = |organ: &usize| {
            let away = |axis: usize| (place[axis] as f64 - centres[*organ][axis] - moved) / radii[*organ][axis];
            (0..3).map(|axis| away(axis).powi(2)).sum::<f64>() <= 1.0
        };
        (0..3).find(inside).map_or(0, |organ| 1 + organ as u8)
    };
    (0..SHAPE.iter().product()).map(label).collect()
}

fn main() {
    let (prediction, truth) = (organs(3.0), organs(0.0));
    let prediction = LabelMap::new(&prediction, &SHAPE).unwrap();
    let truth = LabelMap::new(&truth, &SHAPE).unwrap();
    let classes: Vec<SegmentedClass> = (1..=3).map(|index| SegmentedClass { index, tolerance: 2.0 }).collect();
    for surface_dice in [SurfaceDice::Voxels, SurfaceDice::Subvoxels] {
        let scorer = SegmentationScorer::new(classes.clone(), None, surface_dice).unwrap();
        let start = Instant::now();
        let scores = scorer.case(&prediction, &truth, &SPACING).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        println!("{surface_dice:?}: {seconds:.2} s on {} threads", rayon::current_num_threads());
        for score in scores {
            let (dice, distance, surface) = (score.dice, score.hausdorff_95, score.surface_dice);
            println!("  class {}: Dice {dice:.4}, HD95 {distance:.3} mm, surface Dice {surface:.4}", score.class);
        }
    }
}
