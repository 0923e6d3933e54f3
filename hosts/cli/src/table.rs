//! Plain tables and sizes for people.

use crate::output;
use lean_engine::Result;

/// Prints rows in columns; the first row is the header. Columns that hold only numbers are set right.
pub fn print(rows: &[Vec<String>]) -> Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &Vec<String>, c: usize| row.get(c).cloned().unwrap_or_default();
    let widths: Vec<usize> =
        (0..columns).map(|c| rows.iter().map(|r| cell(r, c).chars().count()).max().unwrap_or(0)).collect();
    let numeric: Vec<bool> = (0..columns)
        .map(|c| {
            rows.iter().skip(1).all(|r| cell(r, c).starts_with(|x: char| x.is_ascii_digit() || x == '-'))
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let line: Vec<String> = (0..columns)
            .map(|c| match numeric[c] {
                true => format!("{:>w$}", cell(row, c), w = widths[c]),
                false => format!("{:<w$}", cell(row, c), w = widths[c]),
            })
            .collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    output::text(text)
}

/// Bytes in MB (10^6), as model files are sized.
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
