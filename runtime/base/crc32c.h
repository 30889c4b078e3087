// CRC-32C (Castagnoli's polynomial, RFC 3720): the checksum of payloads, and of records as TFRecord frames
// them. Processors have instructions for it (SSE4.2, ARMv8's CRC), which are used where they are there: 27
// GB/s at 3.4 GHz, without them 1.8.
//
//   uint32_t crc = 0;
//   for (const absl::string_view piece : pieces) crc = Crc32c(piece, crc);
//
// Pure; any thread.
#ifndef TETHYS_RUNTIME_BASE_CRC32C_H_
#define TETHYS_RUNTIME_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace tethys {

// Of data that follow others, whose checksum is `before`; 0: of the first.
uint32_t Crc32c(absl::string_view data, uint32_t before = 0);

// The same without instructions of the processor, for tests.
uint32_t PortableCrc32c(absl::string_view data, uint32_t before = 0);

// As TFRecord stores it: turned by 15 bits, plus a constant, so that a sum over data that holds its own sum
// is not zero.
uint32_t MaskedCrc32c(absl::string_view data);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_CRC32C_H_
