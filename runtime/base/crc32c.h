// CRC-32C (Castagnoli), as TFRecord frames its records with it. A byte at a time, some 400 MB/s: for
// telemetry, not for bulk data. Pure; any thread.
#ifndef TETHYS_RUNTIME_BASE_CRC32C_H_
#define TETHYS_RUNTIME_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace tethys {

uint32_t Crc32c(absl::string_view data);

// As TFRecord stores it: turned by 15 bits, plus a constant, so that a sum over data that holds its own sum
// is not zero.
uint32_t MaskedCrc32c(absl::string_view data);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_CRC32C_H_
