//! Lines over sizes that grow by powers of ten: an SVG that needs nothing else and reads on light and on
//! dark paper.

use super::chart::escaped;

const LEFT: f64 = 60.0;
const WIDTH: f64 = 600.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 64.0;
const HEIGHT: f64 = 300.0;
const BOTTOM: f64 = 46.0;
/// About so many lines across.
const MARKS: f64 = 6.0;

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#222}.small{font-size:11px;fill:#666}.title{font-size:15px}\
.grid{stroke:#ddd}.bar{stroke:#444;stroke-dasharray:5 4}polyline{fill:none;stroke-width:2}\
.c0{stroke:#2166ac}.c1{stroke:#d6604d}.c2{stroke:#4d9221}.c3{stroke:#8073ac}\
@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.small{fill:#a0a0a0}.grid{stroke:#444}.bar{stroke:#ddd}\
.c0{stroke:#67a9cf}.c1{stroke:#ef8a62}.c2{stroke:#a1d76a}.c3{stroke:#b2abd2}}";
const COLOURS: usize = 4;

/// What is drawn.
#[derive(Debug, Clone)]
pub struct Plot {
    /// Above it.
    pub title: String,
    /// Below it: what grows.
    pub across: String,
    /// The sizes, each above zero, growing.
    pub sizes: Vec<f64>,
    /// One value for each size.
    pub lines: Vec<Line>,
    /// A height that no line should cross.
    pub bar: Option<f64>,
}

/// One line of a plot.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its heights, where there are any.
    pub heights: Vec<Option<f64>>,
}

/// Draws it: sizes by their logarithm, heights from zero.
pub fn plot(plot: &Plot) -> String {
    let (width, height) = (LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM);
    let usable = |value: &f64| value.is_finite() && *value >= 0.0;
    let heights = plot.lines.iter().flat_map(|line| line.heights.iter().flatten().copied());
    let highest = heights.chain(plot.bar).filter(usable).fold(0.0, f64::max);
    let step = step(highest);
    let top = (highest / step).ceil().max(1.0) * step;
    let first = plot.sizes.first().map_or(0.0, |size| size.log10());
    let range = plot.sizes.last().map_or(0.0, |size| size.log10()) - first;
    let x = |size: f64| {
        let part = if range > 0.0 { (size.log10() - first) / range } else { 0.5 };
        LEFT + WIDTH * part
    };
    let y = |value: f64| TOP + HEIGHT * (1.0 - value / top);
    let title = escaped(&plot.title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n<style>{STYLE}</style>\n\
         <title>{title}</title>\n<text class=\"title\" x=\"10\" y=\"20\">{title}</text>\n"
    );
    let mut mark = 0.0;
    while mark <= top + step / 2.0 {
        let at = y(mark);
        svg.push_str(&format!(
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\"/>\
             <text class=\"small\" text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{}</text>\n",
            LEFT + WIDTH,
            LEFT - 6.0,
            at + 4.0,
            short(mark)
        ));
        mark += step;
    }
    for size in &plot.sizes {
        svg.push_str(&format!(
            "<text class=\"small\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{}\">{}</text>\n",
            x(*size),
            TOP + HEIGHT + 18.0,
            short(*size)
        ));
    }
    svg.push_str(&format!(
        "<text class=\"small\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>\n",
        LEFT + WIDTH / 2.0,
        height - 8.0,
        escaped(&plot.across)
    ));
    if let Some(bar) = plot.bar {
        let at = y(bar);
        svg.push_str(&format!(
            "<line class=\"bar\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\"/>\n",
            LEFT + WIDTH
        ));
    }
    let mut legend = 10.0;
    for (index, line) in plot.lines.iter().enumerate() {
        let colour = index % COLOURS;
        svg.push_str(&format!(
            "<line class=\"c{colour}\" stroke-width=\"3\" x1=\"{legend}\" y1=\"36\" x2=\"{}\" y2=\"36\"/>\
             <text x=\"{}\" y=\"40\">{}</text>\n",
            legend + 14.0,
            legend + 18.0,
            escaped(&line.name)
        ));
        legend += 44.0 + 7.0 * line.name.chars().count() as f64;
        let points: Vec<String> = plot
            .sizes
            .iter()
            .zip(&line.heights)
            .filter_map(|(size, value)| Some((size, (*value).filter(usable)?)))
            .map(|(size, value)| format!("{:.1},{:.1}", x(*size), y(value)))
            .collect();
        svg.push_str(&format!("<polyline class=\"c{colour}\" points=\"{}\"/>\n", points.join(" ")));
    }
    svg.push_str("</svg>\n");
    svg
}

/// A round distance between the lines across: 1, 2 or 5 times a power of ten.
fn step(highest: f64) -> f64 {
    let rough = (highest / MARKS).max(1e-6);
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|part| part * power)
        .find(|step| *step >= rough)
        .unwrap_or(power)
}

/// 10000 as 10k.
fn short(value: f64) -> String {
    // What adding up steps left behind the comma goes.
    let trim = |value: f64| ((value * 1e6).round() / 1e6).to_string();
    match value {
        value if value >= 1e6 => trim(value / 1e6) + "M",
        value if value >= 1e4 => trim(value / 1e3) + "k",
        value => trim(value),
    }
}
