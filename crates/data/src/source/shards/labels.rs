//! What a shard says about a sample.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What stands in `.cls` and `.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Labels {
    /// Names of the classes, in the order of their indices.
    pub(super) labels: Vec<String>,
    /// Whether they were written as a list.
    #[serde(default)]
    pub(super) several: bool,
    /// What the sample must not be parted from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<String>,
    /// How often it is drawn relative to others.
    #[serde(default = "one")]
    pub(super) weight: f32,
}

fn one() -> f32 {
    1.0
}

impl Labels {
    /// Of a sample that nothing says the classes of.
    pub(super) fn unsaid() -> Self {
        Self { labels: Vec::new(), several: false, group: None, weight: 1.0 }
    }

    /// Whether nothing says the classes; a list of none says that there are none.
    pub(super) fn are_unsaid(&self) -> bool {
        self.labels.is_empty() && !self.several
    }
}

/// A class by its number or its name.
pub(super) fn of_cls(bytes: &[u8]) -> Result<Labels, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "its .cls is no text".to_owned())?.trim();
    if text.is_empty() {
        return Err("its .cls is empty".to_owned());
    }
    Ok(Labels { labels: vec![text.to_owned()], several: false, group: None, weight: 1.0 })
}

/// `label`, `group` and `weight` of an object; without `label`, what `.cls` says, if it is there.
pub(super) fn of_json(value: &Value, cls: Option<&[u8]>) -> Result<Labels, String> {
    let plain = |value: &Value| match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let mut labels = match (value.get("label"), cls) {
        (Some(Value::Array(names)), _) => {
            let names: Option<Vec<String>> = names.iter().map(plain).collect();
            let mut names = names.ok_or("its label is no list of texts")?;
            names.sort();
            names.dedup();
            Labels { labels: names, several: true, group: None, weight: 1.0 }
        }
        (Some(label), _) => {
            let name = plain(label).ok_or("its label is no text")?;
            Labels { labels: vec![name], several: false, group: None, weight: 1.0 }
        }
        (None, Some(cls)) => of_cls(cls)?,
        (None, None) => Labels::unsaid(),
    };
    labels.group = value.get("group").and_then(plain);
    if let Some(weight) = value.get("weight") {
        let number = weight.as_f64().map(|number| number as f32).filter(|number| number.is_finite() && *number >= 0.0);
        labels.weight = number.ok_or_else(|| format!("its weight {weight} is not a number from 0 on"))?;
    }
    Ok(labels)
}
