// Parses messages in protobuf's text format; invalid text is refused without printing an error.
#ifndef TETHYS_TESTS_FUZZ_TEXT_MESSAGE_H_
#define TETHYS_TESTS_FUZZ_TEXT_MESSAGE_H_

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <string>

#include "absl/strings/string_view.h"

namespace tethys::fuzz {

inline bool ParseText(absl::string_view text, google::protobuf::Message& message) {
  class Silence final : public google::protobuf::io::ErrorCollector {
    void AddError(int, int, const std::string&) override {}
  };
  Silence silence;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silence);
  return parser.ParseFromString(std::string(text), &message);
}

}  // namespace tethys::fuzz

#endif  // TETHYS_TESTS_FUZZ_TEXT_MESSAGE_H_
