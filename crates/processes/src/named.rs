//! The library that a user names, and what is said of one that cannot be opened.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The library that was named: by a path, or by a variable of the environment.
pub(crate) fn given(path: Option<&Path>, variable: &str) -> Option<OsString> {
    let of_variable = || std::env::var_os(variable).filter(|value| !value.is_empty());
    path.map(|path| path.as_os_str().to_owned()).or_else(of_variable)
}

/// Why a library is not there, with its name, which the reason may have or not.
pub(crate) fn missing(name: &OsStr, why: String) -> String {
    if why.contains(&*name.to_string_lossy()) { why } else { format!("{}: {why}", name.display()) }
}
