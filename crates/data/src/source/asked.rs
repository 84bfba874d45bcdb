//! What follows for classes from what is asked about the images.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Asked, Task};
use crate::error::DataError;

/// The task of data of classes; `several` says whether it shows that images may have several.
///
/// # Errors
/// [`DataError::NoNumbers`] where numbers are asked for, [`DataError::SeveralGrades`] where one grade each is, and images have several.
pub(crate) fn task_of(asked: &Asked, several: bool, path: &Path) -> Result<Task, DataError> {
    match asked {
        Asked::Regression { .. } => Err(DataError::NoNumbers { path: path.to_owned() }),
        Asked::Ordinal { .. } if several => Err(DataError::SeveralGrades { path: path.to_owned() }),
        Asked::Ordinal { .. } => Ok(Task::Ordinal),
        Asked::MultiLabel => Ok(Task::MultiLabel),
        Asked::Unsaid => Ok(if several { Task::MultiLabel } else { Task::MultiClass }),
    }
}

/// The classes in the order that is asked for; otherwise as they are.
///
/// # Errors
/// [`DataError::NoOrder`] where names that are no numbers are to have an order and none is given, [`DataError::OutsideOrder`] for a class
/// that it lacks, or that it has twice.
pub(crate) fn in_order(mut classes: Vec<String>, asked: &Asked, path: &Path) -> Result<Vec<String>, DataError> {
    let Asked::Ordinal { order } = asked else { return Ok(classes) };
    let Some(order) = order else {
        let number = |name: &String| name.parse::<u64>().ok();
        if !classes.iter().all(|name| number(name).is_some()) {
            return Err(DataError::NoOrder { path: path.to_owned(), classes });
        }
        classes.sort_by_key(number);
        return Ok(classes);
    };
    let outside = |class: &String, times| DataError::OutsideOrder {
        path: path.to_owned(),
        class: class.clone(),
        times,
        order: order.clone(),
    };
    if let Some(class) = classes.iter().find(|class| !order.contains(class)) {
        return Err(outside(class, 0));
    }
    let mut seen = BTreeSet::new();
    match order.iter().find(|class| !seen.insert(*class)) {
        Some(class) => Err(outside(class, order.iter().filter(|other| *other == class).count())),
        None => Ok(order.clone()),
    }
}
