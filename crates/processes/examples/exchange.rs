//! Measures the sum of vectors over ranks beside MPI's own, and prints one line of JSON:
//!
//!     mpirun -n 4 --oversubscribe target/release/examples/exchange 14 100
//!
//! for vectors of 14 and 100 MB, 16 leaves and as many ranks as there are. MPI's own sum is measured with Open MPI only.

use std::error::Error;
use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use kindling_processes::Group;
use kindling_processes::mpi::Flavour;
use kindling_processes::reduce::sum;
use kindling_processes::tree::{Node, cover};

const LEAVES: usize = 16;
/// Rounds of each kind, in turn, after one that is not counted.
const ROUNDS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let group = Group::join(None)?;
    let mut rows = Vec::new();
    for megabytes in std::env::args().skip(1) {
        rows.push(measure(&group, megabytes.parse()?)?);
    }
    if group.is_first() {
        let library = group.library().map_or("none".to_owned(), |library| library.version.clone());
        let told = serde_json::json!({ "ranks": group.size(), "leaves": LEAVES, "library": library, "rows": rows });
        println!("{told}");
    }
    Ok(group.finish()?)
}

fn measure(group: &Group, megabytes: usize) -> Result<serde_json::Value, Box<dyn Error>> {
    let length = megabytes * 1_000_000 / size_of::<f32>();
    // Sums of whole numbers are exact, so that both kinds have the same.
    let nodes: Vec<Node<Vec<f32>>> = cover(group.share(LEAVES))
        .into_iter()
        .map(|place| place.map(|()| (0..length).map(|place| (place % 1000) as f32).collect()))
        .collect();
    let own = group.library().is_some_and(|library| library.flavour == Flavour::OpenMpi);
    let (mut ours, mut theirs, mut sent) = (Vec::new(), Vec::new(), 0);
    let mut total = vec![0.0; length];
    for round in 0..=ROUNDS {
        group.meet("start of a round")?;
        let traffic = sum(group, "sum", LEAVES, &nodes, &mut total)?;
        sent = traffic.sent;
        let all: Vec<u64> = group.agree("times", &(traffic.time.as_micros() as u64))?;
        if round > 0 {
            ours.push(all.into_iter().max().unwrap_or_default());
        }
        if own {
            group.meet("start of a round")?;
            let time = all_reduce(&nodes[0].sum, &mut total)?;
            let all: Vec<u64> = group.agree("times", &(time.as_micros() as u64))?;
            if round > 0 {
                theirs.push(all.into_iter().max().unwrap_or_default());
            }
        }
    }
    Ok(serde_json::json!({
        "vector_bytes": length * size_of::<f32>(),
        "nodes_of_rank_0": nodes.len(),
        "bytes_sent_by_rank_0": sent,
        "tree_ms": milliseconds(ours),
        "mpi_allreduce_ms": (!theirs.is_empty()).then(|| milliseconds(theirs)),
    }))
}

/// Of times of the slowest rank, in microseconds.
fn milliseconds(mut times: Vec<u64>) -> serde_json::Value {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 4] as f64 / 1000.0;
    serde_json::json!({ "least": at(0), "q1": at(1), "median": at(2), "q3": at(3), "rounds": times.len() })
}

/// Open MPI's own sum of one vector a rank.
fn all_reduce(mine: &[f32], total: &mut [f32]) -> Result<Duration, Box<dyn Error>> {
    type AllReduce =
        unsafe extern "C" fn(*const c_void, *mut c_void, c_int, *const c_void, *const c_void, *const c_void) -> c_int;
    let name = std::env::var_os("KINDLING_MPI").unwrap_or_else(|| "libmpi.so.40".into());
    #[allow(unsafe_code)]
    // SAFETY: the library is open and initialised already; the names and the type are Open MPI's; both slices have `count` floats.
    let (code, time) = unsafe {
        let library = libloading::Library::new(name)?;
        let handle = |name: &[u8]| Ok::<_, libloading::Error>(library.get::<*const c_void>(name)?.into_raw());
        let all_reduce = library.get::<AllReduce>(b"MPI_Allreduce\0")?;
        let float = handle(b"ompi_mpi_float\0")?.as_raw_ptr();
        let add = handle(b"ompi_mpi_op_sum\0")?.as_raw_ptr();
        let world = handle(b"ompi_mpi_comm_world\0")?.as_raw_ptr();
        let count = c_int::try_from(mine.len().min(total.len()))?;
        let began = Instant::now();
        (all_reduce(mine.as_ptr().cast(), total.as_mut_ptr().cast(), count, float, add, world), began.elapsed())
    };
    if code == 0 { Ok(time) } else { Err(format!("MPI_Allreduce returned {code}").into()) }
}
