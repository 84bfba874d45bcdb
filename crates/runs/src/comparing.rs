//! Runs beside each other: what differs in their configurations, and what they said of the same images.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kindling_metrics::{NamedClass, Predictions, SegmentedCase};

use crate::{CaseTable, Predicted, PredictionTable};

/// A setting that differs: its key with dots, and what either side has; `None` where it is not there.
pub type Difference = (String, Option<String>, Option<String>);

/// The settings in which two configurations differ, in the order of their keys.
pub fn differences(first: &toml::Table, second: &toml::Table) -> Vec<Difference> {
    let (first, second) = (flat(first), flat(second));
    let differ = settings_that_differ(&[&first, &second]).into_iter();
    let owned = |value: Option<&str>| value.map(str::to_owned);
    differ.map(|(key, values)| (key.to_owned(), owned(values[0]), owned(values[1]))).collect()
}

/// The settings that are not the same in all configurations, in the order of their keys: each with its value in every one of them,
/// `None` where it is not there.
pub fn settings_that_differ<'a>(
    configurations: &[&'a BTreeMap<String, String>],
) -> Vec<(&'a str, Vec<Option<&'a str>>)> {
    let keys: BTreeSet<&'a str> = configurations.iter().flat_map(|one| one.keys().map(String::as_str)).collect();
    let values = |key: &'a str| {
        let values = configurations.iter().map(|one| one.get(key).map(String::as_str)).collect::<Vec<_>>();
        (key, values)
    };
    keys.into_iter().map(values).filter(|(_, values)| values.windows(2).any(|pair| pair[0] != pair[1])).collect()
}

/// The values of a configuration by their keys with dots, under the names that they have today.
pub(crate) fn flat(table: &toml::Table) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) => {
                values.extend(flat(inner).into_iter().map(|(inner, value)| (format!("{key}.{inner}"), value)));
            }
            toml::Value::String(text) => drop(values.insert(key.clone(), of_today(key, text).to_owned())),
            other => drop(values.insert(key.clone(), other.to_string())),
        }
    }
    values
}

/// A value that earlier versions wrote under another name: runs do not differ in it.
fn of_today<'a>(key: &str, value: &'a str) -> &'a str {
    match (key, value) {
        ("task", "one-of") => "multi-class",
        ("task", "any-of") => "multi-label",
        _ => value,
    }
}

/// The answers of two models to the images of a split that both have, in one order, under the classes of the first.
///
/// # Errors
/// A sentence: other classes, no image in common, or one with another truth or patient.
pub fn common(
    first: &PredictionTable,
    second: &PredictionTable,
    split: &str,
) -> Result<(Predictions, Predictions), String> {
    let place = |class: &String| second.classes.iter().position(|other| other == class);
    let order: Option<Vec<usize>> = first.classes.iter().map(place).collect();
    let (Some(order), true) = (order, first.classes.len() == second.classes.len()) else {
        let (a, b) = (first.classes.join(", "), second.classes.join(", "));
        return Err(format!("one has the classes {a} and the other {b}"));
    };
    if first.several != second.several {
        return Err("in one of them images have one class, in the other several".to_owned());
    }
    let theirs: HashMap<&str, &Predicted> =
        second.of_split(split).map(|image| (image.sample.as_str(), image)).collect();
    if first.ordinal != second.ordinal {
        return Err("in one of them classes are grades, and the other knows no order of them".to_owned());
    }
    let ordinal = first.ordinal;
    let table = |images| PredictionTable {
        classes: first.classes.clone(),
        several: first.several,
        ordinal,
        others: Vec::new(),
        images,
    };
    let (mut ours, mut other) = (Vec::new(), Vec::new());
    for image in first.of_split(split) {
        let Some(their) = theirs.get(image.sample.as_str()) else { continue };
        let mut truth: Vec<usize> =
            their.truth.iter().filter_map(|class| order.iter().position(|at| at == class)).collect();
        truth.sort_unstable();
        if truth != image.truth || their.group != image.group {
            return Err(format!("the sample {:?} has another truth or group in the other", image.sample));
        }
        let probabilities = order.iter().filter_map(|at| their.probabilities.get(*at)).copied().collect();
        ours.push(Predicted { others: Vec::new(), ..image.clone() });
        other.push(Predicted { truth, probabilities, others: Vec::new(), ..(*their).clone() });
    }
    let of = |table: PredictionTable| {
        table.predictions(split)?.ok_or_else(|| format!("there is no image of the split {split} in both"))
    };
    Ok((of(table(ours))?, of(table(other))?))
}

