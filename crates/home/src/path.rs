//! Where in a home a number's file is: a directory for each digit, so that none has more than ten of
//! each, and neighbours in number are neighbours on disk.

use std::path::PathBuf;

/// The path of a number: `1234` is at `1000/1200/1230/1234`.
pub fn path_of(number: u64) -> PathBuf {
    let digits = number.to_string();
    let mut path = PathBuf::new();
    for end in 1..=digits.len() {
        let kept = digits.get(..end).unwrap_or(&digits);
        path.push(format!("{kept:0<width$}", width = digits.len()));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_spread_over_its_digits() {
        for (number, path) in [
            (7, "7"),
            (1234, "1000/1200/1230/1234"),
            (3210, "3000/3200/3210/3210"),
            (1_234_567, "1000000/1200000/1230000/1234000/1234500/1234560/1234567"),
        ] {
            assert_eq!(path_of(number), PathBuf::from(path));
        }
    }
}
