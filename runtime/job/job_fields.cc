#include "runtime/job/job_fields.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/status.h"
#include "runtime/job/renamed_fields.h"

namespace tethys {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

// The end of a message that refuses a name: " (did you mean 'RELU'?); its values are: RELU, TANH".
std::string Known(absl::string_view heading, absl::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  const std::string question = nearest.empty() ? "" : absl::StrCat(" (did you mean '", nearest, "'?)");
  return absl::StrCat(question, "; ", heading, ": ", absl::StrJoin(known, ", "));
}

// Names that other programs have for fields of a job.
struct OtherName {
  absl::string_view name;
  absl::string_view field;
};
constexpr OtherName kOtherNames[] = {{"lr", "learning_rate"},
                                     {"eta", "learning_rate"},
                                     {"wd", "weight_decay"},
                                     {"l2", "weight_decay"},
                                     {"bs", "batch_size_per_worker"},
                                     {"batch", "global_batch_size"},
                                     {"num_workers", "workers"},
                                     {"n_workers", "workers"},
                                     {"world_size", "workers"},
                                     {"num_servers", "servers"},
                                     {"num_ps", "servers"},
                                     {"ps", "servers"},
                                     {"num_epochs", "epochs"},
                                     {"n_epochs", "epochs"},
                                     {"max_epochs", "epochs"},
                                     {"steps", "max_steps"},
                                     {"iterations", "max_steps"},
                                     {"random_seed", "seed"},
                                     {"num_classes", "classes"},
                                     {"n_classes", "classes"},
                                     {"accumulation_steps", "micro_batches"},
                                     {"gradient_accumulation", "micro_batches"},
                                     {"dtype", "precision"},
                                     {"val_samples", "validation_samples"},
                                     {"std", "deviation"}};

// Choices of other programs that a job expresses in another way, each with what to write in a job instead.
struct OtherChoice {
  absl::string_view type;
  absl::string_view name;
  const char* remedy;
};
constexpr OtherChoice kOtherChoices[] = {
    {"Optimizer", "adamw",
     "write adam with decoupled_weight_decay: true and a weight_decay (--set=optimizer=adam "
     "--set=optimizer.decoupled_weight_decay=true --set=optimizer.weight_decay=0.01)"},
    {"Optimizer", "momentum",
     "write sgd { momentum: 0.9 } (--set=optimizer=sgd --set=optimizer.sgd.momentum=0.9)"},
    {"Optimizer", "nesterov", "write sgd { momentum: 0.9 nesterov: true }"},
    {"Strategy", "ddp", "write mirrored {}, workers that exchange gradients"},
    {"Strategy", "allreduce", "write mirrored {}, workers that exchange gradients"},
    {"Strategy", "data_parallel", "write mirrored {}, workers that exchange gradients"},
    {"Strategy", "horovod", "write mirrored {}, workers that exchange gradients"},
    {"Strategy", "ps", "write parameter_server {}"}};

// ": write ..." for a choice that other programs have; empty if `name` is no known choice.
std::string OtherChoiceText(const Descriptor& type, absl::string_view name) {
  for (const OtherChoice& other : kOtherChoices) {
    if (type.name() == other.type && absl::EqualsIgnoreCase(name, other.name))
      return absl::StrCat(": ", other.remedy);
  }
  return "";
}

// Adds the paths of the fields called `name` in messages below `type`, the shortest paths first. Lists are
// not searched.
void AddPathsTo(absl::string_view name, const Descriptor& type, const std::string& prefix, int depth,
                std::vector<std::string>& paths) {
  constexpr int kDeepest = 4;
  if (type.FindFieldByName(std::string(name)) != nullptr) paths.push_back(absl::StrCat(prefix, name));
  for (int i = 0; i < type.field_count() && depth < kDeepest; ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated() || field.message_type() == nullptr) continue;
    AddPathsTo(name, *field.message_type(), absl::StrCat(prefix, field.name(), "."), depth + 1, paths);
  }
}

