//! The same except for the order of sums.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::Value;

use crate::{Tensors, checkpoints, events, read_tensors};

/// How far two runs are apart, or may be: each a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apart {
    /// The losses of a step, as a share of the loss.
    pub loss: f64,
    /// The norms of a step's gradients, as a share of the norm.
    pub norm: f64,
    /// Parameters, as a share of how far they moved.
    pub weights: f64,
    /// Their average, as a share of how far it moved.
    pub average: f64,
    /// The running statistics of the layer where they are furthest apart: the variances as a share of themselves, the means
    /// as a share of the deviation.
    pub statistics: f64,
    /// Moments and other vectors of the optimizers, kind by kind, as a share of themselves.
    pub optimizer: f64,
}

/// How far the gradients of a step may be apart after another micro-batch ([`gradients_apart`]). Measured in tensors of 64 px
/// images: 3.6e-7 in MobileNetV2, 2.6e-6 in MobileNetV3-Small, 8.5e-6 in EfficientNet-B0, whose squeeze-excite at the end has
/// the smallest gradients.
pub const GRADIENTS: f64 = 2e-5;

impl Apart {
    /// After four steps of SGD at a rate of 1e-5 with another micro-batch. At larger rates the first layers of a network at
    /// its start, on small images, multiply rounding tenfold and more in a step. Losses are float32, of which 1.2e-7 is one
    /// digit. Norms were at most 1.0e-6 apart on
    /// images of 64 px and more, and 9.7e-6 on 32. Weights move by little more than their last digits then, so that the rounding of the weights themselves is a
    /// large share of that.
    pub const SGD: Self =
        Self { loss: 1e-6, norm: 5e-5, weights: 2e-2, average: 2e-2, statistics: 1e-5, optimizer: 2e-4 };
    /// The same with AdamW, which makes whole steps of the rounding of gradients that are nearly 0.
    pub const ADAMW: Self =
        Self { loss: 5e-6, norm: 1e-5, weights: 2e-2, average: 2e-2, statistics: 1e-5, optimizer: 5e-5 };
    /// The same of MobileNetV2 with either optimizer: one rounding on the other side of a ReLU6 changes a norm by up to 2 %
    /// (measured 5.8e-3 with SGD, 3.3e-2 with AdamW, in the third and fourth step), and losses by up to 9.4e-6. Its first step is
    /// as near as the others'. How matrix products are cut, and so the rounding, depends on the caches: the moments were 5.5e-2
    /// apart on a machine with another one.
    pub const RELU6: Self =
        Self { loss: 5e-5, norm: 5e-2, weights: 5e-2, average: 5e-2, statistics: 1e-4, optimizer: 1e-1 };
    /// The same of two networks with Adam.
    pub const GAN: Self =
        Self { loss: 1e-5, norm: 1e-4, weights: 5e-2, average: 5e-2, statistics: 1e-4, optimizer: 1e-3 };

    /// How far two finished runs are apart that began at the weights with which the run `start` ended.
    ///
    /// # Errors
    /// If they cannot be compared: other steps, other tensors, numbers that are none.
    ///
    /// # Panics
    /// If one of them has no log or no checkpoint, or has tensors of another format than float32.
    pub fn of(start: &Path, run: &Path, other: &Path) -> Result<Self, String> {
        let (loss, norm) = steps_apart(run, other)?;
        let mut found = Self { loss, norm, weights: 0.0, average: 0.0, statistics: 0.0, optimizer: 0.0 };
        let [start, run, other] = [start, run, other].map(files);
        if run.keys().ne(other.keys()) {
            return Err(format!("files {:?} and {:?}", run.keys(), other.keys()));
        }
        for (name, of_run) in &run {
            let of_other = &other[name];
            same_tensors(of_run, of_other)?;
            if name.contains("optimizer") || name.contains("spectral") {
                found.optimizer = worse(found.optimizer, by_kind(of_run, of_other));
                continue;
            }
            let start = start.get(name).ok_or_else(|| format!("the run it began with has no {name}"))?;
            same_tensors(of_run, start)?;
            let parameters = |tensors: &Tensors| -> Vec<f64> {
                let mine = tensors.iter().filter(|(name, _)| !is_statistic(name));
                mine.flat_map(|(_, tensor)| tensor.values()).map(f64::from).collect()
            };
            let [start, a, b] = [start, of_run, of_other].map(parameters);
            let share = distance(&a, &b) / distance(&b, &start);
            let share_of = if name.contains("average") { &mut found.average } else { &mut found.weights };
            *share_of = worse(*share_of, share);
            found.statistics = worse(found.statistics, statistics_apart(of_run, of_other));
        }
        Ok(found)
    }

