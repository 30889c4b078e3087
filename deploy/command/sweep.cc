#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/command/verbs.h"
#include "deploy/flags/data_secrets.h"
#include "deploy/hosts/cluster_hosts.h"
#include "deploy/launcher/run_directory.h"
#include "deploy/process/own_program.h"
#include "deploy/process/scratch_directory.h"
#include "deploy/process/signal_source.h"
#include "deploy/run/job_places.h"
#include "deploy/run/role_process.h"
#include "deploy/sweep/batch_range.h"
#include "deploy/sweep/sweep_machine.h"
#include "deploy/sweep/sweep_report.h"
#include "deploy/text.h"
#include "runtime/base/build_id.h"
#include "runtime/cluster/host_file.h"
#include "runtime/job/job_file.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

constexpr int kTextWidth = 100;  // The width, in characters, at which sentences are wrapped.

// A machine on which to measure: a host of the host file, or this machine.
struct Machine {
  HostEntry host;  // A host of the host file; empty for this machine.
  Place place;
};

// The first host of each kind and device, or all hosts. Hosts without a kind count as one kind.
std::vector<HostEntry> ChooseHosts(const std::vector<HostEntry>& entries, bool every_host) {
  std::set<std::string> seen;
  std::vector<HostEntry> chosen;
  for (const HostEntry& entry : entries) {
    const std::string device = entry.device.has_value() ? DeviceKindText(*entry.device) : "";
    if (every_host || seen.insert(absl::StrCat(entry.kind, "\n", device)).second) chosen.push_back(entry);
  }
  return chosen;
}

absl::StatusOr<std::vector<Machine>> FindMachines(const Flags& flags, const std::string& scratch) {
  if (!flags.Has("hostfile")) {
    for (const char* flag : {"ssh_config", "bundle", "every_host"}) {
      if (!flags.Has(flag)) continue;
      return absl::InvalidArgumentError(absl::StrCat("--", flag, " has an effect only with --hostfile"));
    }
    return std::vector<Machine>{{.host = {}, .place = {.program = OwnProgram()}}};
  }
  TETHYS_ASSIGN_OR_RETURN(const std::vector<HostEntry> entries, ReadHostFile(flags.Get("hostfile")));
  std::vector<Machine> machines;
  std::vector<ClusterHost> hosts;
  for (const HostEntry& entry : ChooseHosts(entries, flags.Has("every_host"))) {
    machines.push_back({.host = entry, .place = {}});
    hosts.push_back(ClusterHostOf(entry, flags.Get("hostfile")));
  }
  TETHYS_ASSIGN_OR_RETURN(const std::vector<Place> places,
                          PrepareHosts(hosts, {.ssh_config = flags.Get("ssh_config"),
                                               .bundle = flags.Get("bundle"),
                                               .scratch = scratch,
                                               .note = PrintLine}));
  for (size_t i = 0; i < machines.size(); ++i) machines[i].place = places[i];
  return machines;
}

// Shows the progress of the sweep in one line of the terminal.
void ShowStatus(const std::string& text) {
  std::printf("\r%s\033[K", Truncate(text, 78).c_str());
  std::fflush(stdout);
}
void ClearStatus() {
  if (isatty(STDOUT_FILENO) != 0) std::printf("\r\033[K");
}

absl::StatusOr<SweepRequest> ReadRequest(const Flags& flags) {
  SweepRequest request;
  TETHYS_ASSIGN_OR_RETURN(request.batches, ParseBatches(flags.Get("batches", "1-70")));
  TETHYS_ASSIGN_OR_RETURN(const int64_t seconds, flags.GetInteger("seconds", 60, 1, 1'000'000));
  TETHYS_ASSIGN_OR_RETURN(const int64_t rounds, flags.GetInteger("rounds", 15, 1, 1000));
  TETHYS_ASSIGN_OR_RETURN(const int64_t mebibytes, flags.GetInteger("memory", 0, 0, int64_t{1} << 40));
  request.seconds = static_cast<double>(seconds);
  request.rounds = static_cast<int>(rounds);
  request.memory_bytes = mebibytes << 20;
  request.cuda_library_path = flags.GetAll("cuda_library_path");
  const std::string& file = flags.arguments()[0];
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, LoadJob(file, flags.GetAll("set")));
  absl::StatusOr<proto::JobPlan> plan = PlanJob(job);
  if (!plan.ok()) return WithPlace(plan.status(), file, flags.GetAll("set"));
  request.plan = *std::move(plan);
  if (isatty(STDOUT_FILENO) != 0) request.status = ShowStatus;
  return request;
}

std::string NameOf(const Machine& machine) {
  return machine.host.host.empty() ? "this machine" : absl::StrCat("host ", machine.host.host);
}

