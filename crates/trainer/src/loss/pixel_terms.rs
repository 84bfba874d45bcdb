//! The names of what segmentation may minimise, and over what its sums run.

use std::fmt;
use std::str::FromStr;

use kindling_given::{Named, UnknownName, all};
use serde::{Deserialize, Serialize};

/// One loss of segmentation.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case", parse_err_ty = UnknownName, parse_err_fn = Self::unknown)]
pub enum PixelTerm {
    /// The mean over pixels of the cross-entropy, weighted by the weights of the true classes.
    CrossEntropy,
    /// One minus the mean over classes of `(2 I + e) / (P + T + e)`: the sums over pixels of probability and truth together, of
    /// probability, of truth (Milletari et al. 2016).
    Dice,
    /// One minus `(2 sum w I + e) / (sum w (P + T) + e)` with `w = 1 / T^2`; an absent class has the largest of the others' (Sudre et
    /// al. 2017).
    GeneralisedDice,
    /// As Dice, with `I / (I + 0.3 FP + 0.7 FN)`: what is missed costs more than what is found without being there (Salehi et al. 2017).
    Tversky,
    /// Cross-entropy times `(1 - p)^2`, the mean over pixels and classes (Lin et al. 2017).
    Focal,
    /// The same of each class by itself, with a sigmoid: whether a pixel is of it or not. The mean over pixels of the sum over classes.
    BinaryFocal,
}

impl Named for PixelTerm {
    const KIND: &str = "loss";
}

impl PixelTerm {
    /// All of them.
    pub const ALL: [Self; 6] = all();

    /// Whether it is a ratio of sums over pixels, as Dice is, and not a mean over them.
    pub(super) fn is_ratio(self) -> bool {
        matches!(self, Self::Dice | Self::GeneralisedDice | Self::Tversky)
    }
}

/// A sum of losses, each of which counts as much. Written `dice+cross-entropy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PixelLoss(Vec<PixelTerm>);

impl PixelLoss {
    /// The losses, in the order in which they were named.
    pub(super) fn terms(&self) -> &[PixelTerm] {
        &self.0
    }
}

impl Default for PixelLoss {
    /// nnU-Net's: Dice and cross-entropy.
    fn default() -> Self {
        Self(vec![PixelTerm::Dice, PixelTerm::CrossEntropy])
    }
}

impl FromStr for PixelLoss {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for name in text.split('+') {
            let term: PixelTerm = name.trim().parse().map_err(|error: UnknownName| error.to_string())?;
            if terms.contains(&term) {
                return Err(format!("the loss {term} stands twice in {text}"));
            }
            terms.push(term);
        }
        Ok(Self(terms))
    }
}

impl TryFrom<String> for PixelLoss {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PixelLoss> for String {
    fn from(loss: PixelLoss) -> Self {
        loss.to_string()
    }
}

impl fmt::Display for PixelLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(Into::into).collect();
        f.write_str(&names.join("+"))
    }
}

/// Over what the sums of Dice and its relatives run; the loss is the mean over these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = Self::unknown)]
pub enum DiceOver {
    /// Each image: MONAI's default.
    Image,
    /// The images of a normalisation group, weighted by how many they are. Where the group is the whole batch this is
    /// [`DiceOver::Batch`], and it is exact at any micro-batch because a group is never divided.
    #[default]
    Group,
    /// All images of a batch, whatever its normalisation groups are: what nnU-Net and MONAI's `batch=True` compute. It takes a forward
    /// pass more, which adds up the sums.
    Batch,
}

impl Named for DiceOver {
    const KIND: &str = "range of Dice";
}
