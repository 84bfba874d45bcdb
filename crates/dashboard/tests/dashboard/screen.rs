//! What is written to a terminal, and that it is given back.

use std::io::{self, ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::events::{started, step};
use kindling_dashboard::{Dashboard, LEAVE, Screen};
use ratatui::layout::Size;

/// How a picture begins and ends, how it begins where all of it is drawn, and how the terminal is taken over.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";
const CLEAR: &str = "\x1b[2J";
const ENTER: &str = "\x1b[?1049h\x1b[?25l";

/// A terminal that keeps what is written.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn pictures(&self) -> usize {
        self.text().matches(BEGIN).count()
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}: has not come");
        sleep(Duration::from_millis(5));
    }
}

fn usual() -> Option<Size> {
    Some(Size { width: 80, height: 24 })
}

fn screen_on(paper: &Paper) -> Screen {
    let screen = Screen::on(Dashboard::new("run", 600), paper.clone(), usual).unwrap();
    screen.see(&started(600));
    screen
}

#[test]
fn the_terminal_is_as_it_was_after_a_drop() {
    let paper = Paper::default();
    let screen = screen_on(&paper);
    // The first picture may have been drawn before the start was seen.
    wait_until("a picture of the start", || paper.text().contains("mobilenet_v3_small"));
    drop(screen);
    let text = paper.text();
    assert!(text.starts_with(ENTER), "{text:?}");
    assert!(text.ends_with(LEAVE), "{text:?}");
    assert_eq!(text.matches("\x1b[?1049l").count(), 1);
    assert_eq!(text.matches(BEGIN).count() + 1, text.matches(END).count(), "the last belongs to the end");
}

#[test]
fn the_terminal_is_as_it_was_after_a_panic() {
    let paper = Paper::default();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let screen = screen_on(&paper);
        screen.see(&step(1));
        panic!("on purpose");
    }));
    assert!(caught.is_err());
    assert!(paper.text().ends_with(LEAVE), "{:?}", paper.text());
}

#[test]
fn at_most_ten_pictures_a_second_are_drawn_and_none_where_nothing_changes() {
    let paper = Paper::default();
    let screen = screen_on(&paper);
    let began = Instant::now();
    let mut steps = 0;
    while began.elapsed() < Duration::from_millis(650) {
        steps += 1;
        screen.see(&step(steps));
    }
    let drawn = paper.pictures();
    assert!(steps > 100, "a run does not wait for its pictures: {steps}");
    // One at once, and one each tenth of a second.
    assert!((2..=1 + began.elapsed().as_millis() as usize / 100).contains(&drawn), "{drawn}");
    drop(screen);

    let paper = Paper::default();
    let screen = screen_on(&paper);
    let began = Instant::now();
    sleep(Duration::from_millis(900));
    // The first, one more if the start was seen after it, and one a second.
    let idle = paper.pictures();
    assert!((1..=2 + began.elapsed().as_secs() as usize).contains(&idle), "{idle}");
    // All of it is drawn again now and then, over what others wrote.
    wait_until("a whole picture", || paper.text().matches(CLEAR).count() > 2);
    drop(screen);
}

#[test]
fn a_resized_terminal_gets_a_picture_of_its_size() {
    let paper = Paper::default();
    let width = Arc::new(AtomicU16::new(120));
    let asked = Arc::clone(&width);
    let size = move || Some(Size { width: asked.load(Ordering::Relaxed), height: asked.load(Ordering::Relaxed) / 4 });
    let screen = Screen::on(Dashboard::new("run", 600), paper.clone(), size).unwrap();
    screen.see(&started(600));
    wait_until("a wide picture", || furthest(&paper.text()) > 40);
    width.store(40, Ordering::Relaxed);
    // One picture may have been on its way.
    let so_far = paper.pictures();
    wait_until("two more", || paper.pictures() >= so_far + 2);
    let text = paper.text();
    let narrow = text.split(BEGIN).skip(so_far + 2).collect::<String>();
    assert!((1..=40).contains(&furthest(&narrow)), "{narrow:?}");
    drop(screen);
}

/// The furthest column that a cursor was set to.
fn furthest(text: &str) -> usize {
    let places = text.split("\x1b[").filter_map(|piece| piece.split_once('H')?.0.split_once(';')?.1.parse().ok());
    places.max().unwrap_or(0)
}