// " (did you mean 'optimizer.learning_rate'?)" if a message below `type` has a field called `name`, or if
// other programs call a field by this name. Otherwise empty.
std::string ElsewhereText(const Descriptor& type, absl::string_view name) {
  constexpr size_t kMost = 3;
  std::vector<std::string> paths;
  AddPathsTo(name, type, "", 0, paths);
  for (const OtherName& other : kOtherNames) {
    if (paths.empty() && absl::EqualsIgnoreCase(name, other.name))
      AddPathsTo(other.field, type, "", 0, paths);
  }
  std::stable_sort(paths.begin(), paths.end(), [](const std::string& a, const std::string& b) {
    return std::count(a.begin(), a.end(), '.') < std::count(b.begin(), b.end(), '.');
  });
  if (paths.empty()) return "";
  paths.resize(std::min(paths.size(), kMost));
  return absl::StrCat(" (did you mean '", absl::StrJoin(paths, "' or '"), "'?)");
}

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

std::vector<std::string> MemberNames(const OneofDescriptor& oneof) {
  std::vector<std::string> names;
  for (int i = 0; i < oneof.field_count(); ++i) names.push_back(oneof.field(i)->name());
  return names;
}

std::vector<std::string> ValueNames(const FieldDescriptor& field) {
  std::vector<std::string> names;
  for (int i = 0; i < field.enum_type()->value_count(); ++i)
    names.push_back(field.enum_type()->value(i)->name());
  return names;
}

absl::Status NotA(absl::string_view kind, absl::string_view value) {
  return absl::InvalidArgumentError(absl::StrCat("'", value, "' is not ", kind));
}

// Sets a scalar field from text or, if the field is a list, appends one element.
absl::Status SetScalar(const FieldDescriptor& field, const std::string& value, Message& holder) {
  const Reflection& reflection = *holder.GetReflection();
  const auto put = [&](auto set, auto add, auto parsed) {
    if (field.is_repeated()) {
      (reflection.*add)(&holder, &field, parsed);
    } else {
      (reflection.*set)(&holder, &field, parsed);
    }
    return absl::OkStatus();
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t number;
      if (!absl::SimpleAtoi(value, &number)) return NotA("a whole number of 32 bits", value);
      return put(&Reflection::SetInt32, &Reflection::AddInt32, number);
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t number;
      if (!absl::SimpleAtoi(value, &number)) return NotA("a whole number of 64 bits", value);
      return put(&Reflection::SetInt64, &Reflection::AddInt64, number);
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t number;
      if (!absl::SimpleAtoi(value, &number)) return NotA("a whole number of 64 bits, 0 or more", value);
      return put(&Reflection::SetUInt64, &Reflection::AddUInt64, number);
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      float number;
      if (!absl::SimpleAtof(value, &number)) return NotA("a number", value);
      return put(&Reflection::SetFloat, &Reflection::AddFloat, number);
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double number;
      if (!absl::SimpleAtod(value, &number)) return NotA("a number", value);
      return put(&Reflection::SetDouble, &Reflection::AddDouble, number);
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool truth;
      if (!absl::SimpleAtob(value, &truth)) return NotA("true or false", value);
      return put(&Reflection::SetBool, &Reflection::AddBool, truth);
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* known = field.enum_type()->FindValueByName(value);
      if (known == nullptr) return absl::InvalidArgumentError(UnknownValueText(field, value));
      return put(&Reflection::SetEnum, &Reflection::AddEnum, known);
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return put(&Reflection::SetString, &Reflection::AddString, value);
    default:
      return NotA("a value this field can take", value);
  }
}

// Chooses `member` in its oneof. A member that is already chosen stays as it is.
absl::Status ChooseMember(const OneofDescriptor& oneof, absl::string_view member, Message& holder) {
  const FieldDescriptor* field = nullptr;
  for (int i = 0; i < oneof.field_count(); ++i) {
    if (oneof.field(i)->name() == member) field = oneof.field(i);
  }
  const std::vector<std::string> names = MemberNames(oneof);
  if (field == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("'", member, "' is not a choice",
                                                   OtherChoiceText(*oneof.containing_type(), member),
                                                   Known("the choices are", member, names)));
  }
  if (field->message_type() == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("'", member, "' needs a value: write ", member, "=VALUE"));
  }
  holder.GetReflection()->MutableMessage(&holder, field);
  return absl::OkStatus();
}

