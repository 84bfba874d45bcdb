//! `cases.csv`: how well each class of each evaluated case was found. Spreadsheets and other programs read it.
//!
//! A line is one class of one case: `sample` (the case's name), `group` (the patient; empty if there is none), `split` (`val`, `test`),
//! `class` and its `label`, `dice`, `iou`, `hausdorff_95` and `surface_dice` (empty where a score is not defined), and the pixels behind
//! them: `true_positives`, `false_positives`, `false_negatives`, `true_negatives`. The lines of a case stand together, and every case has
//! the same classes in the same order.

use std::collections::HashSet;
use std::fmt::Display;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::str::FromStr;

use kindling_files::csv::csv_line;
use kindling_metrics::{ClassMaskScores, NamedClass, SegmentedCase, VoxelCounts};

use crate::csv::{Records, read_text, shortest};
use crate::{RunError, stream_atomically};

/// The columns, in the order in which they are written. They are read in any order, and others are passed over.
const COLUMNS: [&str; 13] = [
    "sample",
    "group",
    "split",
    "class",
    "label",
    "dice",
    "iou",
    "hausdorff_95",
    "surface_dice",
    "true_positives",
    "false_positives",
    "false_negatives",
    "true_negatives",
];

/// The scores of the evaluated cases of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CaseTable {
    /// The classes that every case was scored for.
    pub classes: Vec<NamedClass>,
    /// The cases. Each has scores for all classes, in their order.
    pub cases: Vec<SegmentedCase>,
}

impl CaseTable {
    /// Writes the table, atomically. Reading it gives the same numbers, bit by bit. Without a case there is only the line of the
    /// columns, and the classes are not known when it is read.
    ///
    /// # Errors
    /// [`RunError::Inexpressible`] if a class is there twice, or a case was scored for other classes, has no name, or that of another case
    /// of its split;
    /// [`RunError::Io`], [`RunError::DiskFull`].
    pub fn write(&self, path: &Path) -> Result<(), RunError> {
        self.check().map_err(|reason| RunError::Inexpressible { path: path.to_owned(), reason })?;
        stream_atomically(path, |file| {
            let mut out = BufWriter::new(file);
            writeln!(out, "{}", csv_line(COLUMNS))?;
            for case in &self.cases {
                for (class, scores) in self.classes.iter().zip(&case.scores) {
                    writeln!(out, "{}", csv_line(fields(case, class, scores)))?;
                }
            }
            out.flush()
        })
    }

    fn check(&self) -> Result<(), String> {
        if self.classes.is_empty() && !self.cases.is_empty() {
            return Err("there are cases and no classes".to_owned());
        }
        let mut places = self.classes.iter().enumerate();
        if let Some((_, class)) = places.find(|(at, class)| is_known(&self.classes[..*at], class)) {
            return Err(twice(class));
        }
        let mut seen = HashSet::new();
        for case in &self.cases {
            let labels = case.scores.iter().map(|scores| scores.class);
            if !labels.eq(self.classes.iter().map(|class| class.label)) {
                return Err(format!("the case {:?} was not scored for the classes of the table", case.sample));
            }
            if case.sample.is_empty() || !seen.insert((&case.split, &case.sample)) {
                return Err(format!("two cases are called {:?}, or one has no name", case.sample));
            }
        }
        Ok(())
    }

    /// Reads a table.
    ///
    /// # Errors
    /// [`RunError::Malformed`] with the line, [`RunError::Io`].
    pub fn read(path: &Path) -> Result<Self, RunError> {
        read_text(path, Self::parse)
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let mut records = Records::of(text);
        let header = records.header()?;
        let places = places(&header)?;
        let mut table = Self::default();
        let mut seen = HashSet::new();
        let mut last_line = 1;
        for record in records {
            let (line, fields) = record?;
            if fields.len() != header.len() {
                return Err(format!("line {line} has {} values under {} columns", fields.len(), header.len()));
            }
            let fields = places.map(|place| fields[place].as_str());
            let begins = !table.cases.last().is_some_and(|case| case.sample == fields[0] && case.split == fields[2]);
            if begins {
                table.end_case().map_err(|reason| format!("line {last_line}: {reason}"))?;
                if !seen.insert((fields[0].to_owned(), fields[2].to_owned())) {
                    return Err(format!("line {line}: the sample {:?} stands in two places", fields[0]));
                }
            }
            table.add(&fields, begins).map_err(|reason| format!("line {line}: {reason}"))?;
            last_line = line;
        }
        table.end_case().map_err(|reason| format!("line {last_line}: {reason}"))?;
        Ok(table)
    }

