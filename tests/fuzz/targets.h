// Every fuzz target: a function of any bytes that returns, or aborts the process on a finding. One thread.
#ifndef TETHYS_TESTS_FUZZ_TARGETS_H_
#define TETHYS_TESTS_FUZZ_TARGETS_H_

#include "absl/strings/string_view.h"

namespace tethys::fuzz {

// Input from the network.
void FuzzFrame(absl::string_view input);           // The header before every payload of the data plane.
void FuzzFrameLink(absl::string_view input);       // A connection of the ring with an authenticated peer.
void FuzzRingCaller(absl::string_view input);      // A stranger at a worker that forms its ring.
void FuzzParameterStore(absl::string_view input);  // Workers' frames to a server.
void FuzzChief(absl::string_view input);           // Messages of tasks to the chief.
void FuzzJobPlan(absl::string_view input);         // The chief's plan for tasks.

// Input from users, schedulers, launchers and hosts.
void FuzzJob(absl::string_view input);          // A job file --- overrides, a line each.
void FuzzHostFile(absl::string_view input);     // The machines of a job.
void FuzzScheduler(absl::string_view input);    // TF_CONFIG --- NAME=VALUE of Slurm's variables, a line each.
void FuzzSecret(absl::string_view input);       // A launcher's first line to a process.
void FuzzAgent(absl::string_view input);        // A launcher's orders to an agent.
void FuzzHostAnswers(absl::string_view input);  // A host's lines to the launcher.
void FuzzProgress(absl::string_view input);     // The chief's line to its launcher.
void FuzzProcText(absl::string_view input);     // The kernel's files for samples of resources.

// Input from files.
void FuzzIdx(absl::string_view input);           // Samples and labels, plain and gzipped.
void FuzzSafetensors(absl::string_view input);   // Tensors, ours and others'.
void FuzzManifest(absl::string_view input);      // A checkpoint's manifest, without its checksum.
void FuzzCheckpoint(absl::string_view input);    // A manifest --- parameters --- slots.
void FuzzJournal(absl::string_view input);       // RUN_DIR/journal.
void FuzzRunDirectory(absl::string_view input);  // The files that reports are made from.

}  // namespace tethys::fuzz

#endif  // TETHYS_TESTS_FUZZ_TARGETS_H_
