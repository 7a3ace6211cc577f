//! The ratios as a picture: an SVG that needs nothing else and reads on light and on dark paper.

use super::report::Report;

const ROW: f64 = 14.0;
const GAP: f64 = 8.0;
const LEFT: f64 = 190.0;
const PLOT: f64 = 560.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 64.0;
/// The scale is logarithmic: twice as fast is as far from the middle as half as fast.
const DECADES_MIN: f64 = 1.0;
const DECADES_MAX: f64 = 3.0;

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#222}.small{font-size:11px;fill:#666}.title{font-size:15px}\
.line{stroke:#ccc}.one{stroke:#444;stroke-width:1.5}\
.c0{fill:#2166ac}.c1{fill:#d6604d}.c2{fill:#4d9221}.c3{fill:#8073ac}\
@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.small{fill:#a0a0a0}.line{stroke:#444}.one{stroke:#ddd}\
.c0{fill:#67a9cf}.c1{fill:#ef8a62}.c2{fill:#a1d76a}.c3{fill:#b2abd2}}";
const COLOURS: usize = 4;

/// Bars to the right of the middle line are workloads where the measured directory is faster, bars to
/// its left where it is slower; one colour for each directory that it is compared with.
pub fn chart(report: &Report) -> String {
    let others = report.targets.len().saturating_sub(1);
    let step = ROW * others.max(1) as f64 + GAP;
    let height = TOP + step * report.rows.len() as f64 + 12.0;
    let width = LEFT + PLOT + RIGHT;
    let decades = decades(report);
    let place = |ratio: f64| LEFT + PLOT * (0.5 + (ratio.log10() / decades).clamp(-1.0, 1.0) / 2.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n<style>{STYLE}</style>\n"
    );
    let own = report.targets.first().map(|target| escaped(&target.label)).unwrap_or_default();
    svg.push_str(&format!(
        "<title>{own}: speed as a multiple</title>\n\
         <text class=\"title\" x=\"10\" y=\"20\">{own}: speed as a multiple (logarithmic)</text>\n"
    ));
    let mut x = 10.0;
    for (index, target) in report.targets.iter().skip(1).enumerate() {
        let (colour, label) = (index % COLOURS, format!("of {}", target.label));
        svg.push_str(&format!(
            "<rect class=\"c{colour}\" x=\"{x}\" y=\"30\" width=\"10\" height=\"10\"/>\
             <text x=\"{}\" y=\"40\">{}</text>\n",
            x + 14.0,
            escaped(&label)
        ));
        x += 40.0 + 7.0 * label.chars().count() as f64;
    }
    let mut mark = -decades as i32;
    while f64::from(mark) <= decades {
        let ratio = 10f64.powi(mark);
        let (x, class) = (place(ratio), if mark == 0 { "one" } else { "line" });
        svg.push_str(&format!(
            "<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\"/>\
             <text class=\"small\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{}\">{ratio}</text>\n",
            height - 8.0,
            TOP - 6.0
        ));
        mark += 1;
    }
    for (index, row) in report.rows.iter().enumerate() {
        let top = TOP + GAP / 2.0 + step * index as f64;
        svg.push_str(&format!(
            "<text text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{}</text>\n",
            LEFT - 8.0,
            top + (step - GAP) / 2.0 + 4.0,
            escaped(&row.workload)
        ));
        for (other, ratio) in row.ratios.iter().enumerate() {
            let Some(ratio) = *ratio else { continue };
            let (middle, end) = (place(1.0), place(ratio.max(f64::MIN_POSITIVE)));
            let top = top + ROW * other as f64;
            svg.push_str(&format!(
                "<rect class=\"c{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{}\"/>\
                 <text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">{ratio:.2}</text>\n",
                other % COLOURS,
                middle.min(end),
                top + 1.0,
                (end - middle).abs().max(1.0),
                ROW - 2.0,
                middle.max(end) + 4.0,
                top + ROW - 3.0
            ));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// How many powers of ten the picture shows to each side.
fn decades(report: &Report) -> f64 {
    let ratios = report.rows.iter().flat_map(|row| row.ratios.iter().flatten());
    let far =
        ratios.map(|ratio| ratio.log10().abs()).filter(|far| far.is_finite()).fold(0.0, f64::max);
    far.ceil().clamp(DECADES_MIN, DECADES_MAX)
}

/// Text that XML takes.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            // XML has no way to write these.
            other if other.is_control() => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}