/// What two models said of the cases that both have: the classes, the first model's cases, and the second's in the same order.
pub type CommonCases = (Vec<NamedClass>, Vec<SegmentedCase>, Vec<SegmentedCase>);

/// How well two models found the masks of the cases of a split that both have, in one order, under the classes of the first.
///
/// # Errors
/// A sentence: other classes, no case in common, or one with another truth or patient.
pub fn common_cases(first: &CaseTable, second: &CaseTable, split: &str) -> Result<CommonCases, String> {
    let place = |class: &NamedClass| second.classes.iter().position(|other| other == class);
    let order: Option<Vec<usize>> = first.classes.iter().map(place).collect();
    let (Some(order), true) = (order, first.classes.len() == second.classes.len()) else {
        let [a, b] = [first, second].map(|table| {
            let named = table.classes.iter().map(|class| format!("{} ({})", class.name, class.label));
            named.collect::<Vec<_>>().join(", ")
        });
        return Err(format!("one has the classes {a} and the other {b}"));
    };
    let of_split = |table: &CaseTable| table.of_split(split).into_iter();
    let mut theirs: HashMap<String, SegmentedCase> = of_split(second).map(|case| (case.sample.clone(), case)).collect();
    let (mut ours, mut other) = (Vec::new(), Vec::new());
    for case in of_split(first) {
        let Some(their) = theirs.remove(&case.sample) else { continue };
        let scores = order.iter().filter_map(|place| their.scores.get(*place)).copied().collect();
        let their = SegmentedCase { scores, ..their };
        if !case.is_paired_with(&their) {
            return Err(format!("the sample {:?} has another truth or group in the other", case.sample));
        }
        ours.push(case);
        other.push(their);
    }
    match ours.is_empty() {
        true => Err(format!("there is no case of the split {split} in both")),
        false => Ok((first.classes.clone(), ours, other)),
    }
}

#[cfg(test)]
mod tests {
    use kindling_metrics::{ClassMaskScores, Resampling, VoxelCounts, compare_cases};

    use super::*;

    fn table(classes: [&str; 2], samples: &[(&str, usize, f64)]) -> PredictionTable {
        let image = |&(sample, truth, p): &(&str, usize, f64)| Predicted {
            sample: sample.into(),
            split: "test".into(),
            truth: vec![truth],
            probabilities: vec![p, 1.0 - p],
            ..Predicted::default()
        };
        let classes = classes.map(str::to_owned).to_vec();
        PredictionTable { classes, images: samples.iter().map(image).collect(), ..PredictionTable::default() }
    }

    #[test]
    fn common_images_are_found_whatever_their_order_and_that_of_the_classes() {
        let first = table(["a", "b"], &[("x", 0, 0.75), ("y", 1, 0.5), ("z", 1, 0.25)]);
        let second = table(["b", "a"], &[("z", 0, 0.125), ("w", 0, 0.5), ("x", 1, 0.875)]);
        let (ours, theirs) = common(&first, &second, "test").unwrap();
        assert_eq!((ours.images(), theirs.images()), (2, 2));
        assert_eq!([0, 1].map(|image| theirs.truth(image)), [0, 1]);
        assert_eq!([0, 1].map(|image| theirs.probability(image, 0)), [0.125, 0.875]);
        assert_eq!([0, 1].map(|image| ours.probability(image, 0)), [0.75, 0.25]);
    }

    #[test]
    fn what_has_nothing_in_common_is_not_compared() {
        let first = table(["a", "b"], &[("x", 0, 0.75)]);
        let refused = |second: &PredictionTable| common(&first, second, "test").unwrap_err();
        assert!(refused(&table(["a", "c"], &[("x", 0, 0.5)])).contains("the other a, c"));
        assert!(refused(&table(["a", "b"], &[("x", 1, 0.5)])).contains("\"x\" has another truth"));
        assert!(refused(&table(["a", "b"], &[("y", 0, 0.5)])).contains("no image of the split test"));
    }

