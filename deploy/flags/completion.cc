#include "deploy/flags/completion.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tethys {
namespace {

// A command line up to its cursor: complete words, and the beginning of the word at the cursor.
struct UnfinishedLine {
  std::vector<std::string> words;
  std::string last;
};

// Puts the words together that bash has made of one word with "=".
UnfinishedLine JoinAtEquals(absl::Span<const std::string> words, size_t cursor) {
  UnfinishedLine line;
  const size_t count = std::min(cursor + 1, words.size());
  for (size_t i = 0; i < count; ++i) {
    const bool joins = i > 0 && !line.words.empty() && absl::StartsWith(line.words.back(), "--") &&
                       (words[i] == "=" || words[i - 1] == "=");
    if (joins) {
      line.words.back() += words[i];
    } else {
      line.words.push_back(words[i]);
    }
  }
  if (cursor >= words.size() || line.words.empty()) return line;
  line.last = std::move(line.words.back());
  line.words.pop_back();
  return line;
}

const FlagSpec* FindFlag(const CommandSpec& spec, absl::string_view word) {
  if (!absl::ConsumePrefix(&word, "--")) return nullptr;
  const auto found = std::find_if(spec.flags.begin(), spec.flags.end(),
                                  [&](const FlagSpec& flag) { return flag.name == word; });
  return found == spec.flags.end() ? nullptr : &*found;
}

class Completer {
 public:
  Completer(absl::Span<const CommandSpec> specs, UnfinishedLine line, const CompletionSources& sources)
      : specs_(specs), line_(std::move(line)), sources_(sources) {}

  std::vector<std::string> Words() const {
    if (line_.words.empty()) return {};
    if (line_.words.size() == 1) return Matching(Verbs(), "");
    const auto spec = std::find_if(specs_.begin(), specs_.end(), [&](const CommandSpec& candidate) {
      return candidate.verb == line_.words[1];
    });
    if (spec == specs_.end()) return {};
    const size_t equals = line_.last.find('=');
    if (const FlagSpec* flag = FindFlag(*spec, line_.words.back()); flag != nullptr && !flag->value.empty()) {
      return Matching(Values(flag->value, line_.last), "");
    }
    if (!absl::StartsWith(line_.last, "-")) return Matching(Arguments(*spec), "");
    if (equals == std::string::npos) return Matching(FlagsOf(*spec), "");
    const FlagSpec* const flag = FindFlag(*spec, line_.last.substr(0, equals));
    if (flag == nullptr) return {};
    return Matching(Values(flag->value, line_.last.substr(equals + 1)), line_.last.substr(0, equals + 1));
  }

 private:
  // The candidates behind `prefix` that begin as the word at the cursor does.
  std::vector<std::string> Matching(const std::vector<std::string>& candidates,
                                    const std::string& prefix) const {
    std::vector<std::string> matching;
    for (const std::string& candidate : candidates) {
      std::string word = prefix + candidate;
      if (absl::StartsWith(word, line_.last)) matching.push_back(std::move(word));
    }
    return matching;
  }

  std::vector<std::string> Verbs() const {
    std::vector<std::string> verbs;
    for (const CommandSpec& spec : specs_) {
      if (!spec.hidden) verbs.push_back(spec.verb);
    }
    return verbs;
  }

  // The flags that may still be given.
  std::vector<std::string> FlagsOf(const CommandSpec& spec) const {
    std::vector<std::string> names = {"--help"};
    for (const FlagSpec& flag : spec.flags) {
      const std::string name = absl::StrCat("--", flag.name);
      const bool given = std::any_of(line_.words.begin(), line_.words.end(), [&](const std::string& word) {
        return word == name || absl::StartsWith(word, name + "=");
      });
      if (!given || flag.repeated) names.push_back(absl::StrCat(name, flag.value.empty() ? "" : "="));
    }
    return names;
  }

  std::vector<std::string> Arguments(const CommandSpec& spec) const {
    const std::vector<std::string> names = absl::StrSplit(spec.argument, ' ', absl::SkipEmpty());
    size_t position = 0;
    for (size_t i = 2; i < line_.words.size(); ++i) {
      const FlagSpec* const before = FindFlag(spec, line_.words[i - 1]);
      const bool is_value = before != nullptr && !before->value.empty();
      if (!is_value && !absl::StartsWith(line_.words[i], "-")) ++position;
    }
    if (position >= names.size()) return {};
    return Values(absl::StripSuffix(absl::StripPrefix(names[position], "["), "]"), line_.last);
  }

