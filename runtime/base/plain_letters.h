// Converts text in UTF-8 to ASCII that people still recognise, for names in files and tables. Pure; any
// thread.
#ifndef TETHYS_RUNTIME_BASE_PLAIN_LETTERS_H_
#define TETHYS_RUNTIME_BASE_PLAIN_LETTERS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tethys {

// Converts `text`: letters of Latin alphabets lose their accents ("Käse" gives "Kase", "Straße" gives
// "Strasse"), and every other character that is not ASCII becomes an underscore. Accents that are characters
// of their own, as in file names from macOS, are dropped.
std::string PlainLetters(absl::string_view text);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_PLAIN_LETTERS_H_