    /// Adds a line, of a case that begins with it or of the last one.
    fn add(&mut self, fields: &[&str; COLUMNS.len()], begins: bool) -> Result<(), String> {
        let &[sample, group, split, class, ..] = fields;
        let scores = scores(fields)?;
        if begins {
            if sample.is_empty() {
                return Err("the sample is empty".to_owned());
            }
            let group = Some(group).filter(|group| !group.is_empty()).map(str::to_owned);
            self.cases.push(SegmentedCase {
                sample: sample.to_owned(),
                group,
                split: split.to_owned(),
                scores: Vec::new(),
            });
        }
        let named = NamedClass { name: class.to_owned(), label: scores.class };
        let is_first = self.cases.len() == 1;
        let Some(case) = self.cases.last_mut() else { return Ok(()) };
        if case.group.as_deref().unwrap_or_default() != group {
            return Err(format!("the sample {sample:?} belongs to two groups"));
        }
        if is_first {
            if is_known(&self.classes, &named) {
                return Err(twice(&named));
            }
            self.classes.push(named);
        } else if self.classes.get(case.scores.len()) != Some(&named) {
            return Err(format!(
                "the class {class:?} with the label {} does not stand here in the first case",
                named.label
            ));
        }
        case.scores.push(scores);
        Ok(())
    }

    /// Checks that the last case has all classes.
    fn end_case(&self) -> Result<(), String> {
        match self.cases.last() {
            Some(case) if case.scores.len() != self.classes.len() => Err(format!(
                "the sample {:?} ends with {} of {} classes",
                case.sample,
                case.scores.len(),
                self.classes.len()
            )),
            _ => Ok(()),
        }
    }

    /// The cases that were evaluated as this split, in order.
    pub fn of_split(&self, split: &str) -> Vec<SegmentedCase> {
        self.cases.iter().filter(|case| case.split == split).cloned().collect()
    }
}

/// Whether the name or the label of a class is that of one of these.
fn is_known(classes: &[NamedClass], class: &NamedClass) -> bool {
    classes.iter().any(|known| known.label == class.label || known.name == class.name)
}

fn twice(NamedClass { name, label }: &NamedClass) -> String {
    format!("the class {name:?} with the label {label} is there twice")
}

/// The fields of a line, in the order of [`COLUMNS`].
fn fields(case: &SegmentedCase, class: &NamedClass, scores: &ClassMaskScores) -> [String; COLUMNS.len()] {
    let number = |value: f64| if value.is_nan() { String::new() } else { shortest(value) };
    let VoxelCounts { true_positives, false_positives, false_negatives, true_negatives } = scores.voxels;
    [
        case.sample.clone(),
        case.group.clone().unwrap_or_default(),
        case.split.clone(),
        class.name.clone(),
        class.label.to_string(),
        number(scores.dice),
        number(scores.iou),
        number(scores.hausdorff_95),
        number(scores.surface_dice),
        true_positives.to_string(),
        false_positives.to_string(),
        false_negatives.to_string(),
        true_negatives.to_string(),
    ]
}

/// The scores of a line, whose fields stand in the order of [`COLUMNS`].
fn scores(fields: &[&str; COLUMNS.len()]) -> Result<ClassMaskScores, String> {
    let share = |place| score(fields, place, 1.0, "a share from 0 to 1");
    let count = |place| parsed::<u64>(fields, place, "a whole number");
    Ok(ClassMaskScores {
        class: parsed(fields, 4, "a whole number")?,
        dice: share(5)?,
        iou: share(6)?,
        hausdorff_95: score(fields, 7, f64::INFINITY, "a distance")?,
        surface_dice: share(8)?,
        voxels: VoxelCounts {
            true_positives: count(9)?,
            false_positives: count(10)?,
            false_negatives: count(11)?,
            true_negatives: count(12)?,
        },
    })
}

