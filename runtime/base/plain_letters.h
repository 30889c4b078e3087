// Text in UTF-8 as ASCII that people still recognise, for names that files and tables hold. Pure; any thread.
#ifndef TETHYS_RUNTIME_BASE_PLAIN_LETTERS_H_
#define TETHYS_RUNTIME_BASE_PLAIN_LETTERS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tethys {

// `text` with letters of Latin alphabets without their accents ("Käse" gives "Kase", "Straße" gives
// "Strasse") and an underscore in place of each other character that is not ASCII. Accents that are
// characters of their own, as in names of files from macOS, are left out.
std::string PlainLetters(absl::string_view text);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_PLAIN_LETTERS_H_
