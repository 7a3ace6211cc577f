//! What was measured: one rate for each workload, target and pass.

use super::work::Work;

/// Rates by workload and target.
#[derive(Debug)]
pub(crate) struct Samples {
    targets: usize,
    /// Indexed by workload, then by target.
    rates: Vec<Vec<f64>>,
}

impl Samples {
    pub(crate) fn new(targets: usize) -> Self {
        Self { targets, rates: vec![Vec::new(); targets * Work::ALL.len()] }
    }

    pub(crate) fn add(&mut self, work: Work, target: usize, rate: f64) {
        if let Some(rates) = self.rates.get_mut(work as usize * self.targets + target) {
            rates.push(rate);
        }
    }

    pub(crate) fn of(&self, work: Work, target: usize) -> &[f64] {
        self.rates.get(work as usize * self.targets + target).map_or(&[], Vec::as_slice)
    }
}

/// The middle one; of an even number the mean of the middle two; of none, nothing.
pub(crate) fn median(rates: &[f64]) -> Option<f64> {
    let mut sorted = rates.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted[middle - 1] + upper) / 2.0)
}

/// `own` as a multiple of `other`; nothing where that has no meaning.
pub(crate) fn ratio(own: Option<f64>, other: Option<f64>) -> Option<f64> {
    let ratio = own? / other?;
    ratio.is_finite().then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::{Samples, median, ratio};
    use crate::bench::work::Work;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }

    #[test]
    fn a_ratio_needs_both_sides() {
        assert_eq!(ratio(Some(5.0), Some(10.0)), Some(0.5));
        assert_eq!(ratio(None, Some(10.0)), None);
        assert_eq!(ratio(Some(5.0), None), None);
        assert_eq!(ratio(Some(5.0), Some(0.0)), None);
    }

    #[test]
    fn rates_stay_apart_by_workload_and_target() {
        let mut samples = Samples::new(2);
        samples.add(Work::Mkdir, 0, 1.0);
        samples.add(Work::Mkdir, 1, 2.0);
        samples.add(Work::Rmdir, 0, 3.0);
        samples.add(Work::Mkdir, 0, 4.0);
        assert_eq!(samples.of(Work::Mkdir, 0), [1.0, 4.0]);
        assert_eq!(samples.of(Work::Mkdir, 1), [2.0]);
        assert_eq!(samples.of(Work::Rmdir, 0), [3.0]);
        assert!(samples.of(Work::Rmdir, 1).is_empty());
    }
}
