//! A terminal that shows a dashboard.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use kindling_runs::Event;
use ratatui::Terminal;
use ratatui::layout::Size;
use terminal_size::{Height, Width, terminal_size_of};

use crate::backend::{TerminalBackend, enter, leave};
use crate::dashboard::Dashboard;
use crate::open;
use crate::outlet::Outlet;
use crate::painter::{Shared, paint};

/// A terminal that shows a dashboard until this is dropped, by a panic as well; then it is as it was.
///
/// A thread of its own draws, at most ten times a second. Events are taken in without waiting for it. A terminal that is gone is
/// drawn on no more, and nothing else comes of it.
#[derive(Debug)]
pub struct Screen {
    shared: Arc<Shared>,
    outlet: Outlet,
    painter: Option<JoinHandle<()>>,
}

impl Screen {
    /// Takes over the terminal that standard error is.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] if standard error is no terminal; whatever is said where it cannot be written or no thread can be
    /// had.
    pub fn open(dashboard: Dashboard) -> io::Result<Self> {
        if !io::stderr().is_terminal() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "standard error is not a terminal"));
        }
        let size = || terminal_size_of(io::stderr()).map(|(Width(width), Height(height))| Size { width, height });
        let screen = Self::on(dashboard, io::stderr(), size)?;
        open::opened(&screen.shared, &screen.outlet);
        Ok(screen)
    }

    /// Takes over any terminal. `size` is asked before each picture; where it does not know, 80 columns and 24 rows are drawn.
    ///
    /// # Errors
    /// Whatever is said where it cannot be written or no thread can be had.
    pub fn on(
        dashboard: Dashboard,
        terminal: impl Write + Send + 'static,
        size: impl Fn() -> Option<Size> + Send + 'static,
    ) -> io::Result<Self> {
        let outlet = Outlet::new(terminal);
        outlet.write(&enter()?)?;
        // From here on the terminal is given back, whatever goes wrong.
        let mut screen = Self { shared: Arc::new(Shared::new(dashboard)), outlet, painter: None };
        let canvas = Terminal::new(TerminalBackend::new(screen.outlet.clone(), Box::new(size)))?;
        let shared = Arc::clone(&screen.shared);
        let painter = thread::Builder::new().name("dashboard".into());
        screen.painter = Some(painter.spawn(move || paint(&shared, canvas))?);
        Ok(screen)
    }

    /// See [`Dashboard::see`].
    pub fn see(&self, event: &Event) {
        self.shared.change(|dashboard| dashboard.see(event));
    }

    /// See [`Dashboard::evaluating`].
    pub fn evaluating(&self, split: &str, done: usize, total: usize) {
        self.shared.change(|dashboard| dashboard.evaluating(split, done, total));
    }

    /// See [`Dashboard::say`].
    pub fn say(&self, line: &str) {
        self.shared.change(|dashboard| dashboard.say(line));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        open::closed(&self.shared);
        self.shared.close();
        if let Some(painter) = self.painter.take() {
            // One that panicked draws no more, which is all that is wanted here.
            let _ = painter.join();
        }
        self.outlet.close(&leave());
    }
}
