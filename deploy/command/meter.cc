#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <deque>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "deploy/command/verbs.h"
#include "deploy/run/role_process.h"
#include "deploy/sweep/meter_words.h"
#include "runtime/base/mutex.h"
#include "runtime/base/process.h"
#include "runtime/base/thread.h"
#include "runtime/cluster/job_plan.h"
#include "workers/device_factory.h"
#include "workers/step_meter.h"

namespace tethys {
namespace {

// Answers the questions of a sweep, one after the other, on the thread that computes.
class Answers {
 public:
  Answers(int gpu, std::vector<std::string> cuda_library_path)
      : gpu_(gpu), cuda_library_path_(std::move(cuda_library_path)) {}

  std::string To(const std::string& line) {
    const absl::StatusOr<MeterQuestion> question = ParseMeterQuestion(line);
    const absl::StatusOr<std::string> answer = question.ok() ? Do(*question) : question.status();
    return answer.ok() ? *answer : MeterFailure(answer.status());
  }

 private:
  absl::StatusOr<std::string> Do(const MeterQuestion& question) {
    if (question.kind == MeterQuestion::kPart) return AddPart(question.part);
    if (question.kind == MeterQuestion::kJob) return MakeMeter();
    if (meter_ == nullptr) return absl::FailedPreconditionError("no job was given before this question");
    if (question.kind == MeterQuestion::kFits) {
      TETHYS_RETURN_IF_ERROR(meter_->Try(question.batch, question.limit));
      return "yes";
    }
    TETHYS_ASSIGN_OR_RETURN(const proto::StepVisit visit,
                            meter_->Visit(question.batch, question.limit * kMillisecond));
    return MeterAnswer("visit", visit);
  }

  absl::StatusOr<std::string> AddPart(const std::string& part) {
    if (static_cast<int64_t>(bytes_.size() + part.size()) > kMaxPlanBytes) {
      return absl::InvalidArgumentError("the job plan is larger than a meter accepts");
    }
    bytes_ += part;
    return "ok";
  }

  absl::StatusOr<std::string> MakeMeter() {
    meter_.reset();
    proto::JobPlan plan;
    if (!plan.ParseFromString(std::exchange(bytes_, {}))) {
      return absl::InvalidArgumentError("the parts do not form a job plan");
    }
    const proto::Device& device = plan.job().device();
    if (device.kind() == proto::Device::CUDA && company_ == nullptr)
      company_ = std::make_unique<GpuCompany>();
    TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Device> made,
                            CreateDeviceOf(device.kind(), device, gpu_, cuda_library_path_));
    if (company_ != nullptr) company_->Watch(made->identity());
    TETHYS_ASSIGN_OR_RETURN(meter_, StepMeter::Create(plan, std::move(made), clock_, company_.get()));
    TETHYS_ASSIGN_OR_RETURN(const proto::MeterFacts facts, meter_->Facts());
    return MeterAnswer("facts", facts);
  }

  const MonotonicClock clock_;
  const int gpu_;
  const std::vector<std::string> cuda_library_path_;
  std::string bytes_;                    // The parts of the serialized plan that have been received so far.
  std::unique_ptr<GpuCompany> company_;  // Must be made before the first context on a GPU.
  std::unique_ptr<StepMeter> meter_;
};

// A queue of questions from the thread that reads them to the thread that answers them. Thread-safe.
class Questions {
 public:
  void Add(std::string question) {
    MutexLock lock(mu_);
    questions_.push_back(std::move(question));
    changed_.NotifyOne();
  }
  std::string Next() {
    MutexLock lock(mu_);
    while (questions_.empty()) changed_.Wait(mu_);
    std::string question = std::move(questions_.front());
    questions_.pop_front();
    return question;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::deque<std::string> questions_ ABSL_GUARDED_BY(mu_);
};

int RunMeter(const Flags& flags) {
  const absl::StatusOr<int64_t> gpu = flags.GetInteger("gpu", 0, 0, 1023);
  if (!gpu.ok()) return Fail("meter", gpu.status(), kExitBadRequest);
  signal(SIGPIPE, SIG_IGN);
  if (absl::Status status = KeepSignalsOffThisThread(); !status.ok())
    return Fail("meter", status, kExitFailed);
  // Computing has a thread of its own, so that the end of standard input ends the process even during a step.
  Questions questions;
  Thread computing;
  const absl::Status started = computing.Start([&] {
    Answers answers(static_cast<int>(*gpu), flags.GetAll("cuda_library_path"));
    while (true) {
      const std::string answer = answers.To(questions.Next());
      std::printf("tethys-check %s\ntethys-check end\n", answer.c_str());
      std::fflush(stdout);
    }
  });
  if (!started.ok()) return Fail("meter", started, kExitFailed);
  std::string line;
  while (std::getline(std::cin, line)) questions.Add(line);
  _exit(kExitSuccess);
}

}  // namespace

Command MeterCommand() {
  return {
      {.verb = "meter",
       .summary = "Measures steps of a model on this machine; started by sweep.",
       .description = "Reads questions from standard input, a line each, and answers them on standard output "
                      "(deploy/sweep/meter_words.h). The process ends when standard input does.",
       .flags = {{.name = "gpu", .value = "N", .help = "Number of the GPU, from 0. Default 0."},
                 CudaLibraryPathFlag()},
       .examples = {"tethys meter < open-pipe"},
       .hidden = true},
      RunMeter};
}

}  // namespace tethys
