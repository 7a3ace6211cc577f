//! Whole benchmarks at a small scale: what they measure, refuse, notice and leave behind.

mod picture;

use super::error::Error;
use super::options::Options;
use super::pages::{self, Care, PAGE};
use super::report::{Report, Row, Value};
use super::run::Plan;
use super::scene::{self, Scene};
use super::stop::Stop;
use super::work::{Need, Work, names};
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

/// Everything but the cold workloads, which would empty the caches of the machine that runs the tests.
fn small(path: &Path, against: &[&Path]) -> Plan {
    let mut options = Options::new(path);
    options.against = against.iter().map(|path| path.to_path_buf()).collect();
    options.files = Some(40);
    options.passes = Some(2);
    options.quick = true;
    let warm = Work::ALL.iter().filter(|work| work.need() != Need::Cold);
    options.only = warm.map(|work| work.name(options.threads)).collect();
    let mut plan = Plan::make(&options).unwrap();
    plan.scale.stream_bytes = 2 << 20;
    plan.scale.slice = Duration::from_millis(2);
    plan
}

fn empty(dir: &TempDir) -> bool {
    std::fs::read_dir(dir.path()).unwrap().next().is_none()
}

/// One benchmark for all tests that look at a report.
fn whole_report() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(measured)
}

fn measured() -> Report {
    let (own, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let plan = small(own.path(), &[other.path()]);
    let report = plan.run(scene::ALL, &Stop::default(), &mut |_| ()).unwrap();
    assert!(empty(&own) && empty(&other), "a benchmark left something behind");
    report
}

#[test]
fn every_workload_is_measured_on_every_target_in_every_pass() {
    let report = whole_report();
    let warm = Work::ALL.iter().filter(|work| work.need() != Need::Cold).count();
    assert_eq!(report.rows.len() + report.skipped.len(), warm);
    for row in &report.rows {
        assert_eq!(row.values.len(), 2, "{}", row.workload);
        assert_eq!(row.ratios.len(), 1, "{}", row.workload);
        for value in &row.values {
            assert_eq!(value.samples.len(), 2, "{}", row.workload);
            assert!(value.samples.iter().all(|rate| *rate > 0.0), "{}", row.workload);
        }
        let (own, other) = (&row.values[0].samples, &row.values[1].samples);
        let middle = f64::midpoint(own[0] / other[0], own[1] / other[1]);
        let ratio = row.ratios[0].unwrap();
        assert!((ratio / middle - 1.0).abs() < 1e-9, "{}: {ratio} {middle}", row.workload);
    }
}

#[test]
fn a_ratio_is_the_median_of_the_passes_own_ones() {
    let ratios = |own: &[f64], other: &[f64]| {
        Row::of("w", "op/s", vec![Value::of(own.to_vec()), Value::of(other.to_vec())]).ratios
    };
    // Two of three times as fast, while the machine got slower and slower.
    assert_eq!(ratios(&[80.0, 40.0, 5.0], &[40.0, 20.0, 10.0]), [Some(2.0)]);
    // Where a pass is missing, of the medians.
    assert_eq!(ratios(&[80.0, 40.0, 5.0], &[10.0, 10.0]), [Some(4.0)]);
    assert_eq!(ratios(&[80.0], &[0.0]), [None]);
}

#[test]
fn the_report_as_json_has_the_documented_shape() {
    let json = serde_json::to_value(whole_report()).unwrap();
    assert_eq!(json["targets"].as_array().unwrap().len(), 2);
    assert!(json["targets"][0]["path"].is_string() && json["targets"][0]["filesystem"].is_string());
    assert_eq!(json["settings"]["files"], 40);
    assert_eq!(json["settings"]["passes"], 2);
    assert_eq!(json["rows"][0]["workload"], "seq-write-new");
    assert_eq!(json["rows"][0]["unit"], "MiB/s");
    assert_eq!(json["rows"][0]["values"][1]["samples"].as_array().unwrap().len(), 2);
    assert!(json["rows"][0]["values"][0]["median"].is_number());
    assert!(json["rows"][0]["ratios"][0].is_number());
    assert!(json["warnings"][0].as_str().unwrap().contains("same filesystem"));
    assert!(json["skipped"].is_array() && json["seconds"].is_number());
    let again: Report = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(again).unwrap(), json, "it can be read back");
}

#[test]
fn the_table_has_a_line_for_each_workload_and_equal_columns() {
    let report = whole_report();
    let text = super::table(report);
    let lines: Vec<&str> = text.lines().take_while(|line| line.starts_with('|')).collect();
    assert_eq!(lines.len(), report.rows.len() + 2);
    let width = lines[0].chars().count();
    assert!(lines.iter().all(|line| line.chars().count() == width), "{text}");
    assert!(lines[0].contains(" / "), "{text}");
}

