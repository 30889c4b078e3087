// Tests LaunchCourse, which decides what the launcher does next, by scenarios (scripts/README.md).
#include "deploy/launcher/launch_course.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/testing/script.h"

namespace tethys {
namespace {

// Runs one scenario. Processes start as soon as LaunchCourse requests them.
class Scenario {
 public:
  std::string Do(const std::string& command) {
    if (command.rfind("job ", 0) == 0) return Make(absl::StrSplit(command.substr(4), ' '));
    const std::vector<std::string> words = absl::StrSplit(command, ' ');
    double seconds = 0;
    if (course_ == nullptr || words.size() < 2 || !absl::SimpleAtod(words[0], &seconds)) return "unknown";
    now_ = FromSeconds(seconds);
    LaunchActions actions;
    const std::string& what = words[1];
    const std::string rest = command.substr(words[0].size() + 1);
    if (what == "missing") {  // The program of this task cannot be started from now on.
      missing_ = rest.substr(8);
      return "noted";
    }
    if (what == "begin") {
      course_->Begin(now_, actions);
    } else if (what == "tick") {
      course_->OnTick(now_, actions);
    } else if (what == "interrupt") {
      course_->OnInterrupt(SIGINT, now_, actions);
    } else if (what == "change") {
      course_->OnChange(actions);
    } else if (what == "exit") {
      OnExit(rest.substr(5), actions);
    } else {
      course_->OnReport(Report(words), now_, actions);
    }
    std::vector<std::string> follows = Carry(std::move(actions));
    follows.push_back(course_->ended() ? absl::StrCat("ended: ", Ending())
                                       : absl::StrFormat("until %g", ToSeconds(course_->deadline())));
    return absl::StrJoin(follows, "; ");
  }

 private:
  // Makes a job from "servers=N workers=N survives=N late=1 log=1". `survives`: the job survives losses, with
  // N restarts. `late`: the job survives losses only once training has begun. `log`: the chief keeps a log.
  std::string Make(const std::vector<std::string>& words) {
    LaunchCourse::Options options = {.chief_host = "h0"};
    options.timeouts.set_start(60);
    options.timeouts.set_silence(20);
    options.timeouts.set_shutdown(5);
    for (const std::string& word : words) {
      const std::pair<std::string, std::string> field = absl::StrSplit(word, '=');
      int number = 0;
      if (!absl::SimpleAtoi(field.second, &number)) return "unknown";
      std::vector<std::string>& hosts =
          field.first == "servers" ? options.server_hosts : options.worker_hosts;
      if (field.first == "log") {
        options.chief_keeps_log = number != 0;
        continue;
      }
      if (field.first == "late") {
        options.restarts_before_training = number == 0;
        continue;
      }
      if (field.first == "copies") {
        options.survives_server_loss = number != 0;
        continue;
      }
      if (field.first == "survives") {
        options.survives_worker_loss = true;
        options.max_restarts = number;
        continue;
      }
      for (int i = 0; i < number; ++i) hosts.push_back(absl::StrCat("h", i));
    }
    course_ = std::make_unique<LaunchCourse>(options);
    return "made";
  }

  // How a task ended: "worker 1.2 killed 9", "ps 0 failed 1", "chief done". From a task's second incarnation
  // on, its name includes the incarnation.
  void OnExit(const std::string& text, LaunchActions& actions) {
    for (size_t i = 0; i < started_.size(); ++i) {
      if (text.rfind(started_[i] + " ", 0) != 0) continue;
      const std::vector<std::string> how = absl::StrSplit(text.substr(started_[i].size() + 1), ' ');
      int number = 0;
      EXPECT_TRUE(how.size() == 1 || absl::SimpleAtoi(how[1], &number)) << text;
      ProcessExit exit;
      (how[0] == "killed" ? exit.signal : exit.code) = number;
      return course_->OnExit(i, exit, actions);
    }
    ADD_FAILURE() << "no such task: " << text;
  }

  static proto::ProgressEvent Report(const std::vector<std::string>& words) {
    proto::ProgressEvent event;
    int64_t number = 0;
    if (words.size() > 2) (void)absl::SimpleAtoi(words[2], &number);
    if (words[1] == "listening") event.mutable_listening()->set_address("h0:1");
    if (words[1] == "training") event.mutable_started();
    if (words[1] == "over") event.mutable_took_over();
    if (words[1] == "note") event.set_note("text");
    if (words[1] == "step") event.mutable_progress()->set_step(number);
    if (words[1] == "lost") {
      event.mutable_task_lost()->set_role(words.size() > 4 ? words[4] : "worker");
      event.mutable_task_lost()->set_index(static_cast<int>(number));
      event.mutable_task_lost()->set_incarnation(std::stoi(words.at(3)));
    }
    if (words[1] == "finished") event.mutable_finished()->set_ok(true);
    if (words[1] == "failed") {
      event.mutable_finished()->set_error("no disk");
      event.mutable_finished()->set_status_code(static_cast<int>(absl::StatusCode::kResourceExhausted));
    }
    return event;
  }

  static std::string Name(const LaunchTask& task) {
    return task.incarnation == 1 ? task.name() : absl::StrCat(task.name(), ".", task.incarnation);
  }

  // Carries out the actions and the actions that result from them; returns their texts.
  std::vector<std::string> Carry(LaunchActions actions) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < actions.size(); ++i) {
      const LaunchAction action = actions[i];
      if (const auto* start = absl::get_if<StartTask>(&action)) {
        const bool fails = start->task.name() == missing_;
        texts.push_back(absl::StrCat(fails ? "cannot start " : "start ", Name(start->task)));
        if (fails) {
          course_->OnStartFailed(absl::NotFoundError("no program"), now_, actions);
        } else {
          started_.push_back(Name(start->task));
          course_->OnStarted(actions);
        }
      } else if (const auto* signal = absl::get_if<SignalTask>(&action)) {
        texts.push_back(
            absl::StrFormat("SIG%s to %s", sigabbrev_np(signal->signal), started_[signal->number]));
      } else if (const auto* note = absl::get_if<NoteForUser>(&action)) {
        texts.push_back(absl::StrCat("'", note->text, "'"));
      } else {
        texts.push_back("disconnect");
      }
    }
    return texts;
  }

  std::string Ending() const {
    const FirstFailure failure = FindFirstFailure(course_->end(), "h0");
    return failure.status.ok() ? "done" : std::string(failure.status.message());
  }

  std::unique_ptr<LaunchCourse> course_;
  Nanoseconds now_ = 0;
  std::vector<std::string> started_;
  std::string missing_;
};

class LaunchScriptTest : public ::testing::TestWithParam<std::string> {};

TEST_P(LaunchScriptTest, LauncherDecisionsEqualTheActionsWrittenInTheScenarioFile) {
  Scenario scenario;
  testing::ExpectGoesAsWritten(TETHYS_SCRIPTS, GetParam(),
                               [&](const std::string& command) { return scenario.Do(command); });
}

INSTANTIATE_TEST_SUITE_P(All, LaunchScriptTest, ::testing::ValuesIn(testing::ScriptsIn(TETHYS_SCRIPTS)),
                         [](const auto& script) { return script.param; });

}  // namespace
}  // namespace tethys