    /// Cases of the classes with these labels, each with its Dice; the true mask of a class has as many pixels as its label.
    fn cases(labels: [u32; 2], samples: &[(&str, [f64; 2])]) -> CaseTable {
        let scores = |(class, dice): (u32, f64)| ClassMaskScores {
            class,
            voxels: VoxelCounts { false_negatives: class.into(), ..VoxelCounts::default() },
            dice,
            iou: dice / (2.0 - dice),
            hausdorff_95: 1.0,
            surface_dice: 1.0,
        };
        let case = |(sample, dice): &(&str, [f64; 2])| SegmentedCase {
            sample: (*sample).into(),
            split: "test".into(),
            scores: labels.into_iter().zip(*dice).map(scores).collect(),
            ..SegmentedCase::default()
        };
        let classes = labels.map(|label| NamedClass { name: format!("class {label}"), label }).to_vec();
        CaseTable { classes, cases: samples.iter().map(case).collect() }
    }

    #[test]
    fn common_cases_are_found_whatever_their_order_and_that_of_the_classes() {
        let first = cases([1, 2], &[("x", [0.75, 0.5]), ("y", [0.5, 0.5]), ("z", [0.25, 1.0])]);
        let second = cases([2, 1], &[("z", [0.5, 0.125]), ("w", [0.5, 0.5]), ("x", [0.25, 0.625])]);
        let (classes, ours, theirs) = common_cases(&first, &second, "test").unwrap();
        let dice = |cases: &[SegmentedCase]| -> Vec<f64> {
            cases.iter().flat_map(|case| &case.scores).map(|scores| scores.dice).collect()
        };
        assert_eq!((dice(&ours), dice(&theirs)), (vec![0.75, 0.5, 0.25, 1.0], vec![0.625, 0.25, 0.125, 0.5]));
        let paired = compare_cases(&classes, &ours, &theirs, Resampling::default()).unwrap();
        assert_eq!((paired.images, paired.differences[0].value), (2, 0.625 - 0.375));
    }

    #[test]
    fn cases_that_have_nothing_in_common_are_not_compared() {
        let first = cases([1, 2], &[("x", [0.75, 0.5])]);
        let refused = |second: &CaseTable| common_cases(&first, second, "test").unwrap_err();
        assert!(
            refused(&cases([1, 3], &[("x", [0.5, 0.5])]))
                .contains("class 1 (1), class 2 (2) and the other class 1 (1), class 3 (3)")
        );
        assert!(refused(&cases([1, 2], &[("y", [0.5, 0.5])])).contains("no case of the split test in both"));
        let mut larger = first.clone();
        larger.cases[0].scores[1].voxels.true_positives = 1;
        assert!(refused(&larger).contains("\"x\" has another truth"));
        let mut of_another = first.clone();
        of_another.cases[0].group = Some("p".into());
        assert!(refused(&of_another).contains("\"x\" has another truth or group"));
        assert!(common_cases(&first, &first, "val").is_err());
    }

    #[test]
    fn settings_that_differ_are_named_with_both_values() {
        let of = |text: &str| text.parse::<toml::Table>().unwrap();
        let first = of("seed = 1\n[model]\nname = 'a'\nwidth = 1.0\n");
        let found = differences(&first, &of("seed = 2\n[model]\nname = 'a'\n[data]\nsize = 32\n"));
        let some = |text: &str| Some(text.to_owned());
        let expected = [
            ("data.size".to_owned(), None, some("32")),
            ("model.width".to_owned(), some("1.0"), None),
            ("seed".to_owned(), some("1"), some("2")),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_setting_that_has_another_name_today_does_not_differ() {
        let of = |task: &str| format!("[data]\ntask = '{task}'\n").parse::<toml::Table>().unwrap();
        for (today, earlier) in [("multi-class", "one-of"), ("multi-label", "any-of")] {
            assert!(differences(&of(today), &of(earlier)).is_empty(), "{today}");
        }
        assert_eq!(differences(&of("any-of"), &of("one-of")).len(), 1);
    }

    #[test]
    fn settings_of_many_runs_are_named_if_any_of_them_has_another() {
        let of = |text: &str| flat(&text.parse::<toml::Table>().unwrap());
        let runs = [of("seed = 1\nlr = 0.1"), of("seed = 1\nlr = 0.1"), of("seed = 1\nlr = 0.2\nema = 0.9")];
        let found = settings_that_differ(&runs.each_ref());
        let expected = [("ema", vec![None, None, Some("0.9")]), ("lr", vec![Some("0.1"), Some("0.1"), Some("0.2")])];
        assert_eq!(found, expected);
        assert_eq!(settings_that_differ(&[&runs[0]]), []);
    }
}
