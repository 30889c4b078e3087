#include "runtime/job/field_numbers.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status.h"

namespace tethys {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void ForEachField(absl::string_view path, Message& root, const FieldVisitor& visit) {
  const std::function<void(absl::string_view, Message&, const std::string&)> walk =
      [&](absl::string_view rest, Message& holder, const std::string& prefix) {
        const std::pair<absl::string_view, absl::string_view> split =
            absl::StrSplit(rest, absl::MaxSplits('.', 1));
        const FieldDescriptor* field = holder.GetDescriptor()->FindFieldByName(std::string(split.first));
        TETHYS_CHECK(field != nullptr, rest);
        const std::string name = absl::StrCat(prefix, field->name());
        const Reflection& reflection = *holder.GetReflection();
        if (split.second.empty()) {
          visit(holder, *field, name);
        } else if (field->is_repeated()) {
          for (int i = 0; i < reflection.FieldSize(holder, field); ++i) {
            walk(split.second, *reflection.MutableRepeatedMessage(&holder, field, i),
                 absl::StrCat(name, "[", i, "]."));
          }
        } else if (reflection.HasField(holder, field)) {
          walk(split.second, *reflection.MutableMessage(&holder, field), absl::StrCat(name, "."));
        }
      };
  walk(path, root, "");
}

double GetNumber(const Message& holder, const FieldDescriptor& field) {
  const Reflection& reflection = *holder.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetInt32(holder, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(reflection.GetInt64(holder, &field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.GetUInt32(holder, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<double>(reflection.GetUInt64(holder, &field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.GetFloat(holder, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetDouble(holder, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(holder, &field) ? 1 : 0;
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.GetEnumValue(holder, &field);
    default:
      TETHYS_CHECK(false, field.full_name(), " is not a number");
      return 0;
  }
}

void SetNumber(double value, const FieldDescriptor& field, Message& holder) {
  const Reflection& reflection = *holder.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(&holder, &field, static_cast<int32_t>(value));
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(&holder, &field, static_cast<int64_t>(value));
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(&holder, &field, static_cast<uint32_t>(value));
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(&holder, &field, static_cast<uint64_t>(value));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(&holder, &field, static_cast<float>(value));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(&holder, &field, value);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&holder, &field, value != 0);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnumValue(&holder, &field, static_cast<int>(value));
    default:
      TETHYS_CHECK(false, field.full_name(), " is not a number");
  }
}

}  // namespace tethys