#[test]
fn a_failing_workload_leaves_nothing_behind() {
    const FULL: Scene = Scene {
        name: "full",
        works: &[Work::Mkdir],
        play: |stage| {
            std::fs::write(stage.dir.join("half"), [7; 5000]).unwrap();
            std::fs::create_dir_all(stage.dir.join("a/b/c")).unwrap();
            stage.untimed("filling", |step| {
                step.ok(Err(io::Error::from(io::ErrorKind::StorageFull)))
            })
        },
    };
    let (own, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let plan = small(own.path(), &[other.path()]);
    let error = plan.run(&[FULL], &Stop::default(), &mut |_| ()).unwrap_err();
    assert!(matches!(&error, Error::Io { doing, .. } if doing == "filling"), "{error:?}");
    assert!(error.to_string().contains("free some space"), "{error}");
    assert!(empty(&own) && empty(&other));
}

#[test]
fn a_signal_ends_it_in_order() {
    let own = TempDir::new().unwrap();
    let stop = Stop::default();
    let plan = small(own.path(), &[]);
    let mut scenes = 0;
    let ended = plan.run(scene::ALL, &stop, &mut |_| {
        scenes += 1;
        if scenes == 3 {
            stop.ask();
        }
    });
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    assert_eq!(scenes, 3);
    assert!(empty(&own));
}

#[test]
fn targets_take_turns_and_the_first_one_changes() {
    let (own, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    const ONE: Scene = Scene { name: "one", works: &[Work::Mkdir], play: |_| Ok(()) };
    let plan = small(own.path(), &[other.path()]);
    let labels: Vec<String> = plan.targets.iter().map(|target| target.label.clone()).collect();
    let mut order = Vec::new();
    plan.run(&[ONE], &Stop::default(), &mut |progress| order.push(progress.target.to_owned()))
        .unwrap();
    let expected = [&labels[0], &labels[1], &labels[1], &labels[0], "all"];
    assert_eq!(order, expected);
}

#[test]
fn wrong_bytes_are_noticed() {
    let path = Path::new("file");
    let mut page = [0; PAGE];
    pages::fill_page(&mut page, 300, 2);
    let check =
        |page: &[u8], number, version, care| pages::check(path, page, number, |_| version, care);
    check(&page, 300, 2, Care::Whole).unwrap();
    assert!(check(&page, 301, 2, Care::Stamps).is_err(), "another page");
    assert!(check(&page, 300, 1, Care::Stamps).is_err(), "an older version");
    assert!(check(&page[..PAGE - 1], 300, 2, Care::Stamps).is_err(), "a short read");
    page[PAGE / 2] ^= 1;
    let error = check(&page, 300, 2, Care::Whole).unwrap_err();
    assert!(error.to_string().contains("wrong bytes were read at offset 1228800"), "{error}");
    assert!(check(&[0; PAGE], 0, 0, Care::Stamps).is_err(), "zeros");
}

#[test]
fn a_block_is_its_pages() {
    let mut block = pages::block();
    pages::stamp_block(&mut block, 512, 9);
    pages::check(Path::new("file"), &block, 512, |_| 9, Care::Whole).unwrap();
    let mut page = [0; PAGE];
    pages::fill_page(&mut page, 512 + 17, 9);
    assert_eq!(block[17 * PAGE..18 * PAGE], page);
}

#[test]
fn what_cannot_be_done_is_refused_with_words() {
    let dir = TempDir::new().unwrap();
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = Options::new(dir.path());
        change(&mut options);
        Plan::make(&options).unwrap_err().to_string()
    };
    let unknown = refused(&|options| options.only = vec!["unlnk".into()]);
    assert!(
        unknown.contains("did you mean unlink?") && unknown.contains("git-status"),
        "{unknown}"
    );
    assert!(
        refused(&|options| options.files = Some(0)).contains("--files 0: give a number from 1 to")
    );
    assert!(refused(&|options| options.passes = Some(101)).contains("--passes 101"));
    assert!(refused(&|options| options.threads = 0).contains("--threads 0"));
    assert!(
        refused(&|options| options.path = dir.path().join("no"))
            .contains("there is no such directory")
    );
    assert!(
        refused(&|options| options.against = vec!["/dev/null".into()]).contains("not a directory")
    );
    assert!(
        refused(&|options| options.against = vec![dir.path().into(); 8])
            .contains("at most 7 times")
    );
    assert!(empty(&dir), "a refused benchmark made something");
}

#[test]
fn too_little_room_is_refused_before_anything_is_made() {
    let dir = TempDir::new().unwrap();
    let error = super::target::Target::check(dir.path(), u64::MAX).unwrap_err().to_string();
    assert!(error.contains("MiB are needed") && error.contains("--quick"), "{error}");
}

#[test]
fn names_are_unique_and_follow_the_threads() {
    let mut names = names(7);
    assert!(names.contains(&"create-empty-x7".to_owned()));
    assert!(names.contains(&"create-4k-fsync-x16".to_owned()));
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn every_workload_belongs_to_one_scene() {
    for work in Work::ALL {
        let scenes = scene::ALL.iter().filter(|scene| scene.works.contains(work)).count();
        assert_eq!(scenes, 1, "{work:?}");
    }
}

#[test]
fn targets_of_the_same_name_are_told_apart() {
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let paths = [one.path().join("same"), two.path().join("same")];
    for path in &paths {
        std::fs::create_dir(path).unwrap();
    }
    let plan = small(&paths[0], &[&paths[1]]);
    assert_ne!(plan.targets[0].label, plan.targets[1].label);
}
