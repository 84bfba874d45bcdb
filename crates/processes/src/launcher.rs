//! Who started this process, as the environment says it.
//!
//! `mpirun` and `srun` tell each process how many there are through variables of their own. Without them a process is alone, and no
//! library is looked for.

use std::fmt;

/// What starts several processes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// Hydra: `mpirun` of MPICH, Intel MPI and MVAPICH; or `srun --mpi=pmi2`.
    Pmi,
    /// A launcher that speaks PMIx, such as `prterun`.
    Pmix,
    /// `srun` of Slurm.
    Slurm,
}

impl Launcher {
    /// What to do where the library does not see what this launcher started, as the end of a sentence.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Slurm => {
                "try `srun --mpi=pmix` for Open MPI or `srun --mpi=pmi2` for MPICH (`srun --mpi=list` says what there is), or name \
                 another library with --mpi-library"
            }
            _ => "use the mpirun of the same MPI, or name its library with --mpi-library",
        }
    }
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenMpi => "Open MPI's mpirun",
            Self::Pmi => "an MPICH-like mpirun",
            Self::Pmix => "a PMIx launcher",
            Self::Slurm => "srun",
        })
    }
}

/// What the launcher says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Who started this process.
    pub launcher: Launcher,
    /// The number of processes, where it is told.
    pub size: Option<usize>,
    /// Which of them this is, where it is told.
    pub rank: Option<usize>,
}

/// Where Slurm's numbers of special steps begin: the batch script, the interactive step and others, which are one process each.
const FIRST_SPECIAL_STEP: u32 = 0xffff_fff0;

/// Reads the environment of this process; `None` if no launcher started it.
pub fn launched() -> Option<Launched> {
    from(|name| std::env::var(name).ok())
}

/// The same from any variables. An `mpirun` inside a Slurm job starts the processes, so its variables come first.
fn from(variable: impl Fn(&str) -> Option<String>) -> Option<Launched> {
    let number = |name| variable(name).and_then(|value| value.trim().parse::<usize>().ok());
    let told = |launcher, size, rank| Some(Launched { launcher, size, rank });
    if let Some(size) = number("OMPI_COMM_WORLD_SIZE") {
        return told(Launcher::OpenMpi, Some(size), number("OMPI_COMM_WORLD_RANK"));
    }
    let step = number("SLURM_STEP_ID").or_else(|| number("SLURM_STEPID"));
    let is_step = step.is_some_and(|step| u32::try_from(step).is_ok_and(|step| step < FIRST_SPECIAL_STEP));
    if is_step && variable("SLURM_PROCID").is_some() && variable("MPI_LOCALNRANKS").is_none() {
        // Hydra starts its own helpers through srun as well, and sets MPI_LOCALNRANKS for the processes that these start.
        let size = number("SLURM_STEP_NUM_TASKS").or_else(|| number("SLURM_NTASKS")).or_else(|| number("PMI_SIZE"));
        return told(Launcher::Slurm, size, number("SLURM_PROCID"));
    }
    if variable("PMI_SIZE").is_some() || variable("MPI_LOCALNRANKS").is_some() {
        return told(Launcher::Pmi, number("PMI_SIZE"), number("PMI_RANK"));
    }
    variable("PMIX_RANK").and_then(|_| told(Launcher::Pmix, None, number("PMIX_RANK")))
}

/// Whether what started this process speaks MPICH's protocol rather than Open MPI's, so that MPICH's names are tried first.
pub(crate) fn prefers_mpich() -> bool {
    let is_set = |name| std::env::var_os(name).is_some();
    !is_set("OMPI_COMM_WORLD_SIZE") && !is_set("PMIX_RANK") && (is_set("PMI_RANK") || is_set("MPI_LOCALNRANKS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Option<Launched> {
        from(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn launchers_are_told_apart_by_their_variables() {
        let told = |launcher, size, rank| Some(Launched { launcher, size, rank });
        for (variables, expected) in [
            (vec![], None),
            (
                vec![("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "3"), ("PMIX_RANK", "0")],
                told(Launcher::OpenMpi, Some(4), Some(3)),
            ),
            (
                vec![("PMI_SIZE", "2"), ("PMI_RANK", "1"), ("MPI_LOCALNRANKS", "2")],
                told(Launcher::Pmi, Some(2), Some(1)),
            ),
            (vec![("PMIX_RANK", "0")], told(Launcher::Pmix, None, Some(0))),
            (
                vec![("SLURM_NTASKS", "4"), ("SLURM_PROCID", "1"), ("SLURM_STEP_ID", "0")],
                told(Launcher::Slurm, Some(4), Some(1)),
            ),
            // `srun -n 2` in an allocation of 8 tasks.
            (
                vec![
                    ("SLURM_NTASKS", "8"),
                    ("SLURM_STEP_NUM_TASKS", "2"),
                    ("SLURM_PROCID", "1"),
                    ("SLURM_STEP_ID", "3"),
                ],
                told(Launcher::Slurm, Some(2), Some(1)),
            ),
            (
                vec![
                    ("SLURM_NTASKS", "8"),
                    ("SLURM_PROCID", "0"),
                    ("SLURM_STEP_ID", "0"),
                    ("OMPI_COMM_WORLD_SIZE", "3"),
                ],
                told(Launcher::OpenMpi, Some(3), None),
            ),
            (
                vec![("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "0"), ("PMI_SIZE", "3"), ("MPI_LOCALNRANKS", "3")],
                told(Launcher::Pmi, Some(3), None),
            ),
        ] {
            assert_eq!(with(&variables), expected, "{variables:?}");
        }
    }

    #[test]
    fn a_script_of_sbatch_and_a_shell_of_salloc_are_one_process() {
        for variables in [
            vec![("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "7")],
            vec![("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")],
            vec![("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "4294967291")],
            vec![("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "4294967290")],
            vec![("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "batch")],
        ] {
            assert_eq!(with(&variables), None, "{variables:?}");
        }
    }
}
