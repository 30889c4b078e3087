#include "runtime/base/crc32c.h"

#include <array>

namespace tethys {
namespace {

constexpr uint32_t kReversedPolynomial = 0x82f63b78;

// What each byte adds to the sum.
constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? kReversedPolynomial : 0);
    table[byte] = sum;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

}  // namespace

uint32_t Crc32c(absl::string_view data) {
  uint32_t sum = 0xffffffff;
  for (const char c : data) sum = (sum >> 8) ^ kTable[(sum ^ static_cast<uint8_t>(c)) & 0xff];
  return ~sum;
}

uint32_t MaskedCrc32c(absl::string_view data) {
  const uint32_t sum = Crc32c(data);
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8;
}

}  // namespace tethys
