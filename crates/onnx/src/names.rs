//! Unique names.

use std::collections::HashSet;

use crate::error::OnnxError;

/// The names in use.
///
/// The format requires unique names of values and unique names of nodes. Nodes, their values, the weights and the network's input and
/// output share one set here, so that a node can have the same name as its value.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// Reserves exactly this name.
    pub(crate) fn claim(&mut self, name: &str) -> Result<(), OnnxError> {
        if name.is_empty() || !self.taken.insert(name.to_string()) {
            return Err(OnnxError::Name(name.to_string()));
        }
        Ok(())
    }

    /// Reserves the first of `wanted`, `wanted_2`, `wanted_3`, ... that is not in use.
    pub(crate) fn unique(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_string();
        let mut count = 1;
        while !self.taken.insert(name.clone()) {
            count += 1;
            name = format!("{wanted}_{count}");
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_once() {
        let mut names = Names::default();
        assert_eq!(names.claim("images"), Ok(()));
        assert_eq!(names.claim("images"), Err(OnnxError::Name("images".to_string())));
        assert_eq!(names.claim(""), Err(OnnxError::Name(String::new())));
        let given = ["act", "act_2", "act", "images", "act"].map(|wanted| names.unique(wanted));
        assert_eq!(given, ["act", "act_2", "act_3", "images_2", "act_4"]);
    }
}