    /// Whether this is at most `most`, number by number.
    ///
    /// # Errors
    /// What is not.
    pub fn within(&self, most: &Self) -> Result<(), String> {
        let beyond: Vec<String> = self
            .named()
            .into_iter()
            .zip(most.named())
            // NaN is not within any bound.
            .filter(|((_, found), (_, most))| found.partial_cmp(most).is_none_or(Ordering::is_gt))
            .map(|((name, found), (_, most))| format!("{name} {found:.1e} apart, at most {most:.1e}"))
            .collect();
        if beyond.is_empty() { Ok(()) } else { Err(beyond.join(", ")) }
    }

    fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("losses", self.loss),
            ("norms", self.norm),
            ("weights", self.weights),
            ("average", self.average),
            ("statistics", self.statistics),
            ("optimizer", self.optimizer),
        ]
    }
}

impl fmt::Display for Apart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.named().map(|(name, share)| format!("{name} {share:.1e}")).into();
        formatter.write_str(&parts.join(", "))
    }
}

/// How far the losses and the norms of two runs' steps are apart, the worst of all steps.
///
/// # Errors
/// If they have other steps, left other updates out, or have numbers that are none.
///
/// # Panics
/// If one of them has no log.
pub fn steps_apart(run: &Path, other: &Path) -> Result<(f64, f64), String> {
    let (mine, others) = (numbered(run), numbered(other));
    let place = |event: &Value| (event["event"].to_string(), event["step"].as_u64(), event["lr"].as_f64());
    if mine.is_empty() || mine.iter().map(place).ne(others.iter().map(place)) {
        return Err("their steps are not the same".into());
    }
    let (mut loss, mut norm) = (0.0, 0.0);
    for (mine, others) in mine.iter().zip(&others) {
        let apart = one_step_apart(mine, others)?;
        (loss, norm) = (worse(loss, apart.0), worse(norm, apart.1));
    }
    Ok((loss, norm))
}

/// Events of which there is one a step.
fn numbered(run: &Path) -> Vec<Value> {
    let kinds = ["step", "iteration", "skipped"];
    events(run).into_iter().filter(|event| kinds.iter().any(|kind| event["event"] == *kind)).collect()
}

fn one_step_apart(mine: &Value, others: &Value) -> Result<(f64, f64), String> {
    const LOSSES: [&str; 3] = ["loss", "discriminator_loss", "generator_loss"];
    const NORMS: [&str; 3] = ["gradient_norm", "discriminator_norm", "generator_norm"];
    let share = |keys: [&str; 3]| -> (usize, f64) {
        let both = keys.iter().filter_map(|key| Some((mine[*key].as_f64()?, others[*key].as_f64()?)));
        let shares: Vec<f64> = both.map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() / b.abs() }).collect();
        (shares.len(), shares.into_iter().fold(0.0, worse))
    };
    match (share(LOSSES), share(NORMS)) {
        _ if mine["event"] == "skipped" && others["event"] == "skipped" => Ok((0.0, 0.0)),
        ((0, _), _) | (_, (0, _)) => Err(format!("no numbers to compare: {mine}, {others}")),
        ((_, loss), (_, norm)) => Ok((loss, norm)),
    }
}