// Sets the message in `field`: an empty `value` leaves the message unchanged, a name chooses the member of
// the message's oneof.
absl::Status SetMessage(const FieldDescriptor& field, absl::string_view value, Message& message) {
  if (value.empty()) return absl::OkStatus();
  const Descriptor& type = *field.message_type();
  if (type.real_oneof_decl_count() == 1) return ChooseMember(*type.oneof_decl(0), value, message);
  for (int i = 0; i < type.field_count(); ++i) {
    if (type.field(i)->enum_type() == nullptr) continue;
    for (const std::string& name : ValueNames(*type.field(i))) {
      if (!absl::EqualsIgnoreCase(name, value)) continue;
      return absl::InvalidArgumentError(absl::StrCat("'", field.name(), "' is a group of fields: write ",
                                                     field.name(), ".", type.field(i)->name(), "=", name));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("'", field.name(),
                                                 "' is a group of fields: set them one by one (",
                                                 absl::StrJoin(FieldNames(type), ", "), ")"));
}

absl::Status SetList(const FieldDescriptor& field, absl::string_view value, Message& holder) {
  holder.GetReflection()->ClearField(&holder, &field);
  for (const absl::string_view item : absl::StrSplit(value, ',', absl::SkipEmpty())) {
    TETHYS_RETURN_IF_ERROR(SetScalar(field, std::string(item), holder));
  }
  return absl::OkStatus();
}

absl::Status CheckIndex(const PathStep& step, const FieldDescriptor& field, const Message& holder) {
  if (!field.is_repeated()) {
    if (step.index < 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("'", step.name, "' is no list: leave [", step.index, "] out"));
  }
  const int size = holder.GetReflection()->FieldSize(holder, &field);
  if (step.index >= 0 && step.index < size) return absl::OkStatus();
  if (size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", step.name,
                     "' is an empty list, and a flag cannot add an entry: write the entry in the job file"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", step.name, "' is a list of ", size, ": write ", step.name, "[0]",
                   size > 1 ? absl::StrCat(" to ", step.name, "[", size - 1, "]") : ""));
}

// Returns the chosen member of the oneof that `field` belongs to, if that member is not `field`. Returns null
// if no other member is chosen, or if `field` belongs to no oneof.
const FieldDescriptor* OtherChoice(const FieldDescriptor& field, const Message& holder) {
  const OneofDescriptor* oneof = field.real_containing_oneof();
  if (oneof == nullptr) return nullptr;
  const FieldDescriptor* chosen = holder.GetReflection()->GetOneofFieldDescriptor(holder, oneof);
  return chosen == &field ? nullptr : chosen;
}

// The text after --set= that chooses the oneof member `field` in the message at `path`. The text names the
// oneof, or only the message if the oneof is called `kind`: "strategy=mirrored".
std::string SwitchText(absl::string_view path, const FieldDescriptor& field) {
  const std::string& oneof = field.real_containing_oneof()->name();
  const bool by_message = oneof == "kind" && !path.empty();
  return absl::StrCat(path, by_message ? "" : absl::StrCat(path.empty() ? "" : ".", oneof), "=",
                      field.name());
}

// Refuses a path through `field` if another member of its oneof is chosen: setting a field must not undo that
// choice.
absl::Status CheckChoice(absl::string_view path, const FieldDescriptor& field, const Message& holder) {
  const FieldDescriptor* chosen = OtherChoice(field, holder);
  if (chosen == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", path, "' is ", chosen->name(), ", which has no fields of ", field.name(),
                   ": to change this choice, write --set=", SwitchText(path, field), " first"));
}

// The message that `step` leads to, created if it is absent.
absl::StatusOr<Message*> Descend(const PathStep& step, Message& holder) {
  const FieldDescriptor* field = holder.GetDescriptor()->FindFieldByName(step.name);
  if (field == nullptr) {
    return absl::InvalidArgumentError(UnknownFieldText(*holder.GetDescriptor(), step.name));
  }
  if (field->message_type() == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("'", step.name, "' is a single value and has no fields"));
  }
  TETHYS_RETURN_IF_ERROR(CheckIndex(step, *field, holder));
  const Reflection& reflection = *holder.GetReflection();
  return field->is_repeated() ? reflection.MutableRepeatedMessage(&holder, field, step.index)
                              : reflection.MutableMessage(&holder, field);
}

