#include "runtime/base/plain_letters.h"

#include <cstdint>
#include <iterator>

namespace tethys {
namespace {

// The letters U+00C0 to U+017F without accents; "_": the character is no letter.
constexpr const char* kPlain[] = {
    "A", "A", "A", "A",  "A", "A", "AE", "C", "E",  "E",  "E",  "E", "I", "I", "I",  "I",  // From U+00C0 on.
    "D", "N", "O", "O",  "O", "O", "O",  "_", "O",  "U",  "U",  "U", "U", "Y", "Th", "ss", "a",  "a", "a",
    "a", "a", "a", "ae", "c", "e", "e",  "e", "e",  "i",  "i",  "i", "i", "d", "n",  "o",  "o",  "o", "o",
    "o", "_", "o", "u",  "u", "u", "u",  "y", "th", "y",  "A",  "a", "A", "a", "A",  "a",  "C",  "c", "C",
    "c", "C", "c", "C",  "c", "D", "d",  // From U+0100 on.
    "D", "d", "E", "e",  "E", "e", "E",  "e", "E",  "e",  "E",  "e", "G", "g", "G",  "g",  "G",  "g", "G",
    "g", "H", "h", "H",  "h", "I", "i",  "I", "i",  "I",  "i",  "I", "i", "I", "i",  "IJ", "ij", "J", "j",
    "K", "k", "k", "L",  "l", "L", "l",  "L", "l",  "L",  "l",  "L", "l", "N", "n",  "N",  "n",  "N", "n",
    "n", "N", "n", "O",  "o", "O", "o",  "O", "o",  "OE", "oe", "R", "r", "R", "r",  "R",  "r",  "S", "s",
    "S", "s", "S", "s",  "S", "s", "T",  "t", "T",  "t",  "T",  "t", "U", "u", "U",  "u",  "U",  "u", "U",
    "u", "U", "u", "U",  "u", "W", "w",  "Y", "y",  "Y",  "Z",  "z", "Z", "z", "Z",  "z",  "s"};
constexpr uint32_t kFirst = 0xc0, kFirstAccent = 0x300, kLastAccent = 0x36f;

}  // namespace

std::string PlainLetters(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<uint8_t>(text[i++]);
    if (first < 0x80) {
      plain += static_cast<char>(first);
      continue;
    }
    uint32_t character = first & (first < 0xe0 ? 0x1f : first < 0xf0 ? 0x0f : 0x07);
    while (i < text.size() && (static_cast<uint8_t>(text[i]) & 0xc0) == 0x80) {
      character = character << 6 | (static_cast<uint8_t>(text[i++]) & 0x3f);
    }
    if (character >= kFirstAccent && character <= kLastAccent) continue;
    const bool latin = first >= 0xc0 && character >= kFirst && character < kFirst + std::size(kPlain);
    plain += latin ? kPlain[character - kFirst] : "_";
  }
  return plain;
}

}  // namespace tethys