/// How far the gradients of one step are apart, as a share of the gradient's norm, in the tensor where they are furthest
/// apart. The runs took one step of plain SGD ([`super::ONE_STEP`]) from the weights with which the run `start` ended. Where
/// a tensor's gradient is less than `FLOOR` of the whole, as that of a bias before a normalisation, the share is of that.
///
/// # Errors
/// If they cannot be compared.
///
/// # Panics
/// As [`Apart::of`].
pub fn gradients_apart(start: &Path, run: &Path, other: &Path) -> Result<f64, String> {
    const FLOOR: f64 = 1e-3;
    let [start, run, other] =
        [start, run, other].map(|run| files(run).remove("weights.safetensors").unwrap_or_default());
    same_tensors(&run, &other)?;
    same_tensors(&run, &start)?;
    let gradient = |tensors: &Tensors, name: &str| -> Vec<f64> {
        tensors[name].values().iter().zip(start[name].values()).map(|(a, b)| f64::from(b) - f64::from(*a)).collect()
    };
    let names: Vec<&String> = run.keys().filter(|name| !is_statistic(name)).collect();
    let gradients: Vec<[Vec<f64>; 2]> =
        names.iter().map(|name| [gradient(&run, name), gradient(&other, name)]).collect();
    let whole = gradients.iter().map(|[_, other]| square(other)).sum::<f64>().sqrt();
    if whole.is_nan() || whole <= 0.0 {
        return Err("there are no gradients".into());
    }
    let share = |[a, b]: &[Vec<f64>; 2]| distance(a, b) / square(b).sqrt().max(FLOOR * whole);
    Ok(gradients.iter().map(share).fold(0.0, worse))
}

/// The tensors of the last checkpoint of a run, file by file.
fn files(run: &Path) -> BTreeMap<String, Tensors> {
    let last = checkpoints(run).pop().unwrap_or_else(|| panic!("{} has no checkpoint", run.display()));
    let entries = std::fs::read_dir(&last).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.ends_with(".safetensors"))
        .map(|name| (name.clone(), read_tensors(&last.join(name))))
        .collect()
}

fn same_tensors(a: &Tensors, b: &Tensors) -> Result<(), String> {
    let names = |tensors: &Tensors| -> Vec<(String, Vec<usize>)> {
        tensors.iter().map(|(name, tensor)| (name.clone(), tensor.shape.clone())).collect()
    };
    if names(a) == names(b) { Ok(()) } else { Err("their tensors are not the same".into()) }
}

fn is_statistic(name: &str) -> bool {
    name.ends_with("running_mean") || name.ends_with("running_var")
}

fn statistics_apart(a: &Tensors, b: &Tensors) -> f64 {
    let values =
        |tensors: &Tensors, name: &str| -> Vec<f64> { tensors[name].values().into_iter().map(f64::from).collect() };
    let mut worst = 0.0;
    for name in b.keys().filter(|name| name.ends_with("running_var")) {
        let mean = format!("{}mean", name.trim_end_matches("var"));
        let (of_a, of_b) = (values(a, name), values(b, name));
        worst = worse(worst, distance(&of_a, &of_b) / square(&of_b).sqrt());
        let deviation = of_b.iter().sum::<f64>().sqrt();
        worst = worse(worst, distance(&values(a, &mean), &values(b, &mean)) / deviation);
    }
    worst
}

/// Of each kind of tensor, named by the end of its name: the first moments, the second.
fn by_kind(a: &Tensors, b: &Tensors) -> f64 {
    let mut kinds: BTreeMap<&str, [Vec<f64>; 2]> = BTreeMap::new();
    for name in b.keys() {
        let kind = kinds.entry(name.rsplit('.').next().unwrap_or(name)).or_default();
        for (all, tensors) in kind.iter_mut().zip([a, b]) {
            all.extend(tensors[name].values().into_iter().map(f64::from));
        }
    }
    kinds.values().map(|[a, b]| distance(a, b) / square(b).sqrt()).fold(0.0, worse)
}

/// The larger of two shares; one that is no number is the largest.
fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

fn square(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}