absl::Status SetLast(const PathStep& step, absl::string_view value, Message& holder) {
  const Descriptor& type = *holder.GetDescriptor();
  if (const OneofDescriptor* oneof = type.FindOneofByName(step.name))
    return ChooseMember(*oneof, value, holder);
  const FieldDescriptor* field = type.FindFieldByName(step.name);
  if (field == nullptr) return absl::InvalidArgumentError(UnknownFieldText(type, step.name));
  if (field->message_type() == nullptr && field->is_repeated()) {
    if (step.index < 0) return SetList(*field, value, holder);
    return absl::InvalidArgumentError(absl::StrCat("'", step.name, "' is set as a whole: write ", step.name,
                                                   "=A,B and not ", step.name, "[", step.index, "]"));
  }
  if (field->message_type() == nullptr) {
    TETHYS_RETURN_IF_ERROR(CheckIndex(step, *field, holder));
    return SetScalar(*field, std::string(value), holder);
  }
  TETHYS_ASSIGN_OR_RETURN(Message * message, Descend(step, holder));
  return SetMessage(*field, value, *message);
}

}  // namespace

std::string UnknownFieldText(const Descriptor& type, absl::string_view name) {
  std::string renamed = RenamedText(type, name);
  if (!renamed.empty()) return renamed;
  const std::vector<std::string> names = FieldNames(type);
  if (names.empty()) return absl::StrCat(type.name(), " has no field '", name, "': it has no fields at all");
  const std::string elsewhere = ElsewhereText(type, name);
  const std::string choice = OtherChoiceText(type, name);
  if (elsewhere.empty() && choice.empty()) {
    return absl::StrCat(type.name(), " has no field '", name, "'", Known("it has", name, names));
  }
  return absl::StrCat(type.name(), " has no field '", name, "'", choice.empty() ? elsewhere : choice,
                      "; it has: ", absl::StrJoin(names, ", "));
}

std::string UnknownValueText(const FieldDescriptor& field, absl::string_view value) {
  if (field.enum_type()->name() == "Precision" && absl::EqualsIgnoreCase(value, "fp16")) {
    return absl::StrCat(field.name(),
                        " FP16 is refused: gradients in FP16 underflow unless losses are scaled. Write BF16, "
                        "which has the range of float32 and needs no scaling");
  }
  const std::vector<std::string> names = ValueNames(field);
  return absl::StrCat("'", value, "' is not a value of ", field.name(),
                      Known("its values are", value, names));
}

absl::StatusOr<std::vector<PathStep>> ParsePath(absl::string_view path) {
  std::vector<PathStep> steps;
  for (absl::string_view part : absl::StrSplit(path, '.')) {
    PathStep step;
    const size_t bracket = part.find('[');
    step.name = std::string(part.substr(0, bracket));
    if (bracket != absl::string_view::npos) {
      absl::string_view index = part.substr(bracket + 1);
      if (!absl::ConsumeSuffix(&index, "]") || !absl::SimpleAtoi(index, &step.index) || step.index < 0) {
        return absl::InvalidArgumentError(absl::StrCat("'", part, "': write an index as ", step.name, "[0]"));
      }
    }
    if (step.name.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", path, "' is not a path of field names joined by dots"));
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

absl::Status SetField(absl::string_view path, absl::string_view value, Message& root) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<PathStep> steps, ParsePath(path));
  Message* holder = &root;
  std::string passed;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const FieldDescriptor* field = holder->GetDescriptor()->FindFieldByName(steps[i].name);
    if (field != nullptr) TETHYS_RETURN_IF_ERROR(CheckChoice(passed, *field, *holder));
    TETHYS_ASSIGN_OR_RETURN(holder, Descend(steps[i], *holder));
    absl::StrAppend(&passed, passed.empty() ? "" : ".", steps[i].name,
                    steps[i].index < 0 ? "" : absl::StrCat("[", steps[i].index, "]"));
  }
  return SetLast(steps.back(), value, *holder);
}

bool IsOfAnotherChoice(absl::string_view path, const Message& root) {
  const absl::StatusOr<std::vector<PathStep>> steps = ParsePath(path);
  if (!steps.ok()) return false;
  const Message* holder = &root;
  for (size_t i = 0; i + 1 < steps->size(); ++i) {
    const PathStep& step = (*steps)[i];
    const FieldDescriptor* field = holder->GetDescriptor()->FindFieldByName(step.name);
    if (field == nullptr || field->message_type() == nullptr) return false;
    if (OtherChoice(*field, *holder) != nullptr) return true;
    const Reflection& reflection = *holder->GetReflection();
    if (!field->is_repeated()) {
      holder = &reflection.GetMessage(*holder, field);
    } else if (step.index >= 0 && step.index < reflection.FieldSize(*holder, field)) {
      holder = &reflection.GetRepeatedMessage(*holder, field, step.index);
    } else {
      return false;
    }
  }
  return false;
}

}  // namespace tethys
