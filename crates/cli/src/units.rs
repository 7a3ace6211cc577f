//! Sizes and times in people's units, both ways: `4MiB`, `10G`, `30s`, `5m`.

use std::time::Duration;

const SIZE_HELP: &str = "write a number with K, M, G, T, P or E behind it, as in 4MiB or 10G \
                         (powers of 1024; KB, MB, GB ... are powers of 1000)";
const TIME_HELP: &str = "write a number with ms, s, m, h or d behind it, as in 30s or 5m";

/// Bytes, from a word like `4MiB`, `10G`, `512` or `1.5TB`. The error says what a size looks like.
pub fn parse_size(word: &str) -> Result<u64, String> {
    let failed = || format!("\"{word}\" is not a size: {SIZE_HELP}");
    let (number, unit) = split(word).ok_or_else(failed)?;
    let (base, power) = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => (1024, 0),
        "k" | "kib" => (1024, 1),
        "m" | "mib" => (1024, 2),
        "g" | "gib" => (1024, 3),
        "t" | "tib" => (1024, 4),
        "p" | "pib" => (1024, 5),
        "e" | "eib" => (1024, 6),
        "kb" => (1000, 1),
        "mb" => (1000, 2),
        "gb" => (1000, 3),
        "tb" => (1000, 4),
        "pb" => (1000, 5),
        "eb" => (1000, 6),
        _ => return Err(failed()),
    };
    scale(number, u128::from(u64::pow(base, power)))
        .and_then(|bytes| u64::try_from(bytes).ok())
        .ok_or_else(|| format!("\"{word}\" is more than there can be, or not a whole number"))
}

/// A time, from a word like `30s`, `5m`, `250ms` or `1.5h`. A bare number counts seconds.
pub fn parse_time(word: &str) -> Result<Duration, String> {
    let failed = || format!("\"{word}\" is not a time: {TIME_HELP}");
    let (number, unit) = split(word).ok_or_else(failed)?;
    let nanos = match unit.to_ascii_lowercase().as_str() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000u128,
        _ => return Err(failed()),
    };
    scale(number, nanos)
        .and_then(|nanos| u64::try_from(nanos).ok())
        .map(Duration::from_nanos)
        .ok_or_else(|| format!("\"{word}\" is longer than a time can be, or too fine"))
}

/// A number and the letters behind it.
fn split(word: &str) -> Option<(&str, &str)> {
    let word = word.trim();
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    let points = number.len() - digits;
    (digits > 0 && points <= 1 && number.len() <= 40).then(|| (number, unit.trim()))
}

/// `number` times `unit` without rounding through floats; `None` when that is no whole number.
fn scale(number: &str, unit: u128) -> Option<u128> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let total = whole.checked_mul(unit)?;
    if part.is_empty() {
        return Some(total);
    }
    let power = 10u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let part = part.parse::<u128>().ok()?.checked_mul(unit)?;
    // Half a byte cannot be had, but 0.3 GiB may well be a little less than that.
    if unit == 1 && part % power != 0 {
        return None;
    }
    total.checked_add(part / power)
}

/// Bytes for people: `4.0 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    // 1023.97 KiB would be shown as 1024.0 KiB.
    if unit > 0 && value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A size that [`parse_size`] reads back as the same number: `4MiB`, `1000`.
pub fn exact_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["EiB", "PiB", "TiB", "GiB", "MiB", "KiB"];
    for (index, unit) in UNITS.iter().enumerate() {
        let shift = 60 - 10 * index;
        if bytes >> shift != 0 && bytes.trailing_zeros() as usize >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// A time for people, short: `1.2 ms`, `3 min 20 s`.
pub fn time(time: Duration) -> String {
    let nanos = time.as_nanos();
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} µs", nanos as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", nanos as f64 / 1e6),
        1_000_000_000..60_000_000_000 => format!("{:.1} s", nanos as f64 / 1e9),
        _ => {
            let secs = time.as_secs();
            let (days, hours, minutes) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60);
            match (days, hours) {
                (0, 0) => format!("{minutes} min {} s", secs % 60),
                (0, _) => format!("{hours} h {minutes} min"),
                _ => format!("{days} d {hours} h"),
            }
        }
    }
}

/// A count with its thousands apart: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A time of day in UTC: `2026-11-15T10:00:00.5Z`, from seconds since 1970 and nanoseconds.
pub fn instant(secs: i64, nanos: u32) -> String {
    let days = secs.div_euclid(86_400);
    let second = secs.rem_euclid(86_400);
    // The calendar repeats every 400 years, which are 146,097 days; years here begin in March, so
    // that the leap day is the last of its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if nanos != 0 {
        let fraction = format!("{nanos:09}");
        text.push('.');
        text.push_str(fraction.trim_end_matches('0'));
    }
    text.push('Z');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sizes_as_people_write_them() {
        let cases = [
            ("0", 0),
            ("512", 512),
            ("4MiB", 4 << 20),
            ("4 mib", 4 << 20),
            ("10G", 10 << 30),
            ("1.5K", 1536),
            ("1kB", 1000),
            ("2TB", 2_000_000_000_000),
            ("15.5EiB", 31 << 59),
            (".5M", 1 << 19),
        ];
        for (word, bytes) in cases {
            assert_eq!(parse_size(word), Ok(bytes), "{word}");
        }
        let long = "9".repeat(50);
        for word in ["", "G", "-1", "1.2.3", "4X", "16E", "1.5", "0x10", "1e3", long.as_str()] {
            let error = parse_size(word).unwrap_err();
            assert!(error.contains(word), "{word}: {error}");
        }
    }

    #[test]
    fn reads_times_as_people_write_them() {
        let cases = [
            ("0", 0),
            ("30", 30_000),
            ("30s", 30_000),
            ("250ms", 250),
            ("5m", 300_000),
            ("1.5h", 5_400_000),
            ("2d", 172_800_000),
        ];
        for (word, millis) in cases {
            assert_eq!(parse_time(word), Ok(Duration::from_millis(millis)), "{word}");
        }
        for word in ["", "s", "-1s", "3 weeks", "1000000d", "forever"] {
            assert!(parse_time(word).is_err(), "{word}");
        }
    }

    #[test]
    fn exact_sizes_are_read_back() {
        for bytes in [0, 1, 1000, 1024, 4 << 20, 5 << 30, 1 << 60, u64::MAX, (1 << 40) + 512] {
            assert_eq!(parse_size(&exact_size(bytes)), Ok(bytes));
        }
        assert_eq!(exact_size(4 << 20), "4MiB");
    }

    #[test]
    fn shows_sizes_times_and_counts() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(4 << 20), "4.0 MiB");
        assert_eq!(size((1 << 20) - 1), "1.0 MiB");
        assert_eq!(size(u64::MAX), "16.0 EiB");
        assert_eq!(time(Duration::from_micros(1500)), "1.5 ms");
        assert_eq!(time(Duration::from_secs(200)), "3 min 20 s");
        assert_eq!(time(Duration::from_secs(90_000)), "1 d 1 h");
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn shows_instants_of_any_age() {
        assert_eq!(instant(0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(instant(951_782_400, 500_000_000), "2000-02-29T00:00:00.5Z");
        assert_eq!(instant(-1, 0), "1969-12-31T23:59:59Z");
        assert_eq!(instant(1_794_736_800, 0), "2026-11-15T10:00:00Z");
    }
}