absl::Status SweepAll(const std::vector<Machine>& machines, SweepRequest request, const std::string& path) {
  const proto::Device::Kind device_of_job = request.plan.job().device().kind();
  proto::Sweep sweep;
  sweep.set_job(request.plan.job().name());
  sweep.set_build_id(BuildId());
  sweep.set_made(absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone()));
  sweep.set_model_signature(request.plan.model_signature());
  for (const Machine& machine : machines) {
    request.plan.mutable_job()->mutable_device()->set_kind(machine.host.device.value_or(device_of_job));
    absl::StatusOr<proto::SweepCurve> curve = SweepMachine(machine.place, request);
    ClearStatus();
    if (!curve.ok()) return Annotate(curve.status(), NameOf(machine));
    curve->set_host(machine.host.host);
    curve->set_kind(machine.host.kind);
    const proto::SweepAnswer answer = AnswerOf(*curve);
    std::printf("\n%s\n", answer.heading().c_str());
    for (const std::string& sentence : answer.sentence())
      std::fputs(Wrap(sentence, "  ", kTextWidth).c_str(), stdout);
    std::fflush(stdout);
    *sweep.add_curve() = *std::move(curve);
    // Written after each machine, so that a failure on a later machine loses no measurement.
    TETHYS_RETURN_IF_ERROR(WriteSweep(sweep, path));
  }
  return absl::OkStatus();
}

int Sweep(const Flags& flags) {
  signal(SIGPIPE, SIG_IGN);  // Then a write to a host whose connection is lost returns an error.
  absl::StatusOr<SweepRequest> request = ReadRequest(flags);
  if (!request.ok()) return Fail("sweep", request.status(), kExitBadRequest);
  // Holds interrupts until the scratch directory has been removed, so that an interrupt leaves no files
  // behind.
  const InterruptsHeld held;
  const absl::StatusOr<ScratchDirectory> scratch = ScratchDirectory::Create();
  if (!scratch.ok()) return Fail("sweep", scratch.status(), kExitFailed);
  request->scratch = scratch->path();
  const absl::StatusOr<std::vector<Machine>> machines = FindMachines(flags, scratch->path());
  if (!machines.ok()) return Fail("sweep", machines.status(), kExitBadRequest);
  const std::string name = absl::StrCat("sweep-", request->plan.job().name());
  const absl::StatusOr<RunDirectory> directory =
      RunDirectory::Create(flags.Has("run_dir") ? flags.Get("run_dir") : FreshRunPath(name));
  if (!directory.ok()) return Fail("sweep", directory.status(), kExitBadRequest);
  PrintLine(absl::StrCat(
      "Batches ", BatchesText(request->batches), " are measured on ", PluralText(machines->size(), "machine"),
      ", for at most ", DurationText(request->seconds), " on each; then the largest batch is searched for."));
  absl::Status swept = directory->WriteJob(request->plan.job());
  if (swept.ok()) swept = SweepAll(*machines, *request, directory->path());
  if (!swept.ok()) {
    return Fail("sweep", swept, absl::IsInvalidArgument(swept) ? kExitBadRequest : kExitFailed);
  }
  std::printf("\n%s/report.html\n", directory->path().c_str());
  return kExitSuccess;
}

}  // namespace

Command SweepCommand() {
  return {
      {.verb = "sweep",
       .summary = "Measures step time, throughput and memory of a model for each batch of a range.",
       .description =
           "Measures training steps of the job's model on synthetic samples, without training it, for each "
           "batch, on this machine or on one host of each kind in a host file. Batches are measured in "
           "rounds of random order, and measurements during which another program used a part of the "
           "processor are put aside, so that the result is valid on a shared machine, too. Prints the best "
           "batch; the straight lines on which the step time grows with the batch, and the jumps between "
           "these lines; whether the step time jumps after every multiple of 16; and the largest batch for "
           "which the memory suffices, which is forecast and then tried. Writes sweep.json, sweep.csv, "
           "report.md and report.html.",
       .argument = "JOB",
       .flags = {{.name = "batches",
                  .value = "RANGE",
                  .help = "FIRST-LAST, FIRST-LAST:STEP or numbers, separated by commas. Default 1-70."},
                 {.name = "seconds",
                  .value = "N",
                  .help = "The longest time for measuring on each machine. Default 60."},
                 {.name = "rounds",
                  .value = "N",
                  .help = "How often each batch is measured; up to twice as often if other programs disturb "
                          "many of the measurements. Jumps are tested with 7 rounds or more. Default 15."},
                 {.name = "memory",
                  .value = "MIB",
                  .help =
                      "The most memory that a step may need. Default: half of the host's free memory, or all "
                      "free memory of the GPU."},
                 {.name = "hostfile",
                  .value = "FILE",
                  .help = "Measures one host of each combination of kind= and device= in this file, by ssh. "
                          "Default: this machine.",
                  .is_input = true},
                 {.name = "every_host", .help = "Measures all hosts of the file of --hostfile."},
                 {.name = "ssh_config",
                  .value = "FILE",
                  .help = "The configuration of ssh, in place of ~/.ssh/config.",
                  .is_input = true},
                 {.name = "bundle",
                  .value = "FILE",
                  .help =
                      "The bundle for machines that lack this build, made by deploy/bundle.sh. Default: the "
                      "bundle beside this program, which is made if it is missing.",
                  .is_input = true},
                 {.name = "run_dir",
                  .value = "DIR",
                  .help = "Directory for results. Default: a new runs/sweep-NAME-DATE-TIME."},
                 SetFlag(),
                 CudaLibraryPathFlag(),
                 SecretsFlag()},
       .examples =
           {"tethys sweep examples/fashion_mnist_local.textproto",
            "tethys sweep examples/lenet_fashion_mnist_local.textproto --batches=8-256:8 --seconds=30"}},
      Sweep};
}

}  // namespace tethys
