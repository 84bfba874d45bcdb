//! How long a run will still take.

use std::time::Duration;

/// Steps of a sitting that are not counted: they warm up caches, compile kernels and wait for the first batch.
const WARM_UP: u64 = 2;

/// The time of a run's steps, those of this sitting alone: what was done before a resume took no time here, and another machine
/// may have done it.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// The last step of the warm-up, and when it was done, since the sitting began.
    begin: Option<(u64, Duration)>,
    seen: u64,
}

impl Pace {
    /// A step is done, so long after the sitting began.
    pub fn step(&mut self, step: u64, now: Duration) {
        self.seen += 1;
        if self.seen == WARM_UP {
            self.begin = Some((step, now));
        }
    }

    /// The time until `total` steps are done, validations and checkpoints included as far as there were any. None as long as
    /// nothing is known.
    pub fn left(&self, step: u64, total: u64, now: Duration) -> Option<Duration> {
        let (first, began) = self.begin?;
        let done = step.checked_sub(first).filter(|done| *done > 0)?;
        let each = now.saturating_sub(began).as_secs_f64() / done as f64;
        Duration::try_from_secs_f64(each * total.saturating_sub(step) as f64).ok()
    }
}

/// A time as people say it.
pub fn in_words(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, 1..10) => format!("{minutes} min {seconds} s"),
        (0, _) => format!("{minutes} min"),
        (1..48, _) => format!("{hours} h {minutes} min"),
        _ => format!("{} days {} h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds left after each of some steps, of which each took so many seconds.
    fn left(first: u64, seconds: &[f64], total: u64) -> Vec<Option<u64>> {
        let (mut pace, mut now) = (Pace::default(), 0.0);
        (first..)
            .zip(seconds)
            .map(|(step, seconds)| {
                now += seconds;
                let now = Duration::from_secs_f64(now);
                pace.step(step, now);
                pace.left(step, total, now).map(|left| left.as_secs_f64().round() as u64)
            })
            .collect()
    }

    #[test]
    fn the_first_steps_do_not_count() {
        // The first waits half a minute for kernels; the others take two seconds each.
        assert_eq!(left(1, &[30.0, 2.0, 2.0, 2.0], 10), [None, None, Some(14), Some(12)]);
    }

    #[test]
    fn steps_before_a_resume_took_no_time_here() {
        assert_eq!(left(501, &[5.0, 1.0, 1.0, 1.0], 600), [None, None, Some(97), Some(96)]);
    }

    #[test]
    fn nothing_is_left_at_the_end_and_nothing_is_promised_of_a_run_of_two_steps() {
        assert_eq!(left(1, &[1.0, 1.0, 1.0], 3), [None, None, Some(0)]);
        assert_eq!(left(1, &[1.0, 1.0], 2), [None, None]);
    }

    #[test]
    fn times_read_as_people_say_them() {
        let cases =
            [(4.4, "4 s"), (61.0, "1 min 1 s"), (1200.0, "20 min"), (7500.0, "2 h 5 min"), (180_000.0, "2 days 2 h")];
        for (seconds, words) in cases {
            assert_eq!(in_words(Duration::from_secs_f64(seconds)), words);
        }
    }
}
