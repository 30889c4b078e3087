// Input: a launcher's orders to the agent on a host, as bytes of the agent's standard input.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/launcher/host_agent.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

// Records what the agent does. Programs with even ids cannot be started.
class Recorder final : public HostAgent::Processes {
 public:
  absl::Status Start(const proto::StartProcess& order) override {
    Require(order.input().size() <= 4096, "a pipe holds the input without a reader");
    Require(started_.insert(order.id()).second, "an id is used once");
    Note(absl::StrCat("start ", order.id(), " ", order.argument_size(), " ", order.input()));
    return order.id() % 2 == 0 ? absl::NotFoundError("not there") : absl::OkStatus();
  }
  void Signal(uint32_t id, int number) override {
    Require(started_.count(id) > 0 && id % 2 == 1, "a signal goes to a process that runs");
    Require(number >= 1 && number <= 64, "it is a signal");
    Note(absl::StrCat("signal ", id, " ", number));
  }
  const std::string& actions() const { return actions_; }

 private:
  void Note(const std::string& action) { absl::StrAppend(&actions_, action, "\n"); }

  std::set<uint32_t> started_;
  std::string actions_;
};

// Feeds the input to an agent in pieces of `piece` bytes.
std::string Feed(absl::string_view input, size_t piece) {
  Recorder recorder;
  HostAgent agent(recorder, 0);
  for (size_t i = 0; i < input.size(); i += piece) agent.OnInput(input.substr(i, piece), 1);
  agent.OnTime(2);
  return absl::StrCat(recorder.actions(), agent.waiting(),
                      agent.end().has_value() ? agent.end()->message() : "");
}

}  // namespace

void FuzzAgent(absl::string_view input) {
  const std::string whole = Feed(input, input.size() + 1);
  for (const size_t piece : {1, 3, 4096}) Require(Feed(input, piece) == whole, "cutting changes nothing");
}

}  // namespace tethys::fuzz
