// Recognises a file's format from its first bytes, for errors about a wrong file: a pickle of Python in place
// of CIFAR, a web page in place of a download. Any thread.
#ifndef TETHYS_RUNTIME_DATA_KNOWN_FORMAT_H_
#define TETHYS_RUNTIME_DATA_KNOWN_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/data/byte_source.h"

namespace tethys {

// The number of first bytes that is enough to recognise every known format.
inline constexpr int64_t kTellingBytes = 512;

struct KnownFormat {
  absl::string_view name;    // For example "a pickle of Python"; empty if the format is unknown.
  absl::string_view remedy;  // Advice for the user, as an imperative.
  bool text = false;         // True if a file of this format can be text only.
};

// `begin`: the first kTellingBytes bytes of a file, or all bytes of a shorter file.
KnownFormat FormatOfBytes(absl::Span<const uint8_t> begin);

// True if no byte is a control character other than a tab or an end of line, as in text.
bool HoldsTextOnly(absl::Span<const uint8_t> begin);

// "; it is NAME: REMEDY", for the end of an error; empty if the format is unknown or the file cannot be read.
// Blocks on a read of the file.
std::string WhatItIs(const ByteSource& file);
std::string WhatItIs(absl::Span<const uint8_t> begin);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_KNOWN_FORMAT_H_
