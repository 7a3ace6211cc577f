//! Options of a command line, in pairs of a name and a value.

use crate::error::{Error, Result};
use std::fmt::Display;
use std::str::FromStr;

/// Options as they were given, taken one by one.
#[derive(Debug)]
pub(crate) struct Given<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Given<'a> {
    pub(crate) fn new(arguments: &'a [String]) -> Result<Self> {
        Self::with_flags(arguments, &[])
    }

    /// The same, where these have no value.
    pub(crate) fn with_flags(arguments: &'a [String], flags: &[&str]) -> Result<Self> {
        let mut given = Vec::new();
        let mut words = arguments.iter();
        while let Some(name) = words.next() {
            if flags.contains(&name.as_str()) {
                given.push((name.as_str(), ""));
                continue;
            }
            let value = words.next();
            let value =
                value.ok_or_else(|| Error::new(format!("the option {name} has no value")))?;
            given.push((name.as_str(), value.as_str()));
        }
        Ok(Self(given))
    }

    /// Whether an option without a value was given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|(given, _)| *given != name);
        self.0.len() < before
    }

    /// All values of an option that may be given several times.
    pub(crate) fn all<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<Vec<T>> {
        let mut values = Vec::new();
        while let Some(value) = self.take(name)? {
            values.push(value);
        }
        Ok(values)
    }

    /// The value of an option, when it was given.
    pub(crate) fn take<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<Option<T>> {
        let Some(at) = self.0.iter().position(|(given, _)| *given == name) else {
            return Ok(None);
        };
        let (_, value) = self.0.remove(at);
        let parsed =
            value.parse().map_err(|error| Error::new(format!("{name} {value}: {error}")))?;
        Ok(Some(parsed))
    }

    /// The value of an option that must be given.
    pub(crate) fn need<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<T> {
        let value = self.take(name)?;
        value.ok_or_else(|| Error::new(format!("the option {name} is missing")))
    }

    /// Nothing must be left that nobody asked for.
    pub(crate) fn finish(self) -> Result<()> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(Error::new(format!("there is no option {name}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_no_value_and_options_may_repeat() -> Result<()> {
        let words = ["--also", "a", "--quick", "--also", "b"].map(str::to_owned);
        let mut given = Given::with_flags(&words, &["--quick"])?;
        assert!(given.flag("--quick") && !given.flag("--quick"));
        let also: Vec<String> = given.all("--also")?;
        assert_eq!(also, ["a", "b"]);
        given.finish()?;
        assert!(Given::new(&words[..1]).is_err(), "an option without its value");
        Ok(())
    }
}
