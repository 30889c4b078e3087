// The command line of one verb: the flags that the verb takes, the words that the user gave, and the text of
// --help. Hand-written because a flag library with global state would let one verb see the flags of another.
// Pure; any thread.
#ifndef TETHYS_DEPLOY_FLAGS_FLAGS_H_
#define TETHYS_DEPLOY_FLAGS_FLAGS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"

namespace tethys {

struct FlagSpec {
  std::string name = {};   // The flag's name, without dashes.
  std::string value = {};  // The value's name in --help, such as "DIR". Empty: the flag takes no value.
  std::string help = {};
  bool required = false;
  bool repeated = false;
  bool is_input = false;  // The value is a file that the command reads, maybe several times (piped_files.h).
};

// The flag by which a user replaces fields of a job.
FlagSpec SetFlag(const std::string& help = "Replaces a field of the job.");

// The number of words that the verb takes as positional arguments.
enum class ArgumentCount {
  kOne,
  kWords,  // The words that CommandSpec::argument shows, for example "show|convert JOB".
  kAny,    // Any number of arguments.
};

struct CommandSpec {
  std::string verb = {};
  std::string summary = {};      // One line, for the list of verbs.
  std::string description = {};  // Paragraphs, for --help.
  std::string argument = {};     // Name of the positional argument, such as "JOB"; empty if there is none.
  bool argument_optional = false;
  ArgumentCount count = ArgumentCount::kOne;
  std::vector<FlagSpec> flags = {};
  std::vector<std::string> examples = {};
  bool hidden = false;  // True: not in the list of verbs, because only launchers call the verb.
};

// A parsed command line. Callers must name only flags that the spec has.
class Flags {
 public:
  bool Has(const std::string& name) const { return values_.count(name) > 0; }
  // The last value given, or `otherwise` if the flag is not given.
  std::string Get(const std::string& name, const std::string& otherwise = "") const;
  std::vector<std::string> GetAll(const std::string& name) const;
  // Like Get, for numbers. InvalidArgument: the value is not a whole number in [least, most].
  absl::StatusOr<int64_t> GetInteger(const std::string& name, int64_t otherwise, int64_t least,
                                     int64_t most) const;
  // A percentage, such as "20" or "20%", as a share. InvalidArgument: the value is not in [0, 100].
  absl::StatusOr<double> GetPercent(const std::string& name, double otherwise) const;
  const std::vector<std::string>& arguments() const { return arguments_; }
  // Replace all values of a flag by one value, and an argument by another argument.
  void Replace(const std::string& name, const std::string& value) { values_[name] = {value}; }
  void ReplaceArgument(size_t index, const std::string& argument) { arguments_[index] = argument; }
  // All words of the command line, as the user gave them.
  const std::vector<std::string>& words() const { return words_; }

 private:
  friend absl::StatusOr<Flags> ParseFlags(const CommandSpec& spec, absl::Span<const std::string> words);
  std::map<std::string, std::vector<std::string>> values_;
  std::vector<std::string> arguments_;
  std::vector<std::string> words_;
};

// Accepts --name=value, --name value, and --switch; "--" ends the flags. InvalidArgument names the wrong word
// and, if the word is an unknown flag, the known flag that it resembles.
absl::StatusOr<Flags> ParseFlags(const CommandSpec& spec, absl::Span<const std::string> words);

std::string HelpText(const CommandSpec& spec);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FLAGS_FLAGS_H_
