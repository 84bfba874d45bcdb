//! Whole screens, as they are drawn after events. `KINDLING_WRITE_SCREENS=1` writes those in `screens/` anew.

use std::fs;
use std::path::Path;

use crate::events::{evaluated, iteration, recovered, started, step};
use kindling_dashboard::Dashboard;
use kindling_runs::Event;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// What a terminal of a size shows, a line each row, without spaces at their ends.
fn picture(dashboard: &Dashboard, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| dashboard.draw(frame)).unwrap();
    let cells = terminal.backend().buffer().content();
    let rows = cells.chunks(usize::from(width));
    rows.map(|row| format!("{}\n", row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end())).collect()
}

fn assert_is(name: &str, dashboard: &Dashboard, width: u16, height: u16) {
    let drawn = picture(dashboard, width, height);
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/dashboard/screens/{name}-{width}x{height}.txt"));
    if std::env::var_os("KINDLING_WRITE_SCREENS").is_some_and(|value| value == "1") {
        fs::write(&path, &drawn).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(drawn == wanted, "{} is drawn otherwise now:\n{drawn}", path.display());
}

/// A run of 600 steps in its fifth epoch of six, with everything that happens to runs.
fn run() -> Dashboard {
    let mut dashboard = Dashboard::new("kindling train · runs/first", 600);
    dashboard.see(&started(600));
    for number in 1..=450 {
        dashboard.see(&step(number));
        if number % 100 == 0 {
            dashboard.see(&evaluated(number));
            dashboard.see(&Event::Checkpoint {
                step: number,
                path: format!("checkpoints/step-{number:08}"),
                seconds: 0.2,
            });
        }
        if number == 210 {
            dashboard.see(&recovered(number));
        }
        if number == 300 {
            dashboard.see(&Event::Interrupted { step: number });
            dashboard.see(&Event::Resumed { step: number });
        }
    }
    dashboard.see(&Event::Warned { step: 450, text: "the GPU is shared with another process".into() });
    dashboard
}

#[test]
fn a_run_is_shown_as_far_as_there_is_room() {
    let run = run();
    for (width, height) in [(80, 24), (120, 40), (40, 10), (20, 5), (1, 1)] {
        assert_is("run", &run, width, height);
    }
}

#[test]
fn a_run_that_has_not_begun_says_so() {
    assert_is("new", &Dashboard::new("kindling train", 600), 80, 24);
    let mut dashboard = Dashboard::new("kindling train", 600);
    dashboard.see(&started(600));
    assert_is("started", &dashboard, 80, 24);
}

#[test]
fn an_evaluation_takes_the_place_of_the_time_left() {
    let mut dashboard = run();
    assert!(picture(&dashboard, 80, 24).contains(" left ·"));
    dashboard.evaluating("validation", 64, 300);
    let drawn = picture(&dashboard, 80, 24);
    assert!(drawn.contains("step 450/600 · validation 64/300 images") && !drawn.contains(" left ·"), "{drawn}");
    dashboard.see(&evaluated(450));
    assert!(picture(&dashboard, 80, 24).contains(" left ·"));
}

#[test]
fn a_finished_run_is_full_and_says_how_it_ended() {
    let mut dashboard = run();
    (451..=600).for_each(|number| dashboard.see(&step(number)));
    dashboard.see(&evaluated(600));
    dashboard.see(&Event::Finished { step: 600, seconds: 1200.0 });
    assert_is("finished", &dashboard, 80, 24);
    let mut dashboard = run();
    dashboard.see(&Event::EndedEarly { step: 450, epoch: 4, best_epoch: Some(2) });
    dashboard.see(&Event::Finished { step: 450, seconds: 900.0 });
    assert!(picture(&dashboard, 80, 24).contains("step 450/600 · ended early"));
    let mut dashboard = run();
    dashboard.see(&Event::Interrupted { step: 450 });
    assert!(picture(&dashboard, 80, 24).contains("step 450/600 · interrupted"));
}

#[test]
fn a_run_that_answers_with_a_number_shows_how_far_it_is_off_and_the_least_is_the_best() {
    let off = |number: u64, value: f64| {
        let Event::Evaluated { step, epoch, split, loss, samples, .. } = evaluated(number) else { panic!() };
        let (accuracy, dice, mae, r2) = (None, None, Some(value), Some(0.5));
        Event::Evaluated { step, epoch, split, loss, accuracy, samples, dice, mae, r2 }
    };
    let mut dashboard = Dashboard::new("kindling train · runs/ages", 600);
    dashboard.see(&started(600));
    (1..=200).for_each(|number| dashboard.see(&step(number)));
    [off(100, 7.25), off(200, 9.5)].iter().for_each(|event| dashboard.see(event));
    let seen = picture(&dashboard, 120, 30);
    assert!(seen.contains("validation MAE, best 7.25"), "{seen}");
    assert!(seen.contains("MAE 9.5") && !seen.contains("accuracy"), "{seen}");
}

#[test]
fn a_run_that_segments_shows_dice_where_others_show_accuracy() {
    let segmented = |number: u64, dice: f64| {
        let Event::Evaluated { step, epoch, split, loss, accuracy, samples, .. } = evaluated(number) else { panic!() };
        let (dice, mae, r2) = (Some(dice), None, None);
        Event::Evaluated { step, epoch, split, loss, accuracy, samples, dice, mae, r2 }
    };
    let mut dashboard = Dashboard::new("kindling train · runs/masks", 600);
    dashboard.see(&started(600));
    (1..=200).for_each(|number| dashboard.see(&step(number)));
    [segmented(100, 0.8123), segmented(200, f64::NAN)].iter().for_each(|event| dashboard.see(event));
    let drawn = picture(&dashboard, 100, 30);
    for expected in ["validation Dice, best 0.812", "validation: Dice 0.812 · loss", "validation: Dice NaN"] {
        assert!(drawn.contains(expected), "{expected}\n{drawn}");
    }
    assert!(!drawn.contains("accuracy"), "{drawn}");
    dashboard.see(&Event::Resumed { step: 50 });
    assert!(picture(&dashboard, 100, 30).contains("validation accuracy"), "what came after the step is forgotten");
}

#[test]
fn two_networks_have_a_chart_each() {
    let mut dashboard = Dashboard::new("kindling gan train · runs/gan", 600);
    dashboard.see(&started(600));
    (1..=300).for_each(|number| dashboard.see(&iteration(number)));
    dashboard.see(&Event::Sampled { step: 300, path: "samples/step-00000300.png".into() });
    dashboard.see(&Event::Compared { step: 300, frechet: 41.5, kernel: 0.0123, samples: 2048 });
    assert_is("gan", &dashboard, 80, 24);
}

#[test]
fn a_run_resumed_in_the_middle_without_its_past_counts_from_there_and_promises_no_time_at_once() {
    let mut dashboard = Dashboard::new("kindling train --resume", 600);
    dashboard.see(&Event::Resumed { step: 400 });
    assert!(picture(&dashboard, 80, 24).contains("step 400/600 · starting"));
    for number in 401..=402 {
        dashboard.see(&step(number));
        assert!(!picture(&dashboard, 80, 24).contains(" left"));
    }
    dashboard.see(&step(403));
    assert!(picture(&dashboard, 80, 24).contains("step 403/600 · 6 min 34 s left"), "two seconds a step");
    assert!(!picture(&dashboard, 80, 24).contains("waiting"), "a share of nobody knows what");
}

#[test]
fn a_sitting_on_another_machine_has_a_pace_and_a_speed_of_its_own() {
    let mut dashboard = Dashboard::new("run", 200);
    (1..=100).for_each(|number| dashboard.see(&step(number)));
    assert!(picture(&dashboard, 80, 24).contains("3 min 20 s left"), "two seconds a step");
    dashboard.see(&Event::Resumed { step: 100 });
    for number in 101..=110 {
        let mut slower = step(number);
        if let Event::Step { seconds, images_per_second, .. } = &mut slower {
            (*seconds, *images_per_second) = (200.0 + 10.0 * (number - 100) as f64, 6.4);
        }
        dashboard.see(&slower);
    }
    let drawn = picture(&dashboard, 80, 24);
    assert!(drawn.contains("15 min left") && drawn.contains("images/s 6.4"), "ten seconds a step:\n{drawn}");
}

#[test]
fn what_came_after_the_step_of_a_resume_is_forgotten() {
    let [mut gone_back, mut straight] = [(); 2].map(|()| Dashboard::new("run", 600));
    for dashboard in [&mut gone_back, &mut straight] {
        (1..=100).for_each(|number| dashboard.see(&step(number)));
    }
    for number in 101..=150 {
        let mut other = step(number);
        if let Event::Step { loss, .. } = &mut other {
            *loss = 1000.0;
        }
        gone_back.see(&other);
    }
    for dashboard in [&mut gone_back, &mut straight] {
        dashboard.see(&Event::Resumed { step: 100 });
    }
    // The chart's two axes tell what is drawn.
    let charts =
        |dashboard: &Dashboard| picture(dashboard, 80, 24).lines().skip(3).take(12).collect::<Vec<_>>().join("\n");
    assert_eq!(charts(&gone_back), charts(&straight));
}

#[test]
fn numbers_that_are_not_finite_are_told_and_spoil_nothing() {
    for strange in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, -0.0, 5e-324] {
        let mut dashboard = run();
        let mut gan = Dashboard::new("gan", 600);
        for number in 451..=460 {
            dashboard.see(&Event::Step {
                step: number,
                epoch: 5,
                loss: strange,
                lr: strange,
                images_per_second: strange,
                micro_batch: 4,
                peak_memory_bytes: u64::MAX,
                gradient_norm: strange,
                waiting_seconds: strange,
                seconds: strange,
                together: None,
            });
            dashboard.see(&Event::Evaluated {
                step: number,
                epoch: 5,
                split: "validation".into(),
                loss: strange,
                accuracy: Some(strange),
                samples: 3,
                dice: Some(strange),
                mae: Some(strange),
                r2: Some(strange),
            });
            dashboard.see(&Event::Skipped { step: number, loss_scale: strange });
            gan.see(&Event::Iteration {
                step: number,
                epoch: 1,
                discriminator_loss: strange,
                generator_loss: strange,
                discriminator_norm: strange,
                generator_norm: strange,
                real_believed: strange,
                made_believed: strange,
                spread: strange,
                images_per_second: strange,
                micro_batch: 4,
                peak_memory_bytes: 0,
                seconds: strange,
            });
        }
        for (width, height) in [(80, 24), (120, 40), (20, 5)] {
            let drawn = picture(&dashboard, width, height);
            assert!(drawn.contains("460/600"), "{drawn}");
            picture(&gan, width, height);
        }
        if !strange.is_finite() {
            let drawn = picture(&dashboard, 80, 24);
            assert!(drawn.contains(&format!("loss {strange}")), "{drawn}");
            assert!(drawn.contains("32.0") && drawn.contains("15 min so far"), "speed and clock stay: {drawn}");
        }
    }
}

