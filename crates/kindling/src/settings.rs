//! Settings of a run: where their values come from, and what a resume may change of them.
//!
//! The macro `settings!` defines the settings of a command, each once: its flag with the text of its help, its key in
//! `config.toml`, its type, and whether a resume may change it. What holds where nothing is said is the `Default` of the
//! configuration, and the help shows it from there.
//!
//! A configuration is made in layers, the later of which wins: defaults, a file, a plan, flags. A layer is a table of TOML. That
//! of the flags holds what was said and nothing else, and is flat: its keys have dots in them.

use anyhow::{Result, bail};
use clap::Arg;
use serde::{Serialize, Serializer};
use toml::{Table, Value};

/// Whether a resume may change a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnResume {
    /// It is part of what the run computes.
    Stays,
    /// It has no influence on the result.
    Changes,
}

/// A setting of a command.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The name of its field; with dashes, of its flag.
    pub(crate) name: &'static str,
    /// Its place in `config.toml`, the names of tables before it: `train.batch_size`.
    pub(crate) key: &'static str,
    pub(crate) on_resume: OnResume,
    /// What the help says that holds where nothing is said, if that depends on other things; otherwise that is the default's.
    pub(crate) default: Option<String>,
}

impl Setting {
    fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }
}

/// Defines flags that are settings, as a struct of options for clap, and the table of them.
///
/// A line is a documentation comment, which is the help; whether a resume `Changes` the setting or it `Stays`; its key in
/// `config.toml`; the name and the type of the flag; and, behind `=`, what the help says instead of the configuration's default.
macro_rules! settings {
    (
        $(#[$about:meta])*
        $name:ident with $defaults:path;
        $(
            $(#[$attribute:meta])*
            $on_resume:ident $key:literal $field:ident: $type:ty $(= $default:expr)?;
        )*
    ) => {
        $(#[$about])*
        #[derive(clap::Args, Clone, Debug, Default, serde::Serialize)]
        #[command(mut_args = $crate::settings::with_defaults($name::all(), &$defaults()))]
        pub(crate) struct $name {
            $(
                $(#[$attribute])*
                #[arg(long)]
                #[serde(rename = $key, skip_serializing_if = "Option::is_none")]
                pub(crate) $field: Option<$type>,
            )*
        }

        impl $name {
            /// All of them, in the order of the help.
            pub(crate) fn all() -> Vec<$crate::settings::Setting> {
                vec![$($crate::settings::Setting {
                    name: stringify!($field),
                    key: $key,
                    on_resume: $crate::settings::OnResume::$on_resume,
                    default: [$(Some(ToString::to_string(&$default)),)? None][0].clone(),
                }),*]
            }
        }
    };
}
pub(crate) use settings;

/// Ends the help of each setting with its default.
pub(crate) fn with_defaults(settings: Vec<Setting>, defaults: &Table) -> impl FnMut(Arg) -> Arg + use<> {
    let default = |setting: &Setting| setting.default.clone().or_else(|| get(defaults, setting.key).map(words));
    let defaults: Vec<(&str, Option<String>)> =
        settings.iter().map(|setting| (setting.name, default(setting))).collect();
    move |arg| {
        let known = defaults.iter().find(|(name, _)| arg.get_id().as_str() == *name);
        match (known, arg.get_help()) {
            (Some((_, Some(default))), Some(help)) => {
                let help = format!("{help} [default: {default}]");
                arg.help(help)
            }
            _ => arg,
        }
    }
}

/// A configuration as a table.
///
/// # Errors
/// If it has a number that TOML has no place for.
pub(crate) fn table_of<T: Serialize>(config: &T) -> Result<Table> {
    // TOML has no whole numbers above 2^63 - 1, and its library does not say which one it was.
    let numbers = serde_json::to_value(config)?;
    let too_large = |value: &serde_json::Value| value.as_u64().is_some_and(|number| number > i64::MAX as u64);
    if let Some((key, number)) = numbers.as_object().into_iter().flatten().find(|(_, value)| too_large(value)) {
        let name = key.rsplit('.').next().unwrap_or(key).replace('_', " ");
        bail!("the {name} is {number}; it must lie between 0 and {}", i64::MAX);
    }
    Ok(Table::try_from(config)?)
}

/// The value at a key.
pub(crate) fn get<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let mut parts = key.split('.');
    let mut value = table.get(parts.next()?)?;
    for part in parts {
        value = match value {
            Value::Table(inner) => inner.get(part)?,
            Value::Array(values) => values.get(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(value)
}

/// Sets the value at a key, and makes the tables that it lies in.
pub(crate) fn set(table: &mut Table, key: &str, value: Value) {
    let Some((first, rest)) = key.split_once('.') else {
        table.insert(key.to_string(), value);
        return;
    };
    let place = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
    match place {
        Value::Table(inner) => set(inner, rest, value),
        Value::Array(values) => {
            if let Some(place) = rest.parse::<usize>().ok().and_then(|index| values.get_mut(index)) {
                *place = value;
            }
        }
        // A word stood for a table that there was none of.
        word => {
            let mut inner = Table::new();
            set(&mut inner, rest, value);
            *word = Value::Table(inner);
        }
    }
}

/// Takes the value at a key out.
pub(crate) fn remove(table: &mut Table, key: &str) {
    match key.split_once('.') {
        None => {
            table.remove(key);
        }
        Some((first, rest)) => {
            if let Some(Value::Table(inner)) = table.get_mut(first) {
                remove(inner, rest);
            }
        }
    }
}

/// Puts everything of a layer over a table.
pub(crate) fn overlay(table: &mut Table, layer: Table) {
    for (key, value) in layer {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, above),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

/// A resumed run stays what it was: the first flag that says otherwise, as a sentence. `auto` asks for what the run has found.
pub(crate) fn refused_change(settings: &[Setting], given: &Table, run: &Table) -> Option<String> {
    settings.iter().filter(|setting| setting.on_resume == OnResume::Stays).find_map(|setting| {
        let asked = given.get(setting.key).filter(|asked| asked.as_str() != Some("auto"))?;
        let stored = get(run, setting.key);
        let differs = stored != Some(asked);
        let is = || stored.map_or_else(|| "none".to_string(), words);
        let longer = LENGTHS.contains(&setting.key) && asked.as_integer() > stored.and_then(Value::as_integer);
        let advice = || if longer { format!(" (--extend-to {} makes it longer)", words(asked)) } else { String::new() };
        differs.then(|| format!("{} is {}, the run has {}{}", setting.flag(), words(asked), is(), advice()))
    })
}

/// How long a run is: a resume makes it longer by a flag that says what becomes of the learning rate.
const LENGTHS: [&str; 2] = ["train.epochs", "train.iterations"];

/// Changes what a resume may change, and returns what it has changed: keys and values as they are written.
pub(crate) fn change(settings: &[Setting], given: &Table, run: &mut Table) -> Vec<(String, String)> {
    let mut changed = Vec::new();
    for setting in settings.iter().filter(|setting| setting.on_resume == OnResume::Changes) {
        if let Some(asked) = given.get(setting.key).filter(|asked| get(run, setting.key) != Some(*asked)) {
            changed.push((setting.key.to_string(), words(asked)));
            set(run, setting.key, asked.clone());
        }
    }
    changed
}

/// A value as a person writes it.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(on) => if *on { "on" } else { "off" }.to_string(),
        other => other.to_string(),
    }
}

/// For flags whose type has another form on the command line than in files: they are written as they are given.
pub(crate) fn as_given<T: std::fmt::Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Run {
        device: String,
        train: Train,
    }

    #[derive(Serialize)]
    struct Train {
        lr: f64,
        betas: [f64; 2],
        clip_norm: String,
        micro_batch: String,
    }

    fn run() -> Table {
        let train = Train { lr: 0.003, betas: [0.5, 0.999], clip_norm: "none".into(), micro_batch: "auto".into() };
        table_of(&Run { device: "auto".into(), train }).expect("it has a form in TOML")
    }

    fn defaults() -> Table {
        run()
    }

    settings! {
        /// Some flags.
        Flags with defaults;

        /// Where
        Changes "device" device: String;
        /// How fast, 0 to 1
        Stays "train.lr" lr: f64;
        /// Second
        Stays "train.betas.1" beta2: f64;
        /// How far
        Stays "train.clip_norm" clip_norm: f64;
        /// How much
        Changes "train.micro_batch" micro_batch: usize = "all of it";
    }

    fn given(flags: &Flags) -> Table {
        table_of(flags).expect("it has a form in TOML")
    }

    #[test]
    fn flags_are_a_layer_of_what_was_said_only() {
        assert_eq!(given(&Flags::default()), Table::new());
        let mut run = run();
        for (key, value) in given(&Flags { beta2: Some(0.9), clip_norm: Some(5.0), ..Flags::default() }) {
            set(&mut run, &key, value);
        }
        assert_eq!(get(&run, "train.betas.1").and_then(Value::as_float), Some(0.9));
        assert_eq!(get(&run, "train.clip_norm").and_then(Value::as_float), Some(5.0));
        assert_eq!(get(&run, "train.lr").and_then(Value::as_float), Some(0.003));
        remove(&mut run, "train.lr");
        assert_eq!(get(&run, "train.lr"), None);
    }

    #[test]
    fn one_table_says_what_a_resume_may_change() {
        let settings = Flags::all();
        let refused = |flags: Flags| refused_change(&settings, &given(&flags), &run());
        assert_eq!(refused(Flags { lr: Some(0.003), device: Some("cpu".into()), ..Flags::default() }), None);
        let sentence = refused(Flags { lr: Some(0.1), ..Flags::default() });
        assert_eq!(sentence.as_deref(), Some("--lr is 0.1, the run has 0.003"));
        let sentence = refused(Flags { clip_norm: Some(5.0), ..Flags::default() });
        assert_eq!(sentence.as_deref(), Some("--clip-norm is 5, the run has none"));
        assert!(refused(Flags { lr: Some(f64::NAN), ..Flags::default() }).is_some());

        let mut run = run();
        let flags = Flags { device: Some("auto".into()), micro_batch: Some(4), ..Flags::default() };
        assert_eq!(change(&settings, &given(&flags), &mut run), [("train.micro_batch".to_string(), "4".to_string())]);
        assert_eq!(get(&run, "train.micro_batch").and_then(Value::as_integer), Some(4));
    }

    #[test]
    fn the_help_ends_with_the_default_of_the_configuration() {
        let command = <Flags as clap::Args>::augment_args(clap::Command::new("it"));
        let help = |name: &str| {
            let arg = command.get_arguments().find(|arg| arg.get_id().as_str() == name);
            arg.and_then(|arg| arg.get_help()).map(ToString::to_string).unwrap_or_default()
        };
        assert_eq!(help("lr"), "How fast, 0 to 1 [default: 0.003]");
        assert_eq!(help("clip_norm"), "How far [default: none]");
        assert_eq!(help("micro_batch"), "How much [default: all of it]");
    }

    #[test]
    fn a_number_that_toml_has_no_place_for_is_named() {
        #[derive(Serialize)]
        struct Large {
            #[serde(rename = "train.max_steps")]
            max_steps: u64,
        }
        let sentence = table_of(&Large { max_steps: u64::MAX }).expect_err("too large").to_string();
        assert!(sentence.contains("max steps is 18446744073709551615"), "{sentence}");
    }
}
