#include "deploy/describe/layer_list.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "deploy/text.h"
#include "runtime/nn/model.h"
#include "runtime/nn/zoo/zoo.h"

namespace tethys {
namespace {

constexpr int kWidth = 100;  // The width of the list, in columns of the terminal.

// Text of the layer, in as few lines as possible without breaking a field.
std::string LayerLines(const proto::Layer& layer) {
  constexpr char kSpaceWithin = '\x1f';
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(layer, &text);
  text = absl::StrCat(absl::StripTrailingAsciiWhitespace(text), " }");
  bool in_name = false, escaped = false;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"' && !escaped) in_name = !in_name;
    escaped = text[i] == '\\' && !escaped;
    const bool before_end = i + 1 < text.size() && text[i + 1] == '}';
    if (text[i] == ' ' && (in_name || text[i - 1] == ':' || before_end)) text[i] = kSpaceWithin;
  }
  const std::string lead = "  layer {";
  text = WrapBeside(lead, text, static_cast<int>(lead.size()) + 1, kWidth);
  std::replace(text.begin(), text.end(), kSpaceWithin, ' ');
  return text;
}

struct Totals {
  int64_t parameters = 0;
  int64_t multiply_adds = 0;
};

std::string CountsText(const Totals& counts) {
  std::vector<std::string> parts;
  if (counts.parameters > 0) parts.push_back(PluralText(counts.parameters, "parameter"));
  if (counts.multiply_adds > 0) parts.push_back(PluralText(counts.multiply_adds, "multiply-add"));
  return absl::StrJoin(parts, ", ");
}

}  // namespace

absl::StatusOr<std::string> LayerList(const proto::JobPlan& plan) {
  const proto::Model config = ExpandModel(plan.job().model(), plan.job().data().classes());
  const Shape sample_shape(plan.sample_shape().begin(), plan.sample_shape().end());
  TETHYS_ASSIGN_OR_RETURN(const Model model,
                          Model::Create(config, sample_shape, plan.job().data().classes()));
  std::map<absl::string_view, const Model::Layer*> computing;
  for (const Model::Layer& layer : model.layers()) computing[layer.name()] = &layer;
  std::string text = absl::StrCat("# A sample has shape ", ShapeText(sample_shape), ".\nmodel {\n");
  Totals totals;
  for (const proto::Layer& layer : config.layer()) {
    // A flatten layer computes nothing, so it is not in `computing`.
    if (const auto found = computing.find(layer.name()); found != computing.end()) {
      Totals own = {.multiply_adds = found->second->operation->multiply_adds()};
      for (const Range& variable : found->second->variables) own.parameters += variable.count;
      totals.parameters += own.parameters;
      totals.multiply_adds += own.multiply_adds;
      const std::string counts = CountsText(own);
      absl::StrAppend(&text, "  # ", ShapeText(found->second->output), counts.empty() ? "" : ": ", counts,
                      "\n");
    }
    absl::StrAppend(&text, LayerLines(layer));
  }
  return absl::StrCat(text, "}\n# ", CountsText(totals), " for a sample\n");
}

}  // namespace tethys
