// The places in job files where the fields of a job got their values, for messages to the user. Pure;
// thread-compatible.
#ifndef TETHYS_RUNTIME_JOB_FIELD_PLACES_H_
#define TETHYS_RUNTIME_JOB_FIELD_PLACES_H_

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace tethys {

// Invariants:
// 1. Keys are paths of fields that have a value, with an index for each element of a list:
//    "model.layer[1].dense.units". If a path is a key, the paths of the messages around it are keys too.
// 2. The value of a key is the field's place in the last added file that wrote the field. Fields that a later
// file replaced have no keys.
class FieldPlaces {
 public:
  // Adds the places of one file. They replace the places of earlier files as the values of the file replace
  // earlier values (PutOver in job_layers.h). `message` is the message parsed from `file`, and `tree` holds
  // the places that the parser recorded.
  void PutOver(const std::string& file, const google::protobuf::Message& message,
               const google::protobuf::TextFormat::ParseInfoTree& tree);

  // "FILE:LINE:COLUMN" of the field, or of the nearest message around it that has a place; if there is no
  // such message, the name of the last added file. The place of a whole list is the place of its first
  // element.
  std::string Find(absl::string_view path) const;

  // Removes the places of a field and of all fields within it.
  void Erase(const std::string& path);

 private:
  void Add(const std::string& prefix, const google::protobuf::Message& message,
           const google::protobuf::TextFormat::ParseInfoTree* tree);

  std::string file_;
  const google::protobuf::Descriptor* type_ = nullptr;
  std::map<std::string, std::string> places_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_FIELD_PLACES_H_
