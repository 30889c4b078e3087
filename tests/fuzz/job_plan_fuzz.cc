// Input: the chief's plan for workers and servers, a proto::JobPlan as text. Checks where variables lie, what
// each server holds, and the messages of a step.
#include <algorithm>
#include <string>
#include <vector>

#include "ps/message_plan.h"
#include "ps/shard_layout.h"
#include "runtime/cluster/job_plan.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"
#include "tests/fuzz/text_message.h"

namespace tethys::fuzz {
namespace {

constexpr int kMaxServers = 8;
constexpr int64_t kMessageBytes = 4096;

// Corrects the signature of the plan's variables, if they are valid.
void SetSignature(proto::JobPlan& plan) {
  VariableSet variables;
  for (const proto::VariableSpec& spec : plan.variable()) {
    const Shape shape(spec.shape().begin(), spec.shape().end());
    if (!variables.Add(spec.name(), shape, spec.layout(), InitialValue::kZeros, 0, 0).ok()) return;
  }
  plan.set_model_signature(variables.signature());
}

void CheckMessages(const proto::JobPlan& plan, const VariableSet& variables) {
  std::vector<Range> ready;
  for (auto it = variables.variables().rbegin(); it != variables.variables().rend(); ++it)
    ready.push_back(it->range);
  const auto messages = PlanMessages(plan.placement(), variables.arena_size(), ready, kMessageBytes);
  if (!messages.ok()) return Require(!messages.status().message().empty(), "a refusal says why");
  for (const StepMessage& message : *messages) {
    Require(message.range.begin >= 0 && message.range.end() <= variables.arena_size(),
            "messages lie in the arena");
  }
}

}  // namespace

void FuzzJobPlan(absl::string_view input) {
  proto::JobPlan plan;
  if (!ParseText(input, plan)) return;
  SetSignature(plan);
  const absl::StatusOr<VariableSet> variables = VariablesOf(plan);
  if (!variables.ok()) return Require(!variables.status().message().empty(), "a refusal says why");
  for (int server = 0; server < std::min(kMaxServers, plan.placement().servers()); ++server) {
    const auto layout = ShardLayout::Create(plan.placement(), server, variables->arena_size());
    if (!layout.ok()) return RequireRefusal(layout.status(), "placement");
    Require(layout->element_count() <= layout->local_size(), "shards lie in the server's memory");
  }
  if (variables->arena_size() < 1 << 20) CheckMessages(plan, *variables);
}

}  // namespace tethys::fuzz
