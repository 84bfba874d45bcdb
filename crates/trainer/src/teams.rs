//! Threads of the CPU in teams, each of which computes something of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kindling_processes::tree::share;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// The teams that were made, by how many they are: steps of a run need the same again.
static KEPT: Mutex<BTreeMap<usize, Arc<Teams>>> = Mutex::new(BTreeMap::new());

/// As many threads as compute otherwise, divided as evenly as possible.
struct Teams(Vec<ThreadPool>);

impl Teams {
    /// So many teams, of at least one thread each. `None` if the system gives no threads.
    fn of(count: usize) -> Option<Arc<Self>> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(teams) = kept.get(&count) {
            return Some(teams.clone());
        }
        let threads = rayon::current_num_threads();
        let of_team = |team: usize| share(threads, team, count).len().max(1);
        let pools = (0..count).map(|team| ThreadPoolBuilder::new().num_threads(of_team(team)).build());
        let teams = Arc::new(Self(pools.collect::<Result<_, _>>().ok()?));
        kept.insert(count, teams.clone());
        Some(teams)
    }
}

/// Something that a team does.
type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// What `work` makes of each item, in their order: all of them at once, each on a team of its own, or one after the other if there is but one
/// or the system gives no threads.
///
/// # Panics
/// If `work` does, once all are done.
pub(crate) fn at_once<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let work = &work;
    let tasks = items
        .into_iter()
        .zip(&mut results)
        .map(|(item, result)| -> Task<'_> { Box::new(move || *result = Some(work(item))) });
    all_at_once(tasks.collect());
    results.into_iter().flatten().collect()
}

/// Does all tasks at once, or one after the other. Compiled once, whatever they are.
fn all_at_once(tasks: Vec<Task<'_>>) {
    let teams = if tasks.len() > 1 { Teams::of(tasks.len()) } else { None };
    match teams {
        Some(teams) => begin(tasks.into_iter().zip(&teams.0)),
        None => tasks.into_iter().for_each(|task| task()),
    }
}

/// Begins the first task and then the others, and waits for all of them.
fn begin<'a>(mut tasks: std::iter::Zip<std::vec::IntoIter<Task<'a>>, std::slice::Iter<'a, ThreadPool>>) {
    if let Some((task, team)) = tasks.next() {
        team.in_place_scope(|scope| {
            scope.spawn(|_| task());
            begin(tasks);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn items_are_worked_on_at_once_and_keep_their_order() {
        let together = Barrier::new(3);
        let found = at_once(vec![5, 6, 7], |item| {
            // No item gets past this place before all are here.
            together.wait();
            (item * 2, std::thread::current().id())
        });
        assert_eq!(found.iter().map(|(item, _)| *item).collect::<Vec<_>>(), [10, 12, 14]);
        let threads: BTreeSet<_> = found.iter().map(|(_, thread)| format!("{thread:?}")).collect();
        assert_eq!(threads.len(), 3);
    }

    #[test]
    fn a_panic_arrives_when_the_others_are_done() {
        let done = Mutex::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            at_once(vec![0, 1, 2], |item| {
                assert!(item != 1, "out of memory");
                *done.lock().expect("nobody panics with the lock") += 1;
            })
        }));
        let panic = outcome.expect_err("one of them fails");
        assert_eq!(kindling_memory::panic_message(panic.as_ref()), "out of memory");
        assert_eq!(*done.lock().expect("nobody panics with the lock"), 2);
        assert_eq!(at_once(vec![3], |item| item + 1), [4], "and the teams are there for the next");
    }
}