#[test]
fn counts_of_any_size_can_be_drawn() {
    let mut dashboard = Dashboard::new("run", 0);
    dashboard.see(&step(7));
    dashboard.evaluating("validation", usize::MAX, 0);
    picture(&dashboard, 80, 24);
    let mut dashboard = Dashboard::new("run", u64::MAX);
    dashboard.see(&Event::Resumed { step: u64::MAX });
    dashboard.see(&Event::Extended { step: 0, steps_total: 1, lr: 0.1 });
    assert!(picture(&dashboard, 80, 24).contains("100 %"));
}

#[test]
fn every_size_of_a_terminal_can_be_drawn_on() {
    let mut dashboard = run();
    dashboard.evaluating("validation", 64, 300);
    for width in (0..=130).step_by(3).chain([1000]) {
        for height in (0..=42).chain([500]) {
            let drawn = picture(&dashboard, width.max(1), height.max(1));
            assert!(width < 12 || drawn.contains("step 450/600"), "{width}x{height}:\n{drawn}");
        }
    }
}

#[test]
fn a_million_steps_are_drawn_from_the_first_to_the_last() {
    let mut dashboard = Dashboard::new("run", 1_000_000);
    dashboard.see(&started(1_000_000));
    for number in 1..=1_000_000 {
        dashboard.see(&step(number));
        if number % 100 == 0 {
            dashboard.see(&evaluated(number));
        }
    }
    assert_is("million", &dashboard, 80, 24);
    // What is kept, as it is written out, is that of a short run.
    assert!(format!("{dashboard:?}").len() < 2_000_000, "{}", format!("{dashboard:?}").len());
}

#[test]
fn texts_from_outside_move_no_cursor() {
    let evil = "a\x1b[2J\x07\r\nb\u{202e}";
    let mut dashboard = Dashboard::new(evil, 600);
    let mut start = started(600);
    if let Event::Started { model, data, device, .. } = &mut start {
        for text in [model, data, device] {
            *text = evil.into();
        }
    }
    dashboard.see(&start);
    dashboard.see(&Event::Warned { step: 1, text: evil.into() });
    dashboard.say(evil);
    dashboard.evaluating(evil, 1, 2);
    let drawn = picture(&dashboard, 80, 24);
    assert!(drawn.chars().all(|char| char == '\n' || !char.is_control()), "{drawn:?}");
}
