#include "deploy/flags/flags.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "deploy/text.h"
#include "proto/job.pb.h"
#include "runtime/base/nearest_name.h"

namespace tethys {
namespace {

const FlagSpec* Find(const CommandSpec& spec, const std::string& name) {
  for (const FlagSpec& flag : spec.flags) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

// A name that other programs use for one of our flags.
struct OtherName {
  absl::string_view name;
  absl::string_view flag;
};
constexpr OtherName kOtherNames[] = {{"hosts", "hostfile"},
                                     {"machines", "hostfile"},
                                     {"machinefile", "hostfile"},
                                     {"output", "out"},
                                     {"o", "out"},
                                     {"output_dir", "run_dir"},
                                     {"dir", "run_dir"},
                                     {"logdir", "run_dir"},
                                     {"model", "checkpoint"},
                                     {"image", "images"},
                                     {"input", "images"},
                                     {"format", "to"},
                                     {"follow_logs", "follow"},
                                     {"tail", "follow"},
                                     {"f", "follow"}};

// The known flag that the user may have meant by the unknown flag `name`; empty if no known flag resembles
// `name`. Dashes in `name` count as underscores.
std::string FlagMeant(const CommandSpec& spec, const std::string& name) {
  std::vector<std::string> names;
  for (const FlagSpec& known : spec.flags) names.push_back(known.name);
  const std::string plain = absl::StrReplaceAll(name, {{"-", "_"}});
  for (const OtherName& other : kOtherNames) {
    if (plain == other.name && Find(spec, std::string(other.flag)) != nullptr) return std::string(other.flag);
  }
  return NearestName(plain, names);
}

// The error for the argument `word`, which the verb does not take or which is one too many. `before`: the
// word before `word`.
absl::Status UnexpectedArgument(const CommandSpec& spec, const Flags& flags, const std::string& word,
                                const std::string& before) {
  std::string remedy;
  const size_t equals = before.find('=');
  if (absl::StartsWith(before, "--set=") && before.find('=', equals + 1) == std::string::npos) {
    remedy =
        absl::StrCat(": write ", before, absl::StartsWith(word, "=") ? "" : "=", word, ", without a blank");
  } else if (absl::StartsWith(before, "--") && equals == std::string::npos) {
    remedy = absl::StrCat(": ", before, " takes no value");
  } else {
    for (const FlagSpec& flag : spec.flags) {
      if (!flag.required || flag.value.empty() || flags.Has(flag.name)) continue;
      remedy = absl::StrCat(": did you mean --", flag.name, "=", word, "?");
      break;
    }
  }
  if (remedy.empty()) {
    remedy = spec.argument.empty() ? absl::StrCat(": tethys ", spec.verb, " takes only flags")
                                   : absl::StrCat(": tethys ", spec.verb, " takes one ", spec.argument,
                                                  ", and ", flags.arguments()[0], " is given");
  }
  return absl::InvalidArgumentError(absl::StrCat("unexpected argument '", word, "'", remedy));
}

// The error for an unknown flag. `word` is as given; `name` is without dashes and value.
absl::Status UnknownFlag(const CommandSpec& spec, const std::string& word, const std::string& name) {
  const std::string flag = word.substr(0, word.find('='));
  const std::string field = name.substr(0, name.find_first_of(".["));
  if (Find(spec, "set") != nullptr && proto::Job::descriptor()->FindFieldByName(field) != nullptr) {
    const size_t equals = word.find('=');
    const std::string value = equals == std::string::npos ? "VALUE" : word.substr(equals + 1);
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no flag ", flag, ", but a field of the job has this name: write --set=", name, "=", value));
  }
  const std::string nearest = FlagMeant(spec, name);
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no flag ", flag, nearest.empty() ? "" : absl::StrCat("; did you mean --", nearest, "?"),
      " (tethys ", spec.verb, " --help lists them)"));
}

absl::Status CheckComplete(const CommandSpec& spec, const Flags& flags) {
  if (!spec.argument.empty() && !spec.argument_optional && flags.arguments().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.argument, " is missing, for example: ", spec.examples[0]));
  }
  for (const FlagSpec& flag : spec.flags) {
    if (flag.required && !flags.Has(flag.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag.name, "=", flag.value, " is required: ", flag.help));
    }
  }
  return absl::OkStatus();
}

std::string FlagText(const FlagSpec& flag) {
  return absl::StrCat("--", flag.name, flag.value.empty() ? "" : "=", flag.value);
}

}  // namespace

