// Damages a message in many ways, for tests of states that come from files: a damaged state must be refused,
// or must give an object that can be used.
//
//   testing::MessageChanges([&] { ... read `state` ... }).Of(state);
#ifndef TETHYS_TESTS_TESTING_MESSAGE_CHANGES_H_
#define TETHYS_TESTS_TESTING_MESSAGE_CHANGES_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

namespace tethys::testing {

// Changes each field within a message, one at a time, calls visit(), and undoes the change.
class MessageChanges {
 public:
  using Message = google::protobuf::Message;
  using Reflection = google::protobuf::Reflection;
  using FieldDescriptor = google::protobuf::FieldDescriptor;

  explicit MessageChanges(std::function<void()> visit) : visit_(std::move(visit)) {}

  void Of(Message& part) {
    const Reflection& reflection = *part.GetReflection();
    for (int i = 0; i < part.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* field = part.GetDescriptor()->field(i);
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        OfMessages(part, reflection, field);
      } else if (field->is_repeated()) {
        OfList(part, reflection, field);
      } else {
        OfNumber(part, reflection, field);
      }
    }
  }

 private:
  void OfMessages(Message& part, const Reflection& reflection, const FieldDescriptor* field) {
    if (!field->is_repeated()) {
      if (!reflection.HasField(part, field)) return;
      Of(*reflection.MutableMessage(&part, field));
      Without(part, reflection, field);
      return;
    }
    const int size = reflection.FieldSize(part, field);
    if (size == 0) return;
    for (int i = 0; i < size && i < 3; ++i) Of(*reflection.MutableRepeatedMessage(&part, field, i));
    reflection.AddMessage(&part, field)->CopyFrom(reflection.GetRepeatedMessage(part, field, 0));
    visit_();
    reflection.RemoveLast(&part, field);
    if (size > 1) {
      reflection.SwapElements(&part, field, 0, size - 1);
      visit_();
      reflection.SwapElements(&part, field, 0, size - 1);
    }
    Without(part, reflection, field);
  }
  void OfList(Message& part, const Reflection& reflection, const FieldDescriptor* field) {
    if (reflection.FieldSize(part, field) > 0) Without(part, reflection, field);
  }
  void Without(Message& part, const Reflection& reflection, const FieldDescriptor* field) {
    const std::unique_ptr<Message> before(part.New());
    before->CopyFrom(part);
    reflection.ClearField(&part, field);
    visit_();
    part.CopyFrom(*before);
  }
  void OfNumber(Message& part, const Reflection& reflection, const FieldDescriptor* field) {
    const std::unique_ptr<Message> before(part.New());
    before->CopyFrom(part);
    for (int value = 0; field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM && value < 10; ++value) {
      reflection.SetEnumValue(&part, field, value);
      visit_();
    }
    constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
    for (const int64_t value : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{1} << 50, kLargest}) {
      switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_INT32:
          reflection.SetInt32(&part, field, static_cast<int32_t>(value > 1 ? value >> 32 : value));
          break;
        case FieldDescriptor::CPPTYPE_INT64:
          reflection.SetInt64(&part, field, value);
          break;
        case FieldDescriptor::CPPTYPE_UINT32:
          reflection.SetUInt32(&part, field, static_cast<uint32_t>(value));
          break;
        case FieldDescriptor::CPPTYPE_BOOL:
          reflection.SetBool(&part, field, value == 1);
          break;
        default:
          part.CopyFrom(*before);
          return;
      }
      visit_();
    }
    part.CopyFrom(*before);
  }

  const std::function<void()> visit_;
};

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_MESSAGE_CHANGES_H_
