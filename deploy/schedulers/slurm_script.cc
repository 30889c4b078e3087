#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "deploy/schedulers/manifest.h"
#include "deploy/schedulers/variables.h"

namespace tethys {

std::string SlurmScript(const ManifestRequest& request) {
  return absl::StrReplaceAll(
      R"(#!/bin/bash
# A job of Tethys: @PROCESSES@. Written by `tethys manifest`, for `sbatch`.
#SBATCH --job-name=@NAME@
#SBATCH --ntasks=@TASKS@
@GPUS@#SBATCH --requeue             # After the loss of a node the script runs again, and the run goes on.
#SBATCH --open-mode=append
set -euo pipefail
run=runs/@NAME@-$SLURM_JOB_ID  # On a file system that all nodes share.
mkdir -p runs
cat > "$run.textproto" <<'END_OF_JOB'
@JOB@END_OF_JOB
TETHYS_TOKEN=$(tethys token "slurm-$SLURM_JOB_ID")
export TETHYS_TOKEN
srun --export=ALL tethys train "$run.textproto" --from=slurm --run_dir="$run" --resume
)",
      {{"@PROCESSES@", ProcessesText(/*chief=*/true, request.shape.servers, request.shape.workers)},
       {"@NAME@", request.name},
       {"@TASKS@", absl::StrCat(1 + request.shape.servers + request.shape.workers)},
       {"@GPUS@", request.gpu ? "#SBATCH --gpus-per-task=1\n" : ""},
       {"@JOB@", request.job_text}});
}

}  // namespace tethys
