//! How far a run is.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::widgets::{LineGauge, Paragraph};

use super::text::as_fits;
use crate::dashboard::{Dashboard, Phase};
use crate::pace::in_words;

/// Words, and a bar below them where there is a second row.
pub(super) fn draw(dashboard: &Dashboard, area: Rect, frame: &mut Frame<'_>) {
    let words = Rect { height: area.height.min(1), ..area };
    frame.render_widget(Paragraph::new(as_fits(&things(dashboard), usize::from(area.width))), words);
    if area.height < 2 {
        return;
    }
    let ratio = ratio(dashboard);
    let bar = LineGauge::default()
        .ratio(ratio)
        // Rounded down: all is done when it is done.
        .label(format!("{:>3.0} %", (ratio * 100.0).floor()))
        .filled_symbol("█")
        .unfilled_symbol("░")
        .filled_style(Style::new().fg(Color::Green));
    frame.render_widget(bar, Rect { y: area.y + 1, height: 1, ..area });
}

/// The share of steps that are done, 0 to 1.
fn ratio(dashboard: &Dashboard) -> f64 {
    dashboard.step.min(dashboard.total) as f64 / dashboard.total.max(1) as f64
}

/// What is said, in the order of its importance.
fn things(dashboard: &Dashboard) -> Vec<String> {
    let left = || dashboard.left().map(|left| format!("{} left", in_words(left)));
    let doing = match &dashboard.phase {
        Phase::Starting => Some("starting".into()),
        Phase::Training => left(),
        Phase::Evaluating { split, done, total } => Some(format!("{split} {done}/{total} images")),
        Phase::Interrupted => Some("interrupted".into()),
        Phase::EndedEarly => Some("ended early".into()),
        Phase::Finished => Some("finished".into()),
    };
    let mut things = vec![format!("step {}/{}", dashboard.step, dashboard.total)];
    things.extend(doing);
    if dashboard.epoch > 0 {
        things.push(format!("epoch {}", dashboard.epoch));
    }
    if !dashboard.ran.is_zero() {
        things.push(format!("{} so far", in_words(dashboard.ran)));
    }
    things
}
