//! How far each part of a step is from what the device reaches.

use anyhow::{Result, anyhow};
use burn::tensor::DType;
use kindling_layers::Precision;
use kindling_layers::trace::Trace;
use kindling_memory::planner::{Bound, LayerWork, Situation, Work, work_by_layer, work_of_update};
use kindling_ops::Peak;
use kindling_runs::Table;
use serde_json::{Value, json};

use super::{Profile, segment_of};
use crate::commands::plan::size;
use crate::device::{DeviceChoice, cuda};
use crate::output::{self, out};

/// The most that a device reaches, and the work of a step.
pub(super) struct Roofline {
    peak: Peak,
    /// What the peak is known from.
    source: String,
    /// Operations of a micro-batch.
    layers: Vec<LayerWork>,
    /// The work and the least time of a step as one micro-batch, with its update.
    step: (Work, Bound),
}

/// A part of a step beside its limit.
struct Part {
    name: String,
    work: Work,
    bound: Bound,
    /// What it took.
    seconds: f64,
}

impl Roofline {
    /// Measures, or looks up, what a device reaches, and counts the work of a step.
    pub(super) fn of(device: DeviceChoice, precision: Precision, trace: &Trace, situation: &Situation) -> Result<Self> {
        let (peak, source) = peak(device, precision)?;
        let step = step(trace, situation, peak);
        Ok(Self { peak, source, layers: work_by_layer(trace, situation), step })
    }

    /// The parts that run on their own.
    fn parts(&self, profile: &Profile) -> Vec<Part> {
        let part = |name: &str, seconds: f64| {
            let inside = || self.layers.iter().filter(|layer| segment_of(&layer.name) == name);
            let work = inside().fold(Work::default(), |sum, layer| sum + layer.forward + layer.backward);
            Part { name: name.to_string(), work, bound: inside().map(|layer| layer.bound(self.peak)).sum(), seconds }
        };
        profile.segments.iter().map(|segment| part(&segment.time.name, segment.time.total())).collect()
    }

    fn step(&self, profile: &Profile) -> Part {
        let (work, bound) = self.step;
        Part { name: "step".to_string(), work, bound, seconds: profile.measured.step_seconds }
    }

    pub(super) fn print(&self, profile: &Profile) {
        output::paragraph(
            "limit: the least time that products and memory allow (least), as a share of the time that was measured. Bytes are those \
             that have to be read or written at least once.",
        );
        let mut table = Table::new(&["<part", "GFLOP", "moved", "ms", "least ms", "limit", "<bound by"]);
        for part in self.parts(profile).iter().chain([&self.step(profile)]) {
            table.row([
                part.name.clone(),
                format!("{:.2}", part.work.flops as f64 / 1e9),
                size(part.work.bytes),
                format!("{:.1}", part.seconds * 1e3),
                format!("{:.1}", part.bound.seconds() * 1e3),
                part.limit(),
                part.bound.by().to_string(),
            ]);
        }
        output::text_of_product(&table.to_string());
        output::paragraph(&self.about());
        out!();
    }

    /// What the device reaches, in a sentence.
    fn about(&self) -> String {
        let Peak { flops, bytes } = self.peak;
        format!("The device reaches {:.1} GFLOP/s and {:.1} GB/s {}.", flops / 1e9, bytes / 1e9, self.source)
    }

    /// The parts as facts of a page.
    pub(super) fn facts(&self, profile: &Profile) -> Vec<[String; 2]> {
        let parts = self.parts(profile);
        let lines = parts.iter().chain([&self.step(profile)]).map(Part::fact).collect::<Vec<_>>();
        [vec![["peak".to_string(), self.about()]], lines].concat()
    }

    pub(super) fn json(&self, profile: &Profile) -> Value {
        let parts: Vec<Value> = self.parts(profile).iter().map(Part::json).collect();
        let pass = |work: Work| json!({ "flops": work.flops, "bytes": work.bytes, "bound_seconds": work.bound(self.peak).seconds() });
        let layer = |layer: &LayerWork| json!({ "name": layer.name, "kind": layer.kind, "forward": pass(layer.forward), "backward": pass(layer.backward) });
        let layers: Vec<Value> = self.layers.iter().map(layer).collect();
        json!({ "flops_per_second": self.peak.flops, "bytes_per_second": self.peak.bytes, "source": self.source,
                "parts": parts, "step": self.step(profile).json(), "layers": layers })
    }
}

impl Part {
    /// The least time as a share of what was measured.
    fn share(&self) -> f64 {
        self.bound.seconds() / self.seconds.max(f64::MIN_POSITIVE)
    }

    fn limit(&self) -> String {
        format!("{:.0} %", 100.0 * self.share())
    }

    fn fact(&self) -> [String; 2] {
        let (took, least) = (self.seconds * 1e3, self.bound.seconds() * 1e3);
        let text = format!("{}: {took:.1} ms, of which {} needs {least:.1} ms", self.limit(), self.bound.by());
        [self.name.clone(), text]
    }

    fn json(&self) -> Value {
        json!({ "name": self.name, "flops": self.work.flops, "bytes": self.work.bytes, "seconds": self.seconds,
                "bound_seconds": self.bound.seconds(), "share": self.share(), "bound_by": self.bound.by().to_string() })
    }
}

/// The work of a step, and the least time it takes: all images at once, and the update of the weights.
fn step(trace: &Trace, situation: &Situation, peak: Peak) -> (Work, Bound) {
    let layers = work_by_layer(trace, &Situation { micro_batch: situation.batch, ..*situation });
    let update = work_of_update(trace, situation);
    let work = layers.iter().fold(update, |sum, layer| sum + layer.forward + layer.backward);
    let bound = layers.iter().map(|layer| layer.bound(peak)).chain([update.bound(peak)]).sum();
    (work, bound)
}

/// What a device reaches, and how that is known: measured on a CPU, from the properties of a GPU.
fn peak(device: DeviceChoice, precision: Precision) -> Result<(Peak, String)> {
    if let DeviceChoice::Cuda(index) = device {
        return cuda::peak(index, precision);
    }
    let halves = precision == Precision::Bf16 && kindling_ops::multiplies_bf16();
    let (format, name) = if halves { (DType::BF16, "bf16") } else { (DType::F32, "float32") };
    let peak = kindling_ops::measured_peak(format).map_err(|refusal| anyhow!("measuring the processor: {refusal}"))?;
    let threads = rayon::current_num_threads();
    Ok((peak, format!("(measured: {name} products in the cache and copies in memory, {threads} threads)")))
}
