#include "deploy/sweep/meter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/process/own_program.h"
#include "deploy/process/remote_shell.h"
#include "deploy/sweep/meter_words.h"

namespace tethys {
namespace {

std::string Command(const Place& place, const MeterOptions& options) {
  // A shell on this machine runs the command, and there /proc/self would be the shell.
  const std::string program =
      place.ssh.empty() && place.program == OwnProgram() ? OwnProgramForOthers() : place.program;
  std::string command = absl::StrCat("exec ", ShellQuote(program), " meter --gpu=", options.gpu);
  for (const std::string& path : options.cuda_library_path) {
    absl::StrAppend(&command, " ", ShellQuote("--cuda_library_path=" + path));
  }
  return command;
}

absl::StatusOr<std::string> OnlyLine(const Answer& answer) {
  TETHYS_RETURN_IF_ERROR(answer.status);
  if (answer.lines.size() != 1) return absl::InternalError("the answer of the meter is not one line");
  return answer.lines[0];
}

absl::StatusOr<proto::StepVisit> ReadVisit(const Answer& answer, int64_t batch) {
  TETHYS_ASSIGN_OR_RETURN(const std::string line, OnlyLine(answer));
  proto::StepVisit visit;
  TETHYS_RETURN_IF_ERROR(ReadMeterAnswer(line, "visit", &visit));
  TETHYS_RETURN_IF_ERROR(CheckVisit(visit, batch));
  return visit;
}

std::string StepQuestion(int64_t batch, int64_t milliseconds) {
  return absl::StrCat("step ", batch, " ", milliseconds);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Meter>> Meter::Start(const Place& place, const proto::JobPlan& plan,
                                                    const MeterOptions& options) {
  std::unique_ptr<Meter> meter(new Meter(options));
  meter->conversation_.push_back(std::make_unique<Conversation>(
      place.ssh, Command(place, options), "", absl::StrCat(options.scratch, "/meter-", options.name)));
  TETHYS_RETURN_IF_ERROR(meter->Prepare(plan));
  return meter;
}

absl::Status Meter::Prepare(const proto::JobPlan& plan) {
  for (const std::string& question : PlanQuestions(plan.SerializeAsString())) {
    TETHYS_ASSIGN_OR_RETURN(const std::string line, Ask(question));
    const bool last = question == "job";
    TETHYS_RETURN_IF_ERROR(ReadMeterAnswer(line, last ? "facts" : "ok", last ? &facts_ : nullptr));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Meter::Ask(const std::string& question) {
  const Answer answer = AskAll(conversation_, {question}, options_.patience)[0];
  alive_ = answer.status.ok();
  return OnlyLine(answer);
}

absl::StatusOr<proto::StepVisit> Meter::Step(int64_t batch, int64_t milliseconds) {
  return StepTogether({this}, batch, milliseconds)[0];
}

absl::StatusOr<bool> Meter::Fits(int64_t batch, int64_t bytes) {
  const absl::StatusOr<std::string> line = Ask(absl::StrCat("fits ", batch, " ", bytes));
  if (absl::IsDeadlineExceeded(line.status())) return line.status();
  if (!alive_) return false;  // A library may end the process when memory runs out.
  TETHYS_RETURN_IF_ERROR(line.status());
  const absl::Status fits = ReadMeterAnswer(*line, "yes", nullptr);
  if (fits.ok()) return true;
  if (absl::IsResourceExhausted(fits)) return false;
  return fits;
}

std::vector<absl::StatusOr<proto::StepVisit>> StepTogether(const std::vector<Meter*>& meters, int64_t batch,
                                                           int64_t milliseconds) {
  if (meters.empty()) return {};
  // AskAll takes one vector, so the conversations are moved into a vector, and back after the call.
  std::vector<std::unique_ptr<Conversation>> all;
  Nanoseconds patience = 0;
  for (Meter* meter : meters) {
    all.push_back(std::move(meter->conversation_[0]));
    patience = std::max(patience, meter->options_.patience);
  }
  const std::vector<Answer> answers =
      AskAll(all, std::vector<std::string>(all.size(), StepQuestion(batch, milliseconds)),
             patience + milliseconds * kMillisecond);
  std::vector<absl::StatusOr<proto::StepVisit>> visits;
  for (size_t i = 0; i < meters.size(); ++i) {
    meters[i]->conversation_[0] = std::move(all[i]);
    meters[i]->alive_ = answers[i].status.ok();
    visits.push_back(ReadVisit(answers[i], batch));
  }
  return visits;
}

}  // namespace tethys
