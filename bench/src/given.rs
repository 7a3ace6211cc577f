//! Options of a command line, in pairs of a name and a value.

use crate::error::{Error, Result};
use std::fmt::Display;
use std::str::FromStr;

/// Options as they were given, taken one by one.
#[derive(Debug)]
pub(crate) struct Given<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Given<'a> {
    pub(crate) fn new(arguments: &'a [String]) -> Result<Self> {
        let mut given = Vec::new();
        for pair in arguments.chunks(2) {
            match pair {
                [name, value] => given.push((name.as_str(), value.as_str())),
                _ => {
                    let name = pair.concat();
                    return Err(Error::new(format!("the option {name} has no value")));
                }
            }
        }
        Ok(Self(given))
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
