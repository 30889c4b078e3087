#include "deploy/flags/manual_page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace tethys {
namespace {

// Text as troff prints it unchanged: hyphens stay hyphens that can be copied, and no line is a request, which
// would begin with a point or an apostrophe.
std::string Escaped(absl::string_view text) {
  std::string out = absl::StrReplaceAll(
      text, {{"\\", "\\e"}, {"-", "\\-"}, {"'", "\\(aq"}, {"`", "\\(ga"}, {"~", "\\(ti"}, {"^", "\\(ha"}});
  if (!out.empty() && out[0] == '.') out.insert(0, "\\&");
  return absl::StrReplaceAll(out, {{"\n.", "\n\\&."}});
}

std::string HeadText(absl::string_view page, absl::string_view summary, absl::string_view version) {
  return absl::StrCat(".TH \"", page, "\" 1 \"\" \"", Escaped(version), "\" \"User Commands\"\n.SH NAME\n",
                      Escaped(page), " \\- ", Escaped(summary), "\n");
}

// Paragraphs, which `text` separates by line breaks.
std::string ParagraphsText(absl::string_view text) {
  std::string out;
  for (const absl::string_view paragraph : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    absl::StrAppend(&out, ".PP\n", Escaped(paragraph), "\n");
  }
  return out;
}

// A term in bold letters with its description.
std::string TermText(absl::string_view term, absl::string_view text) {
  return absl::StrCat(".TP\n.B ", Escaped(term), "\n", Escaped(text), "\n");
}

std::string FlagTerm(const FlagSpec& flag) {
  return absl::StrCat("--", flag.name, flag.value.empty() ? "" : "=", flag.value);
}

std::string ExamplesText(const std::vector<std::string>& examples) {
  std::string out = ".SH EXAMPLES\n.nf\n";
  for (const std::string& example : examples) absl::StrAppend(&out, Escaped(example), "\n");
  return out + ".fi\n";
}

}  // namespace

std::string CommandPage(absl::Span<const CommandSpec> specs, absl::string_view summary,
                        absl::string_view version) {
  std::string page = HeadText("tethys", summary, version);
  absl::StrAppend(&page, ".SH SYNOPSIS\n.B tethys\nVERB [ARGUMENT ...] [", Escaped("--FLAG=VALUE"),
                  " ...]\n.SH VERBS\nEach verb has a page of its own: ", Escaped("tethys-VERB(1)"), ".\n");
  for (const CommandSpec& spec : specs) {
    if (!spec.hidden) absl::StrAppend(&page, TermText(spec.verb, spec.summary));
  }
  absl::StrAppend(&page, ".SH EXIT STATUS\n", TermText("0", "The work is done."),
                  TermText("2", "The request was wrong, and nothing was started."),
                  TermText("1", "The work failed or was interrupted."));
  return page;
}

std::string VerbPage(const CommandSpec& spec, absl::string_view version) {
  std::string page = HeadText(absl::StrCat("tethys-", spec.verb), spec.summary, version);
  absl::StrAppend(&page, ".SH SYNOPSIS\n.B tethys ", Escaped(spec.verb), "\n");
  if (!spec.argument.empty()) {
    const std::string argument =
        spec.argument_optional ? absl::StrCat("[", spec.argument, "]") : spec.argument;
    const std::string more =
        spec.count == ArgumentCount::kAny ? absl::StrCat(" [", spec.argument, " ...]") : "";
    absl::StrAppend(&page, Escaped(argument), Escaped(more), "\n");
  }
  for (const FlagSpec& flag : spec.flags) {
    if (flag.required) absl::StrAppend(&page, Escaped(FlagTerm(flag)), "\n");
  }
  absl::StrAppend(&page, "[FLAG ...]\n.SH DESCRIPTION\n", ParagraphsText(spec.description), ".SH FLAGS\n");
  for (const FlagSpec& flag : spec.flags) {
    absl::StrAppend(&page,
                    TermText(FlagTerm(flag),
                             absl::StrCat(flag.help, flag.repeated ? " May be given several times." : "")));
  }
  absl::StrAppend(&page, TermText("--help", "Prints this help."), ExamplesText(spec.examples),
                  ".SH SEE ALSO\n.BR tethys (1)\n");
  return page;
}

}  // namespace tethys
