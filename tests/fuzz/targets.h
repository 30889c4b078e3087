// All fuzz targets: functions that take any bytes and return, or abort the process on a finding. One thread.
// A line "---", written " --- " below, separates sections of an input.
#ifndef TETHYS_TESTS_FUZZ_TARGETS_H_
#define TETHYS_TESTS_FUZZ_TARGETS_H_

#include "absl/strings/string_view.h"

namespace tethys::fuzz {

// Input from the network.
void FuzzFrame(absl::string_view input);           // The header before every payload of the data plane.
void FuzzFrameLink(absl::string_view input);       // A peer's frames on a connection of the ring.
void FuzzRingCaller(absl::string_view input);      // An unauthenticated caller while a ring is formed.
void FuzzParameterStore(absl::string_view input);  // Workers' frames to a server.
void FuzzShardCopy(absl::string_view input);       // A server's frames to the server that has its copy.
void FuzzChief(absl::string_view input);           // Messages of tasks to the chief.
void FuzzJobPlan(absl::string_view input);         // The chief's plan for tasks.
// Content-Range --- Location --- JSON of WebHDFS --- list of S3, from servers of data.
void FuzzRemoteAnswers(absl::string_view input);

// Input from users, schedulers, launchers and hosts.
void FuzzJob(absl::string_view input);          // A job file --- overrides, a line each.
void FuzzHostFile(absl::string_view input);     // A host file: the machines of a job.
void FuzzScheduler(absl::string_view input);    // TF_CONFIG --- NAME=VALUE of Slurm's variables, a line each.
void FuzzSecret(absl::string_view input);       // The line with the secret that a launcher gives a process.
void FuzzAgent(absl::string_view input);        // A launcher's orders to the agent on a host.
void FuzzHostAnswers(absl::string_view input);  // A host's lines to the launcher.
void FuzzProgress(absl::string_view input);     // A progress line of the chief for its launcher.
// A request to the live view --- events of a run, a line each.
void FuzzHttp(absl::string_view input);
void FuzzProcText(absl::string_view input);  // Files in /proc from which resources are sampled.
// The file of secrets for data on other machines --- a URL.
void FuzzRemoteSecrets(absl::string_view input);

// Input from files.
void FuzzIdx(absl::string_view input);           // Images and labels in IDX format, plain and gzipped.
void FuzzCifar(absl::string_view input);         // A file of CIFAR-10 or CIFAR-100.
void FuzzCsv(absl::string_view input);           // Samples as lines of text.
void FuzzNpy(absl::string_view input);           // A NumPy array.
void FuzzPicture(absl::string_view input);       // A PNG or JPEG file.
void FuzzTfrecord(absl::string_view input);      // A TFRecord file of tf.Example messages.
void FuzzCache(absl::string_view input);         // The size of a cache file, then its header.
void FuzzZip(absl::string_view input);           // A .npz archive.
void FuzzSafetensors(absl::string_view input);   // Tensors in safetensors format, also from other tools.
void FuzzWeights(absl::string_view input);       // A file of weights to be imported.
void FuzzManifest(absl::string_view input);      // A checkpoint's manifest, without its checksum.
void FuzzCheckpoint(absl::string_view input);    // A manifest --- parameters --- slots.
void FuzzJournal(absl::string_view input);       // RUN_DIR/journal.
void FuzzRunDirectory(absl::string_view input);  // The files that reports are made from.
// The value of --batches --- a question to a meter --- a meter's answer --- sweep.json.
void FuzzSweep(absl::string_view input);
void FuzzStudy(absl::string_view input);  // A study file --- steps.csv.

}  // namespace tethys::fuzz

#endif  // TETHYS_TESTS_FUZZ_TARGETS_H_