/// A score from 0 to `most`; NaN where the field is empty.
fn score(fields: &[&str], place: usize, most: f64, what: &str) -> Result<f64, String> {
    if fields[place].is_empty() {
        return Ok(f64::NAN);
    }
    let value: f64 = parsed(fields, place, what)?;
    if (0.0..=most).contains(&value) { Ok(value) } else { Err(wrong(fields, place, what)) }
}

fn parsed<T: FromStr>(fields: &[&str], place: usize, what: &str) -> Result<T, String> {
    fields[place].parse().map_err(|_| wrong(fields, place, what))
}

fn wrong(fields: &[&str], place: usize, what: impl Display) -> String {
    format!("{} is {:?} and not {what}", COLUMNS[place], fields[place])
}

/// Where each of [`COLUMNS`] stands.
fn places(header: &[String]) -> Result<[usize; COLUMNS.len()], String> {
    let mut places = [0; COLUMNS.len()];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        let mut found = header.iter().enumerate().filter(|(_, name)| *name == column);
        let (first, second) = (found.next(), found.next());
        *place = match (first, second) {
            (Some((at, _)), None) => at,
            (None, _) => {
                return Err(format!("line 1 names no column `{column}`; the columns are {}", COLUMNS.join(",")));
            }
            (Some(_), Some(_)) => return Err(format!("line 1 names the column `{column}` twice")),
        };
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(class: u32, dice: f64, hausdorff_95: f64) -> ClassMaskScores {
        let voxels =
            VoxelCounts { true_positives: 7, false_positives: 1 << 60, false_negatives: 0, true_negatives: u64::MAX };
        ClassMaskScores { class, voxels, dice, iou: dice / (2.0 - dice), hausdorff_95, surface_dice: f64::NAN }
    }

    fn table() -> CaseTable {
        let case = |sample: &str, group: Option<&str>, split: &str, dice: [f64; 2]| SegmentedCase {
            sample: sample.into(),
            group: group.map(str::to_owned),
            split: split.into(),
            scores: vec![scores(3, dice[0], 0.1 + 0.2), scores(1, dice[1], f64::NAN)],
        };
        let named = |(name, label): (&str, u32)| NamedClass { name: name.into(), label };
        CaseTable {
            classes: [("liver, left", 3), ("\"lesion\"", 1)].map(named).to_vec(),
            cases: vec![
                case("a/1.png", Some("p, 1"), "val", [1.0 / 3.0, f64::NAN]),
                case("a/1.png", None, "test", [0.0, 3e-19]),
                case("b\n", Some("p, 1"), "test", [1.0, 0.1]),
            ],
        }
    }

    /// The same, with bits instead of numbers: NaN is not equal to itself.
    fn bits(table: &CaseTable) -> Vec<(String, Vec<[u64; 4]>)> {
        let of = |scores: &ClassMaskScores| {
            [scores.dice, scores.iou, scores.hausdorff_95, scores.surface_dice].map(f64::to_bits)
        };
        let case = |case: &SegmentedCase| {
            let whose = format!("{:?} {:?} {:?}", case.sample, case.group, case.split);
            let voxels: Vec<_> = case.scores.iter().map(|scores| (scores.class, scores.voxels)).collect();
            (format!("{whose} {voxels:?}"), case.scores.iter().map(of).collect())
        };
        table.cases.iter().map(case).collect()
    }

    #[test]
    fn a_table_reads_back_as_the_same_bits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cases.csv");
        table().write(&path).unwrap();
        let read = CaseTable::read(&path).unwrap();
        assert_eq!((read.classes.as_slice(), bits(&read)), (table().classes.as_slice(), bits(&table())));
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().take(3).collect();
        assert_eq!(lines[0], COLUMNS.join(","));
        assert_eq!(
            lines[1],
            format!(
                "a/1.png,\"p, 1\",val,\"liver, left\",3,{},{},{},,7,{},0,{}",
                1.0 / 3.0,
                (1.0 / 3.0) / (2.0 - 1.0 / 3.0),
                0.1 + 0.2,
                1_u64 << 60,
                u64::MAX
            )
        );
        assert!(lines[2].contains(",\"\"\"lesion\"\"\",1,,,,,7,"), "a score that is not defined is empty: {text}");
        assert_eq!(read.of_split("test").len(), 2);
        CaseTable { cases: Vec::new(), ..table() }.write(&path).unwrap();
        assert_eq!(CaseTable::read(&path).unwrap(), CaseTable::default());
    }

    #[test]
    fn columns_may_stand_in_any_order_and_others_are_passed_over() {
        let text = b"label,note,true_negatives,false_negatives,false_positives,true_positives,surface_dice,hausdorff_95,iou,dice,class,\
            split,group,sample\r\n2,x,4,3,2,1,,,0.25,0.4,a,test,,s\r\n";
        let found = CaseTable::parse(text).unwrap();
        assert_eq!(found.classes, [NamedClass { name: "a".into(), label: 2 }]);
        let [case] = found.cases.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (case.sample.as_str(), &case.group, case.scores[0].dice, case.scores[0].iou),
            ("s", &None, 0.4, 0.25)
        );
        assert_eq!(case.scores[0].voxels.true_negatives, 4);
    }

    #[test]
    fn a_damaged_table_is_refused_with_its_path_and_line() {
        let header = COLUMNS.join(",");
        let line =
            |sample: &str, class: &str, label: &str| format!("{sample},,test,{class},{label},0.5,0.3,,1,1,2,3,4\n");
        let of = |lines: &[String]| format!("{header}\n{}", lines.concat());
        let (a, b) = (line("x", "a", "1"), line("x", "b", "2"));
        let cases = [
            (String::new(), "line 1 names no column `sample`"),
            (header.replace("iou", "dice"), "line 1 names the column `dice` twice"),
            (of(&["x,,test,a\n".to_owned()]), "line 2 has 4 values under 13 columns"),
            (of(&[a.replace("0.5", "1.5")]), "line 2: dice is \"1.5\" and not a share from 0 to 1"),
            (of(&[a.replace("0.5", "NaN")]), "line 2: dice is \"NaN\""),
            (of(&[a.replace("0.3,", "0.3,-1")]), "line 2: hausdorff_95 is \"-1\" and not a distance"),
            (of(&[a.replace(",4\n", ",-4\n")]), "line 2: true_negatives is \"-4\" and not a whole number"),
            (of(&[line("x", "a", "one")]), "line 2: label is \"one\""),
            (of(&[line("", "a", "1")]), "line 2: the sample is empty"),
            (of(&[a.clone(), line("x", "b", "1")]), "line 3: the class \"b\" with the label 1 is there twice"),
            (of(&[a.clone(), b.replace("x,,", "x,p,")]), "line 3: the sample \"x\" belongs to two groups"),
            (of(&[a.clone(), b.clone(), line("y", "a", "1")]), "line 4: the sample \"y\" ends with 1 of 2 classes"),
            (
                of(&[a.clone(), b.clone(), line("y", "b", "2")]),
                "line 4: the class \"b\" with the label 2 does not stand here",
            ),
            (of(&[a.clone(), line("y", "a", "1"), b]), "line 4: the sample \"x\" stands in two places"),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cases.csv");
        for (text, expected) in cases {
            std::fs::write(&path, &text).unwrap();
            let error = CaseTable::read(&path).unwrap_err();
            assert!(matches!(error, RunError::Malformed { .. }), "{error}");
            let sentence = error.to_string();
            assert!(
                sentence.contains(expected) && sentence.contains("cases.csv") && !sentence.contains('\n'),
                "{sentence}"
            );
        }
    }

    #[test]
    fn what_could_not_be_read_back_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cases.csv");
        let refused = |table: CaseTable| table.write(&path).unwrap_err().to_string();
        let mut other = table();
        other.cases[1].scores.reverse();
        assert!(refused(other).contains("\"a/1.png\" was not scored for the classes"));
        let mut twice = table();
        twice.cases[0].split = "test".into();
        assert!(refused(twice).contains("two cases are called \"a/1.png\""));
        let mut same = table();
        same.classes[1].name = same.classes[0].name.clone();
        assert!(refused(same).contains("\"liver, left\" with the label 1 is there twice"));
        assert!(refused(CaseTable { classes: Vec::new(), ..table() }).contains("no classes"));
        assert!(!path.exists());
    }
}
