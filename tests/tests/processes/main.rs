//! Several processes that train one model under a launcher: the bits of one process, whatever happens to one of them.

mod disasters;
mod gpus;
mod hosts;
mod masks;
mod refusals;
mod together;

use std::process::ExitCode;

use kindling_tests::{Optional, Suite, Test, cuda_on_cpu, private_mounts};
use together::{has_program, open_mpi};

fn main() -> ExitCode {
    let mut suite = Suite::new();
    // Each has more processes than there are cores.
    suite.one_at_a_time();
    let mpi = Optional {
        missing: open_mpi().is_none().then(|| "Open MPI (apt-get install openmpi-bin)".to_string()),
        required_by: "KINDLING_REQUIRE_MPI",
    };
    let test = |(name, run): &(&str, fn())| Test::new(*name, *run);
    let tests = [together::TESTS, masks::TESTS, disasters::TESTS, refusals::TESTS];
    suite.add(&mpi, tests.concat().iter().map(test).collect());
    suite.add_nightly(
        &mpi,
        together::LONG_TESTS.iter().chain(disasters::LONG_TESTS).map(test).collect(),
        "half an hour",
    );
    let disk = Optional {
        missing: mpi.missing.clone().or_else(|| {
            let why = "a small file system to fill: run as root, or allow user namespaces (`unshare -rm`)";
            private_mounts().is_none().then(|| why.to_string())
        }),
        required_by: "KINDLING_REQUIRE_TMPFS",
    };
    suite.add(&disk, disasters::TESTS_OF_DISKS.iter().chain(refusals::TESTS_OF_MOUNTS).map(test).collect());
    let both = Optional {
        missing: mpi.missing.clone().or_else(|| {
            let is_there = has_program("mpirun.mpich");
            (!is_there).then(|| "MPICH beside Open MPI (apt-get install mpich)".to_string())
        }),
        required_by: mpi.required_by,
    };
    suite.add(&both, refusals::TESTS_OF_TWO_MPIS.iter().map(test).collect());
    let cuda = cuda_on_cpu();
    let cuda = Optional { missing: mpi.missing.clone().or(cuda.missing), ..cuda };
    suite.add(&cuda, gpus::TESTS.iter().map(test).collect());
    let network = Optional {
        missing: mpi.missing.or_else(|| {
            (!hosts::can_be_made()).then(|| "two hosts of network namespaces: run as root, with iproute2".to_string())
        }),
        required_by: "KINDLING_REQUIRE_NETWORKS",
    };
    suite.add(&network, hosts::TESTS.iter().map(test).collect());
    suite.run()
}
