#include "deploy/report/job_differences.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/shape_words.h"
#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::TextFormat;

constexpr char kAbsent[] = "none";

// Messages of one type, one per job; null for a job without such a message.
using Messages = std::vector<const Message*>;

// True if the names of variants contain the value of this field (ShortNames, and the report's names).
bool InName(const std::string& field) {
  for (const char* named : {"strategy", "strategy.parameter_server.consistency", "workers",
                            "strategy.parameter_server.servers", "batch", "global_batch_size",
                            "batch_size_per_worker", "strategy.parameter_server.stale_synchronous.bound"}) {
    if (field == named) return true;
  }
  return false;
}

// True for fields in which variants may differ without any effect on training. For example, the price may be
// the sum over a variant's hosts.
bool IsAside(const std::string& field) {
  return field == "name" || field == "seed" || field == "price_per_hour";
}

class Comparer {
 public:
  std::vector<proto::JobDifference> Compare(absl::Span<const proto::Job> jobs) {
    jobs_ = jobs;
    Messages messages;
    for (const proto::Job& job : jobs) messages.push_back(&job);
    CompareFields(*proto::Job::descriptor(), messages, "");
    return std::move(found_);
  }

 private:
  void CompareFields(const Descriptor& type, const Messages& messages, const std::string& prefix) {
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (prefix.empty() && IsAside(field.name())) continue;
      const OneofDescriptor* oneof = field.real_containing_oneof();
      if (oneof != nullptr && oneof->field(0) == &field) CompareChoices(*oneof, messages, prefix);
      CompareField(field, messages, absl::StrCat(prefix, field.name()));
    }
  }

  // Compares which member of a oneof each job chose. If the only oneof of a message is called `kind`, the
  // difference has the path of the message, such as `strategy`, as in --set.
  void CompareChoices(const OneofDescriptor& oneof, const Messages& messages, const std::string& prefix) {
    const bool only = oneof.containing_type()->real_oneof_decl_count() == 1 && oneof.name() == "kind";
    const std::string path = only ? prefix.substr(0, prefix.size() - 1) : absl::StrCat(prefix, oneof.name());
    std::vector<std::string> values;
    for (const Message* message : messages) {
      const FieldDescriptor* chosen =
          message == nullptr ? nullptr : message->GetReflection()->GetOneofFieldDescriptor(*message, &oneof);
      values.push_back(message == nullptr ? "" : chosen == nullptr ? kAbsent : chosen->name());
    }
    Add(path, std::move(values));
  }

  void CompareField(const FieldDescriptor& field, const Messages& messages, const std::string& path) {
    if (field.is_repeated()) return CompareLists(field, messages, path);
    if (field.message_type() != nullptr) return CompareMessages(field, messages, path);
    std::vector<std::string> values;
    for (const Message* message : messages) values.push_back(ValueText(message, field, -1));
    Add(path, std::move(values));
  }

  void CompareMessages(const FieldDescriptor& field, const Messages& messages, const std::string& path) {
    Messages parts;
    std::vector<std::string> presence;
    for (const Message* message : messages) {
      const bool has = message != nullptr && message->GetReflection()->HasField(*message, &field);
      parts.push_back(has ? &message->GetReflection()->GetMessage(*message, &field) : nullptr);
      presence.push_back(message == nullptr ? "" : has ? "given" : kAbsent);
    }
    if (field.real_containing_oneof() == nullptr) Add(path, std::move(presence));
    if (std::count(parts.begin(), parts.end(), nullptr) + 1 < parts.size()) {
      CompareFields(*field.message_type(), parts, absl::StrCat(path, "."));
    }
  }

  // Lists of messages are compared by element if all have the same length. Other lists are compared by their
  // text.
  void CompareLists(const FieldDescriptor& field, const Messages& messages, const std::string& path) {
    std::vector<int> sizes;
    for (const Message* message : messages) {
      if (message != nullptr) sizes.push_back(message->GetReflection()->FieldSize(*message, &field));
    }
    const bool alike = std::all_of(sizes.begin(), sizes.end(), [&](int size) { return size == sizes[0]; });
    if (!alike || field.message_type() == nullptr) {
      std::vector<std::string> values;
      for (const Message* message : messages) values.push_back(ListText(message, field));
      Add(path, std::move(values));
      return;
    }
    for (int i = 0; !sizes.empty() && i < sizes[0]; ++i) {
      Messages elements;
      for (const Message* message : messages) {
        elements.push_back(message == nullptr
                               ? nullptr
                               : &message->GetReflection()->GetRepeatedMessage(*message, &field, i));
      }
      CompareFields(*field.message_type(), elements, absl::StrCat(path, "[", i, "]."));
    }
  }

  static std::string ListText(const Message* message, const FieldDescriptor& field) {
    if (message == nullptr) return "";
    const int size = message->GetReflection()->FieldSize(*message, &field);
    if (field.message_type() != nullptr) return absl::StrCat(size, size == 1 ? " entry" : " entries");
    std::vector<std::string> items;
    for (int i = 0; i < size; ++i) items.push_back(ValueText(message, field, i));
    return size == 0 ? kAbsent : absl::StrJoin(items, " ");
  }

  // `index`: -1 for a field that is not repeated.
  static std::string ValueText(const Message* message, const FieldDescriptor& field, int index) {
    if (message == nullptr) return "";
    const auto& reflection = *message->GetReflection();
    if (index < 0 && field.has_presence() && !reflection.HasField(*message, &field)) {
      return field.real_containing_oneof() != nullptr ? "" : kAbsent;
    }
    std::string text;
    TextFormat::PrintFieldValueToString(*message, &field, index, &text);
    return text;
  }

  // Adds a difference if two non-empty values differ. The values of jobs that do not use the field do not
  // count.
  void Add(const std::string& field, std::vector<std::string> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (!UsesField(field, jobs_[i])) values[i].clear();
    }
    const std::string* first = nullptr;
    bool differ = false;
    for (const std::string& value : values) {
      if (value.empty()) continue;
      differ = differ || (first != nullptr && value != *first);
      first = &value;
    }
    if (!differ) return;
    proto::JobDifference& difference = found_.emplace_back();
    difference.set_field(field);
    difference.set_in_name(InName(field));
    for (std::string& value : values) difference.add_value(std::move(value));
  }

  absl::Span<const proto::Job> jobs_;
  std::vector<proto::JobDifference> found_;
};