FlagSpec SetFlag(const std::string& help) {
  return {.name = "set", .value = "FIELD=VALUE", .help = help, .repeated = true};
}

std::string Flags::Get(const std::string& name, const std::string& otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second.back();
}

std::vector<std::string> Flags::GetAll(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

absl::StatusOr<int64_t> Flags::GetInteger(const std::string& name, int64_t otherwise, int64_t least,
                                          int64_t most) const {
  if (!Has(name)) return otherwise;
  int64_t value;
  if (!absl::SimpleAtoi(Get(name), &value) || value < least || value > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, "=", Get(name), " must be a whole number from ", least, " to ", most));
  }
  return value;
}

absl::StatusOr<double> Flags::GetPercent(const std::string& name, double otherwise) const {
  if (!Has(name)) return otherwise;
  const std::string text = Get(name);
  double percent = 0;
  if (absl::SimpleAtod(absl::StripSuffix(text, "%"), &percent) && percent >= 0 && percent <= 100) {
    return percent / 100;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, "=", text, ": must be a percentage from 0 to 100, such as 5%"));
}

absl::StatusOr<Flags> ParseFlags(const CommandSpec& spec, absl::Span<const std::string> words) {
  Flags flags;
  flags.words_.assign(words.begin(), words.end());
  bool only_arguments = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!only_arguments && word == "--") {
      only_arguments = true;
      continue;
    }
    if (only_arguments || !absl::StartsWith(word, "-") || word == "-") {
      if (spec.argument.empty() || (!flags.arguments_.empty() && spec.count == ArgumentCount::kOne)) {
        const std::string before = i > 1 && words[i - 2] == "--set" ? "--set=" + words[i - 1]
                                   : i > 0                          ? words[i - 1]
                                                                    : "";
        return UnexpectedArgument(spec, flags, word, before);
      }
      flags.arguments_.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name =
        word.substr(0, equals).substr(std::min<size_t>(word.find_first_not_of('-'), word.size()));
    const FlagSpec* flag = absl::StartsWith(word, "--") ? Find(spec, name) : nullptr;
    if (flag == nullptr) return UnknownFlag(spec, word, name);
    if (flag->value.empty() && equals != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " takes no value, but got '", word, "'"));
    }
    if (!flag->value.empty() && equals == std::string::npos && i + 1 == words.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value: ", FlagText(*flag)));
    }
    std::vector<std::string>& values = flags.values_[name];
    if (!values.empty() && !flag->repeated) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " is given twice"));
    }
    if (flag->value.empty()) {
      values.push_back("");
    } else {
      values.push_back(equals == std::string::npos ? words[++i] : word.substr(equals + 1));
      if (values.back().empty()) {
        return absl::InvalidArgumentError(absl::StrCat("--", name, " has an empty value: ", FlagText(*flag)));
      }
    }
  }
  TETHYS_RETURN_IF_ERROR(CheckComplete(spec, flags));
  return flags;
}

std::string HelpText(const CommandSpec& spec) {
  std::string usage = absl::StrCat("usage: tethys ", spec.verb);
  if (!spec.argument.empty()) {
    absl::StrAppend(&usage, " ",
                    spec.argument_optional ? absl::StrCat("[", spec.argument, "]") : spec.argument);
  }
  if (spec.count == ArgumentCount::kAny) absl::StrAppend(&usage, " [", spec.argument, " ...]");
  size_t width = std::string("--help").size();
  for (const FlagSpec& flag : spec.flags) {
    width = std::max(width, FlagText(flag).size());
    const std::string text = absl::StrCat(FlagText(flag), flag.repeated ? " ..." : "");
    absl::StrAppend(&usage, " ", flag.required ? text : absl::StrCat("[", text, "]"));
  }
  std::string help = absl::StrCat(Wrap(usage, "", 100), "\n", Wrap(spec.description, "", 100), "\n");
  const auto add_flag = [&](const std::string& name, const std::string& text) {
    absl::StrAppend(&help, WrapBeside("  " + name, text, static_cast<int>(width) + 4, 100));
  };
  for (const FlagSpec& flag : spec.flags) add_flag(FlagText(flag), flag.help);
  add_flag("--help", "Prints this help.");
  absl::StrAppend(&help, "\n", spec.examples.size() == 1 ? "example:\n" : "examples:\n");
  for (const std::string& example : spec.examples) absl::StrAppend(&help, "  ", example, "\n");
  return help;
}

}  // namespace tethys