  // The candidates for a value or an argument that --help shows as `shown`, of which `begun` is written.
  std::vector<std::string> Values(absl::string_view shown, const std::string& begun) const {
    if (absl::StartsWith(shown, "FIELD=")) return FieldValues(begun);
    if (shown == "VERB") return Verbs();
    if (shown == "RUN") return sources_.runs(RunsFolder());
    std::vector<std::string> values;
    if (shown == "RUN_DIR") {
      for (const std::string& run : sources_.runs(RunsFolder())) {
        values.push_back(absl::StrCat(RunsFolder(), "/", run));
      }
      return values;
    }
    // Names of values are written in capitals, and words that are values themselves in small letters.
    for (const absl::string_view word : absl::StrSplit(shown, '|', absl::SkipEmpty())) {
      if (absl::ascii_islower(word[0])) values.emplace_back(word);
    }
    return values;
  }

  // The candidates for FIELD=VALUE, whose value may be a list: "strategy=local,mir".
  std::vector<std::string> FieldValues(const std::string& begun) const {
    const size_t comma = begun.rfind(',');
    if (comma == std::string::npos) return sources_.fields(begun);
    const std::string field = begun.substr(0, begun.find('=') + 1);
    std::vector<std::string> values;
    for (const std::string& candidate : sources_.fields(field + begun.substr(comma + 1))) {
      values.push_back(begun.substr(0, comma + 1) + candidate.substr(field.size()));
    }
    return values;
  }

  std::string RunsFolder() const {
    for (const std::string& word : line_.words) {
      absl::string_view folder = word;
      if (absl::ConsumePrefix(&folder, "--runs=") && !folder.empty()) return std::string(folder);
    }
    return "runs";
  }

  const absl::Span<const CommandSpec> specs_;
  const UnfinishedLine line_;
  const CompletionSources& sources_;
};

constexpr char kBash[] =
    R"SCRIPT(# Completion of tethys for bash. In ~/.bashrc: source <(tethys completion bash)
_tethys() {
  local word=${COMP_LINE:0:COMP_POINT} kept=
  word=${word##* }
  # bash replaces only what stands behind the last "=", unless "=" is no border of words.
  [[ $COMP_WORDBREAKS != *=* ]] || kept=${word%"${word##*=}"}
  mapfile -t COMPREPLY < <("$1" __complete "$COMP_CWORD" "${COMP_WORDS[@]}" 2>/dev/null)
  COMPREPLY=("${COMPREPLY[@]#"$kept"}")
  [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *[=.] ]] || compopt -o nospace 2>/dev/null
}
complete -o default -F _tethys tethys
)SCRIPT";

constexpr char kZsh[] = R"SCRIPT(#compdef tethys
# Completion of tethys for zsh. In ~/.zshrc, after compinit: source <(tethys completion zsh)
_tethys() {
  local -a found=("${(@f)$("${words[1]}" __complete $((CURRENT - 1)) "${words[@]}" 2>/dev/null)}")
  found=(${found:#})
  if (( $#found )); then
    compadd -S '' -- ${(M)found:#*[=.]}
    compadd -- ${found:#*[=.]}
  else
    compset -P '--*='
    _files
  fi
}
compdef _tethys tethys
)SCRIPT";

constexpr char kFish[] =
    R"SCRIPT(# Completion of tethys for fish. In config.fish: tethys completion fish | source
function __tethys_words
  set -l words (commandline -opc)
  tethys __complete (count $words) $words (commandline -ct) 2>/dev/null
end
complete -c tethys -f -n 'test -n "$(__tethys_words | string collect)"' -a '(__tethys_words)'
)SCRIPT";

}  // namespace

const char kCompletionShells[] = "bash|zsh|fish";

std::vector<std::string> CompletedWords(absl::Span<const CommandSpec> specs,
                                        absl::Span<const std::string> words, size_t cursor,
                                        const CompletionSources& sources) {
  return Completer(specs, JoinAtEquals(words, cursor), sources).Words();
}

absl::StatusOr<std::string> CompletionScript(absl::string_view shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  return absl::InvalidArgumentError(
      absl::StrCat("there is no completion for '", shell, "': write one of ", kCompletionShells));
}

}  // namespace tethys