#[test]
fn a_terminal_of_any_size_or_of_none_is_drawn_on() {
    for size in [None, Some((0, 0)), Some((1, 1)), Some((1, 60)), Some((500, 1)), Some((u16::MAX, u16::MAX))] {
        let paper = Paper::default();
        let ask = move || size.map(|(width, height)| Size { width, height });
        let screen = Screen::on(Dashboard::new("run", 600), paper.clone(), ask).unwrap();
        (1..=10).for_each(|number| screen.see(&step(number)));
        if size != Some((0, 0)) {
            wait_until(&format!("a picture of {size:?}"), || paper.pictures() > 0);
        }
        drop(screen);
        assert!(paper.text().ends_with(LEAVE));
    }
}

/// A terminal that refuses all writes after the first ones.
struct Refusing {
    paper: Paper,
    writes: usize,
    error: ErrorKind,
    refused: Arc<AtomicUsize>,
    /// Refusals after which it takes bytes again.
    most: usize,
}

impl Write for Refusing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.writes > 0 {
            self.writes -= 1;
            return self.paper.write(bytes);
        }
        if self.refused.load(Ordering::Relaxed) < self.most {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(self.error.into());
        }
        self.paper.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_terminal_that_is_gone_stops_the_pictures_and_nothing_else() {
    let (paper, refused) = (Paper::default(), Arc::new(AtomicUsize::new(0)));
    // The operating system says EIO of a terminal that was closed.
    let gone = Refusing {
        paper: paper.clone(),
        writes: 2,
        error: ErrorKind::Other,
        refused: refused.clone(),
        most: usize::MAX,
    };
    let screen = Screen::on(Dashboard::new("run", 600), gone, usual).unwrap();
    let mut number = 0;
    wait_until("a refusal", || {
        number += 1;
        screen.see(&step(number));
        refused.load(Ordering::Relaxed) > 0
    });
    screen.evaluating("validation", 1, 2);
    screen.say("a line");
    sleep(Duration::from_millis(300));
    assert_eq!(refused.load(Ordering::Relaxed), 1, "it is not tried again and again");
    drop(screen);
}

#[test]
fn a_terminal_that_cannot_be_taken_over_is_an_error() {
    let (paper, refused) = (Paper::default(), Arc::default());
    let gone = Refusing { paper, writes: 0, error: ErrorKind::Other, refused, most: usize::MAX };
    assert!(Screen::on(Dashboard::new("run", 600), gone, usual).is_err());
}

#[test]
fn a_picture_that_was_lost_in_part_is_followed_by_a_whole_one() {
    let (paper, refused) = (Paper::default(), Arc::new(AtomicUsize::new(0)));
    let behind =
        Refusing { paper: paper.clone(), writes: 2, error: ErrorKind::WouldBlock, refused: refused.clone(), most: 1 };
    let screen = Screen::on(Dashboard::new("run", 600), behind, usual).unwrap();
    let began = Instant::now();
    wait_until("a picture after the one that was lost", || {
        screen.see(&step(1 + began.elapsed().as_millis() as u64 / 10));
        refused.load(Ordering::Relaxed) == 1 && paper.pictures() > 1
    });
    let text = paper.text();
    let after = text.split(BEGIN).nth(2).unwrap();
    assert!(after.contains(CLEAR) && after.contains("messages"), "{after:?}");
    drop(screen);
}

/// A terminal that takes nothing until it is told to.
#[derive(Clone, Default)]
struct Stopped {
    paper: Paper,
    goes_on: Arc<(Mutex<bool>, Condvar)>,
    writes: usize,
}

impl Write for Stopped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes += 1;
        // Taking it over is let through.
        if self.writes > 1 {
            let (goes_on, changed) = &*self.goes_on;
            let _guard = changed.wait_while(goes_on.lock().unwrap(), |goes_on| !*goes_on).unwrap();
        }
        self.paper.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_terminal_that_is_stopped_holds_up_no_step() {
    let stopped = Stopped::default();
    let screen = Screen::on(Dashboard::new("run", 600), stopped.clone(), usual).unwrap();
    sleep(Duration::from_millis(50));
    let began = Instant::now();
    (1..=1000).for_each(|number| screen.see(&step(number)));
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(stopped.paper.pictures(), 0);
    let (goes_on, changed) = &*stopped.goes_on;
    *goes_on.lock().unwrap() = true;
    changed.notify_all();
    wait_until("the newest step", || stopped.paper.text().contains("1000"));
    drop(screen);
    assert!(stopped.paper.text().ends_with(LEAVE));
}

#[test]
#[cfg(unix)]
fn no_screen_is_opened_where_standard_error_is_no_terminal() {
    use std::io::IsTerminal;
    // Under a terminal this would draw on it; tests are run with pipes by most.
    if !io::stderr().is_terminal() {
        let error = Screen::open(Dashboard::new("run", 1)).unwrap_err();
        assert_eq!(error.to_string(), "standard error is not a terminal");
    }
}
