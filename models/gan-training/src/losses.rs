//! What each side wants of the scores.

use burn::tensor::{Tensor, activation};
use kindling_given::{Named, UnknownName, all};
use serde::{Deserialize, Serialize};

/// A pair of losses on scores, which are positive where the discriminator believes an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", parse_err_ty = UnknownName, parse_err_fn = Self::unknown)]
pub enum AdversarialLoss {
    /// `relu(1 - real) + relu(1 + fake)` against `-fake` ("Geometric GAN", Lim and Ye 2017).
    #[default]
    Hinge,
    /// `softplus(-real) + softplus(fake)` against `softplus(-fake)` (Goodfellow et al. 2014).
    NonSaturating,
    /// Half of `(real - 1)^2 + fake^2` against half of `(fake - 1)^2` ("Least Squares GAN", Mao et al. 2017).
    LeastSquares,
}

impl AdversarialLoss {
    /// All of them.
    pub const ALL: [Self; 3] = all();

    /// What the discriminator loses on real images: a value a score.
    pub fn of_real(self, scores: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Hinge => activation::relu(scores.neg().add_scalar(1.0)),
            Self::NonSaturating => softplus(scores.neg()),
            Self::LeastSquares => scores.sub_scalar(1.0).square().mul_scalar(0.5),
        }
    }

    /// What the discriminator loses on fake images: a value a score.
    pub fn of_fake(self, scores: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Hinge => activation::relu(scores.add_scalar(1.0)),
            Self::NonSaturating => softplus(scores),
            Self::LeastSquares => scores.square().mul_scalar(0.5),
        }
    }

    /// What the generator loses: a value a score.
    pub fn of_generator(self, scores: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Hinge => scores.neg(),
            Self::NonSaturating => softplus(scores.neg()),
            Self::LeastSquares => scores.sub_scalar(1.0).square().mul_scalar(0.5),
        }
    }

    /// The score above which an image counts as believed.
    pub fn threshold(self) -> f64 {
        match self {
            Self::Hinge | Self::NonSaturating => 0.0,
            Self::LeastSquares => 0.5,
        }
    }
}

/// `ln(1 + exp(x))` without overflow.
fn softplus(x: Tensor<2>) -> Tensor<2> {
    activation::relu(x.clone()) + x.abs().neg().exp().log1p()
}

impl Named for AdversarialLoss {
    const KIND: &str = "loss";
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    const SCORES: [f32; 5] = [-60.0, -0.75, 0.0, 1.5, 60.0];

    fn values(of: impl Fn(Tensor<2>) -> Tensor<2>) -> Vec<f64> {
        let scores = Tensor::<2>::from_floats([SCORES], &Device::flex());
        of(scores).into_data().convert::<f64>().try_to_vec().expect("float data")
    }

    /// By the papers' formulas in float64.
    #[test]
    fn losses_are_those_of_their_papers_and_large_scores_overflow_nothing() {
        let ln = |x: f64| if x > 30.0 { x } else { x.exp().ln_1p() };
        type Formula = fn(f64, fn(f64) -> f64) -> f64;
        let ln: fn(f64) -> f64 = ln;
        let expected: [(AdversarialLoss, [Formula; 3]); 3] = [
            (AdversarialLoss::Hinge, [|s, _| (1.0 - s).max(0.0), |s, _| (1.0 + s).max(0.0), |s, _| -s]),
            (AdversarialLoss::NonSaturating, [|s, ln| ln(-s), |s, ln| ln(s), |s, ln| ln(-s)]),
            (
                AdversarialLoss::LeastSquares,
                [|s, _| (s - 1.0).powi(2) / 2.0, |s, _| s * s / 2.0, |s, _| (s - 1.0).powi(2) / 2.0],
            ),
        ];
        for (loss, formulas) in expected {
            let found = [
                values(|scores| loss.of_real(scores)),
                values(|scores| loss.of_fake(scores)),
                values(|scores| loss.of_generator(scores)),
            ];
            for (found, formula) in found.iter().zip(formulas) {
                for (found, score) in found.iter().zip(SCORES) {
                    let expected = formula(f64::from(score), ln);
                    assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{loss}: {found} {expected}");
                }
            }
        }
    }

    #[test]
    fn losses_read_as_they_are_written() {
        for loss in AdversarialLoss::ALL {
            assert_eq!(loss.to_string().parse(), Ok(loss));
        }
        assert!("wasserstein".parse::<AdversarialLoss>().is_err());
    }
}
