// ShellCall works as follows. The call starts sh and passes the script as several arguments, the pieces. In a
// piece, each byte that a login shell may change is written in octal digits. sh joins the pieces by its own
// printf and evaluates the resulting text:
//
//   exec sh -c 'eval "$(printf %b "$@")"' sh 'PIECE' 'PIECE' ...
//
// csh ends a quoted string at a line end, expands '!' inside quotes and limits the length of words; fish
// reads backslashes inside quotes. Standard input stays free for the script.
#include "deploy/process/remote_shell.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace tethys {
namespace {

constexpr size_t kMaxPiece = 500;

bool ReadAlikeInQuotes(unsigned char byte) {
  return absl::ascii_isprint(byte) && byte != '\'' && byte != '\\' && byte != '!';
}

}  // namespace

std::string ShellQuote(const std::string& word) {
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

std::string ShellWord(const std::string& word) {
  constexpr char kPlain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=+@%";
  const bool plain = !word.empty() && word.find_first_not_of(kPlain) == std::string::npos;
  return plain ? word : ShellQuote(word);
}

std::string ShellCall(const std::string& script) {
  std::string call = R"sh(exec sh -c 'eval "$(printf %b "$@")"' sh)sh";
  std::string piece;
  const auto end_piece = [&] {
    absl::StrAppend(&call, " '", piece, "'");
    piece.clear();
  };
  for (const char c : script) {
    const auto byte = static_cast<unsigned char>(c);
    if (ReadAlikeInQuotes(byte)) {
      piece += c;
    } else {
      absl::StrAppendFormat(&piece, "\\0%03o", static_cast<int>(byte));
    }
    if (piece.size() >= kMaxPiece) end_piece();
  }
  if (!piece.empty()) end_piece();
  return call;
}

std::string MarkedShellCall(const std::string& script) {
  return ShellCall(
      absl::StrCat("printf '", absl::StrReplaceAll(kOutputMark, {{"\n", "\\n"}}), "'\n", script));
}

absl::string_view MarkSkipper::Skip(absl::string_view bytes) {
  if (found_) return bytes;
  tail_.append(bytes.data(), bytes.size());
  const size_t at = tail_.find(mark_);
  if (at == std::string::npos) {
    tail_.erase(0, tail_.size() - std::min(tail_.size(), mark_.size() - 1));
    return {};
  }
  found_ = true;
  const size_t behind = tail_.size() - at - mark_.size();
  tail_.clear();
  return bytes.substr(bytes.size() - behind);
}

}  // namespace tethys