// The last part of a field's path with its value, for a name: "learning_rate 0.1".
std::string ShortValue(const std::string& field, const std::string& value) {
  return absl::StrCat(field.substr(field.rfind('.') + 1), " ", value.empty() ? kAbsent : value);
}

}  // namespace

std::vector<proto::JobDifference> JobDifferences(absl::Span<const proto::Job> jobs) {
  if (jobs.size() < 2) return {};
  return Comparer().Compare(jobs);
}

std::string DifferencesText(absl::Span<const proto::JobDifference> differences,
                            absl::Span<const std::string> names) {
  std::vector<std::string> texts;
  for (const proto::JobDifference& difference : differences) {
    if (difference.in_name()) continue;
    // Each value, with the names of the jobs that have this value.
    std::vector<std::pair<std::string, std::vector<std::string>>> groups;
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string& value = difference.value(static_cast<int>(i));
      if (value.empty()) continue;
      auto group =
          std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == value; });
      if (group == groups.end()) group = groups.insert(groups.end(), {value, {}});
      if (std::count(group->second.begin(), group->second.end(), names[i]) == 0) {
        group->second.push_back(names[i]);
      }
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const bool others = groups.back().second.size() > 1;
    std::vector<std::string> parts;
    for (const auto& [value, of] : groups) {
      const bool last = parts.size() + 1 == groups.size();
      parts.push_back(
          absl::StrCat(value, " for ", last && others ? "all others" : absl::StrJoin(of, " and ")));
    }
    texts.push_back(absl::StrCat(difference.field(), ": ", absl::StrJoin(parts, ", ")));
  }
  return absl::StrJoin(texts, "; ");
}

std::vector<std::string> ShortNames(absl::Span<const proto::Job> jobs) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<size_t>> by_shape;
  for (const proto::Job& job : jobs) {
    by_shape[ShapeWords(ShapeOf(job))].push_back(names.size());
    names.push_back(ShapeWords(ShapeOf(job)));
  }
  for (const auto& [shape, alike] : by_shape) {
    std::vector<proto::Job> of_shape;
    std::set<int64_t> batches;
    for (const size_t i : alike) {
      of_shape.push_back(jobs[i]);
      batches.insert(GlobalBatch(jobs[i]));
    }
    if (batches.size() > 1) {
      for (const size_t i : alike) absl::StrAppend(&names[i], ", batch ", GlobalBatch(jobs[i]));
    }
    for (const proto::JobDifference& difference : JobDifferences(of_shape)) {
      if (difference.in_name()) continue;
      for (size_t i = 0; i < alike.size(); ++i) {
        absl::StrAppend(&names[alike[i]], ", ",
                        ShortValue(difference.field(), difference.value(static_cast<int>(i))));
      }
    }
  }
  return names;
}

}  // namespace tethys
