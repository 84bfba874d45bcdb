//! A network for each of several graphs that grow at the same time.
//!
//! Burn keeps everything that shares a parameter in one graph, behind one lock. Networks with the same weights, but parameters of their own
//! without a history, have graphs of their own.

use burn::module::Module;

use crate::teams;

/// What `work` makes of a network and each of some parts, in their order: of one part on this thread, of several at once, each on a team of
/// threads and with a network of its own, whose graph ends with it.
///
/// # Panics
/// If `work` does, once all are done.
pub(crate) fn at_once<M: Module + Sync, T: Copy + Send, R: Send>(
    model: &M,
    parts: &[T],
    work: &(impl Fn(&M, T) -> R + Sync),
) -> Vec<R> {
    if let [part] = parts {
        return vec![work(model, *part)];
    }
    let plain = model.valid();
    let own = parts.iter().map(|part| (plain.clone(), *part)).collect();
    teams::at_once(own, |(plain, part): (M, T)| work(&plain.train(), part))
}
