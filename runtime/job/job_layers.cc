#include "runtime/job/job_layers.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/file.h"
#include "runtime/job/parser_remedies.h"
#include "runtime/job/renamed_fields.h"
#include "runtime/job/text_format_file.h"

namespace tethys {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

// One file of a chain of job files. Each file but the last names the next file as its base.
struct Layer {
  std::string path;
  std::string canonical;  // The canonical path, which is the same for all paths of one file.
  proto::Job job;
  std::unique_ptr<TextFormat::ParseInfoTree> tree;

  std::string PlaceOfBase() const {
    return PlaceInFile(path, *tree, *proto::Job::descriptor(), {{{.name = "base"}}});
  }
};

// True if the file seems to be YAML or JSON.
bool HasOtherFormat(absl::string_view text, const std::string& path) {
  for (const absl::string_view ending : {".yaml", ".yml", ".json"}) {
    if (absl::EndsWithIgnoreCase(path, ending)) return true;
  }
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{");
}

absl::StatusOr<Layer> ParseLayer(absl::string_view text, const std::string& path) {
  Layer layer{
      .path = path, .canonical = "", .job = {}, .tree = std::make_unique<TextFormat::ParseInfoTree>()};
  const bool other = HasOtherFormat(text, path);
  const auto reword = [&](const std::string& message) {
    if (!other) return WithRemedy(message);
    return absl::StrCat(
        "a job file is protobuf text format, such as `model { lenet {} }`, and this file seems to be ",
        "YAML or JSON (", message, "); tethys init writes a job for a folder of data");
  };
  TETHYS_RETURN_IF_ERROR(ParseTextFormat(text, path, reword, layer.job, *layer.tree));
  return layer;
}

// Removes the default partitioner, which earlier versions wrote into the job of a run. Its number of shards
// is the number of servers, which may change when the run is resumed.
void ForgetDefaultCut(proto::Job& job) {
  constexpr int64_t kDefaultMinShardBytes = 256 << 10;
  const proto::MinSize& rule = job.tuning().partitioner().min_size();
  if (rule.min_shard_bytes() == kDefaultMinShardBytes &&
      rule.max_shards() == job.strategy().parameter_server().servers()) {
    job.mutable_tuning()->clear_partitioner();
  }
}

absl::StatusOr<Layer> ReadLayer(const std::string& path, JobWriter writer = JobWriter::kUser) {
  TETHYS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxJobFileBytes));
  const std::string present = writer == JobWriter::kRun ? WithPresentNames(text) : text;
  TETHYS_ASSIGN_OR_RETURN(Layer layer, ParseLayer(present, path));
  if (present != text) ForgetDefaultCut(layer.job);
  std::error_code error;
  layer.canonical = std::filesystem::canonical(path, error).string();
  if (error) layer.canonical = path;
  return layer;
}

// The chain of files as written, for messages: "a.textproto -> b.textproto".
std::string ChainText(const std::vector<Layer>& chain, size_t begin) {
  std::vector<std::string> paths;
  for (size_t i = begin; i < chain.size(); ++i) paths.push_back(chain[i].path);
  return absl::StrJoin(paths, " -> ");
}

// Reads the base of the last file in the chain.
absl::StatusOr<Layer> ReadBase(const std::vector<Layer>& chain) {
  const Layer& last = chain.back();
  const std::string place = last.PlaceOfBase();
  if (last.job.base().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": base is empty: name a job file, or leave the field out"));
  }
  if (chain.size() == kMaxJobLayers) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": base: a job may consist of ", kMaxJobLayers,
                     " files at most, and this would be one more: ", ChainText(chain, 0)));
  }
  const std::string path = (std::filesystem::path(last.path).parent_path() / last.job.base()).string();
  std::error_code error;
  const std::string canonical = std::filesystem::canonical(path, error).string();
  for (size_t i = 0; i < chain.size() && !error; ++i) {
    if (chain[i].canonical != canonical) continue;
    return absl::InvalidArgumentError(absl::StrCat(place, ": base: the file is its own base (",
                                                   ChainText(chain, i), " -> ", path,
                                                   "): remove one of these bases"));
  }
  absl::StatusOr<Layer> base = ReadLayer(path);
  // Errors in the text of the base already begin with their place.
  if (!base.ok() && !absl::IsInvalidArgument(base.status())) {
    return Annotate(base.status(), absl::StrCat(place, ": base"));
  }
  return base;
}

// A model is either a list of layers or a family. If `upper` has one of these, removes the other one from
// `lower`. A file that writes both is refused later.
void ReplaceKindOfModel(const proto::Job& upper, JobLayers& lower) {
  if (!upper.has_model() || !lower.job.has_model()) return;
  const bool family = upper.model().family_case() != proto::Model::FAMILY_NOT_SET;
  proto::Model& model = *lower.job.mutable_model();
  if (family && upper.model().layer().empty()) {
    lower.places.Erase("model.layer");
    model.clear_layer();
  } else if (!family && !upper.model().layer().empty()) {
    const auto* const field = proto::Model::descriptor()->FindFieldByNumber(model.family_case());
    if (field != nullptr) lower.places.Erase(absl::StrCat("model.", field->name()));
    model.clear_family();
  }
}

JobLayers Stack(const std::vector<Layer>& chain) {
  JobLayers layers;
  for (auto layer = chain.rbegin(); layer != chain.rend(); ++layer) {
    ReplaceKindOfModel(layer->job, layers);
    PutOver(layer->job, layers.job);
    layers.places.PutOver(layer->path, layer->job, *layer->tree);
  }
  layers.job.clear_base();
  return layers;
}

// Clears the lists of `lower` that `upper` replaces, because MergeFrom would append to them.
void ClearReplacedLists(const Message& upper, Message& lower) {
  const Reflection& reflection = *upper.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(upper, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated()) {
      reflection.ClearField(&lower, field);
    } else if (field->message_type() != nullptr && reflection.HasField(lower, field)) {
      ClearReplacedLists(reflection.GetMessage(upper, field), *reflection.MutableMessage(&lower, field));
    }
  }
}

}  // namespace

void PutOver(const Message& upper, Message& lower) {
  ClearReplacedLists(upper, lower);
  lower.MergeFrom(upper);
}

absl::StatusOr<JobLayers> ReadJobLayers(const std::string& path, JobWriter writer) {
  std::vector<Layer> chain;
  TETHYS_ASSIGN_OR_RETURN(Layer first, ReadLayer(path, writer));
  chain.push_back(std::move(first));
  while (chain.back().job.has_base()) {
    TETHYS_ASSIGN_OR_RETURN(Layer base, ReadBase(chain));
    chain.push_back(std::move(base));
  }
  return Stack(chain);
}

absl::StatusOr<JobLayers> ParseOnlyLayer(absl::string_view text, const std::string& file_name) {
  std::vector<Layer> chain;
  TETHYS_ASSIGN_OR_RETURN(Layer layer, ParseLayer(text, file_name));
  if (layer.job.has_base()) {
    return absl::InvalidArgumentError(absl::StrCat(
        layer.PlaceOfBase(),
        ": base: only a job file may have a base, and this text was not read from one: write out "
        "the fields of the base"));
  }
  chain.push_back(std::move(layer));
  return Stack(chain);
}

}  // namespace tethys
