//! Tables for people: numbers to the right, columns as wide as they need to be.

/// Rows of words.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table whose first column is `what`, with the other columns behind it.
    pub(crate) fn new<'a>(what: &str, columns: impl IntoIterator<Item = &'a str>) -> Self {
        let mut head = vec![what.to_owned()];
        head.extend(columns.into_iter().map(str::to_owned));
        Self { rows: vec![head] }
    }

    /// One more heading.
    pub(crate) fn column(&mut self, name: String) {
        self.rows[0].push(name);
    }

    pub(crate) fn row(&mut self, name: impl Into<String>, cells: impl IntoIterator<Item = String>) {
        let mut row = vec![name.into()];
        row.extend(cells);
        self.rows.push(row);
    }

    pub(crate) fn print(&self, title: &str) {
        println!("\n{title}\n");
        if self.rows.len() == 1 {
            println!("none");
            return;
        }
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::from("|");
            for (column, &width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                line += &match column {
                    0 => format!(" {cell:<width$} |"),
                    _ => format!(" {cell:>width$} |"),
                };
            }
            println!("{line}");
            if number == 0 {
                let rules = widths.iter().map(|width| "-".repeat(width + 2));
                println!("|{}|", rules.collect::<Vec<_>>().join("|"));
            }
        }
    }
}

/// A whole number with its thousands apart.
pub(crate) fn count(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut apart = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
}

pub(crate) fn ratio(of: f64, to: f64) -> String {
    if to > 0.0 { format!("{:.2}", of / to) } else { "-".to_owned() }
}

/// The middle of some numbers; of two, their mean.
pub(crate) fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(count(0.4), "0");
        assert_eq!(count(999.0), "999");
        assert_eq!(count(1000.0), "1,000");
        assert_eq!(count(1_234_567.0), "1,234,567");
    }

    #[test]
    fn the_median_does_not_mind_the_order() {
        assert!((median(&[9.0, 1.0, 5.0]) - 5.0).abs() < 1e-9);
        assert!((median(&[9.0, 1.0]) - 5.0).abs() < 1e-9);
        assert!(median(&[]).abs() < 1e-9);
    }
}
