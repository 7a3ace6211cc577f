//! The picture is XML that a browser takes, whatever the names are.

use crate::bench::report::{Report, Row, Settings, TargetInfo, Value};

fn report(labels: &[&str], ratios: &[&[Option<f64>]]) -> Report {
    let target = |label: &&str| TargetInfo {
        label: (*label).into(),
        path: format!("/{label}"),
        filesystem: "ext4".into(),
    };
    let row = |(index, ratios): (usize, &&[Option<f64>])| Row {
        workload: format!("work-{index}"),
        unit: "op/s".into(),
        values: labels.iter().map(|_| Value { median: Some(1.0), samples: vec![1.0] }).collect(),
        ratios: ratios.to_vec(),
    };
    Report {
        targets: labels.iter().map(target).collect(),
        settings: Settings { files: 1, passes: 1, threads: 1, stream_bytes: 1, cpus: vec![0] },
        rows: ratios.iter().enumerate().map(row).collect(),
        skipped: Vec::new(),
        warnings: Vec::new(),
        seconds: 1.0,
    }
}

/// Fails unless every tag is closed in order and every attribute is quoted; returns the texts.
fn texts(xml: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut texts = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        assert!(!text.contains('>'), "stray > in {text:?}");
        for entity in text.split('&').skip(1) {
            let known = ["lt;", "gt;", "amp;", "quot;"];
            assert!(known.iter().any(|known| entity.starts_with(known)), "stray & in {text:?}");
        }
        texts.push(text.trim().to_owned());
        let end = start + rest[start..].find('>').expect("a tag without an end");
        let tag = &rest[start + 1..end];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else {
            assert_eq!(tag.matches('"').count(), 2 * tag.matches('=').count(), "{tag}");
            if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap());
            }
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty());
    texts.retain(|text| !text.is_empty());
    texts
}

#[test]
fn it_is_well_formed_and_has_a_bar_for_each_ratio() {
    let ratios: &[&[Option<f64>]] =
        &[&[Some(0.5), Some(2.0)], &[Some(17.25), None], &[Some(0.0), Some(1.0)]];
    let svg = crate::bench::chart(&report(&["sea", "native", "mem"], ratios));
    let texts = texts(&svg);
    for shown in
        ["work-0", "work-1", "work-2", "of native", "of mem", "0.50", "2.00", "17.25", "0.00"]
    {
        assert!(texts.iter().any(|text| text == shown), "{shown} is missing in {texts:?}");
    }
    // Two in the legend, five ratios.
    assert_eq!(svg.matches("<rect").count(), 7);
    assert!(svg.contains("prefers-color-scheme:dark"));
}

#[test]
fn names_cannot_break_it() {
    let hostile = ["<b>&\"", "a\u{7}b", "--><script>"];
    let svg = crate::bench::chart(&report(&hostile, &[&[Some(1e9), Some(1e-9)]]));
    let texts = texts(&svg);
    assert!(texts.iter().any(|text| text.contains("&lt;b&gt;&amp;&quot;")), "{texts:?}");
    assert!(!svg.contains("<script") && !svg.contains('\u{7}') && !svg.contains("NaN"));
}

#[test]
fn nothing_to_compare_with_is_still_a_picture() {
    texts(&crate::bench::chart(&report(&["sea"], &[&[]])));
    texts(&crate::bench::chart(&report(&[], &[])));
}

#[test]
fn a_plot_is_well_formed_and_has_all_lines() {
    let line = |name: &str, heights: &[Option<f64>]| crate::bench::Line {
        name: name.into(),
        heights: heights.to_vec(),
    };
    let mut plot = crate::bench::Plot {
        title: "growth & <more>".into(),
        across: "files".into(),
        sizes: vec![1e4, 1e5, 1e6, 1e7],
        lines: vec![
            line("create", &[Some(1.0), Some(1.1), None, Some(1.4)]),
            line("lookup", &[Some(f64::NAN), Some(0.0), Some(2.0), Some(1.0)]),
        ],
        bar: Some(1.3),
    };
    let svg = crate::bench::plot(&plot);
    let texts = texts(&svg);
    for shown in ["growth &amp; &lt;more&gt;", "10k", "100k", "1M", "10M", "create", "lookup", "0"]
    {
        assert!(texts.iter().any(|text| text == shown), "{shown} is missing in {texts:?}");
    }
    let points = |svg: &str| -> Vec<usize> {
        let lines = svg.split("points=\"").skip(1);
        lines.map(|rest| rest.split('"').next().unwrap_or("").matches(',').count()).collect()
    };
    assert_eq!(points(&svg), [3, 3], "a point for each height that there is");
    assert!(svg.contains("prefers-color-scheme:dark") && !svg.contains("NaN"));
    (plot.sizes, plot.lines, plot.bar) = (Vec::new(), Vec::new(), None);
    texts_of_nothing(&crate::bench::plot(&plot));
}

fn texts_of_nothing(svg: &str) {
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    texts(svg);
}
