//! What only the CPU's own kernels promise; that they compute the right numbers is tested in `tests/operations.rs`.

use rand::RngExt;

use super::*;

fn random(rng: &mut kindling_random::Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.random::<f32>() * 4.0 - 2.0).collect()
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let g = Geometry {
                batch: 3,
                channels: 5,
                height: 20,
                width: 19,
                kernel: 5,
                stride: 2,
                dilation: 1,
                before: [2, 2],
                out: [10, 10],
            };
            let mut rng = kindling_random::rng(11, kindling_random::Purpose::Display, 0, 7);
            let x = random(&mut rng, g.input().iter().product());
            let dy = random(&mut rng, g.output().iter().product());
            (depthwise::backward_weight(&x, &dy, &g), norm_act::statistics(&x, g.input(), &[2, 1]))
        })
    };
    assert_eq!(run(1), run(2));
    assert_eq!(run(1), run(5));
}
