// Names what a file is from its first bytes, for errors about a file in whose place another one lies: a
// pickle of Python in place of CIFAR, a page of a web server in place of a download. Any thread.
#ifndef TETHYS_RUNTIME_DATA_KNOWN_FORMAT_H_
#define TETHYS_RUNTIME_DATA_KNOWN_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/data/byte_source.h"

namespace tethys {

// As many first bytes of a file tell every format that is known.
inline constexpr int64_t kTellingBytes = 512;

struct KnownFormat {
  absl::string_view name;    // "a pickle of Python"; empty: unknown.
  absl::string_view remedy;  // An imperative.
  bool text = false;         // Its bytes are text, as those of a CSV file are.
};

// `begin` are the first bytes of a file, kTellingBytes of them or all.
KnownFormat FormatOfBytes(absl::Span<const uint8_t> begin);

// Whether no byte is a control character other than a tab or an end of line, as in text.
bool HoldsTextOnly(absl::Span<const uint8_t> begin);

// "; it is NAME: REMEDY", for the end of an error; empty for a format that is unknown, and for a file that
// cannot be read. Blocks on a read of the file.
std::string WhatItIs(const ByteSource& file);
std::string WhatItIs(absl::Span<const uint8_t> begin);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_KNOWN_FORMAT_H_
