// The names of variants in reports: letters for tables, pictures and sentences, with a legend that gives each
// letter its meaning. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_VARIANT_NAME_H_
#define TETHYS_DEPLOY_REPORT_VARIANT_NAME_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/report.pb.h"

namespace tethys {

inline constexpr size_t kNamed = 3;  // Sentences name at most this many variants, and count the others.

// The letters of the variant at `index`, from 0: "A", ..., "Z", "AA", "AB", ...
std::string VariantLetters(int index);
// The inverse of VariantLetters; nullopt for all other texts, and for more than three letters.
absl::optional<int> VariantIndex(absl::string_view letters);

// The name that sentences use: the letters of the variant or, if it has none, its short name or its name.
const std::string& NameInText(const proto::ReportVariant& variant);
// The name with its meaning: "A (mirrored, batch 384)"; NameInText for a variant without letters.
std::string IntroducedName(const proto::ReportVariant& variant);

// The legend of the letters: "A: mirrored; B: PS async, batch 384". Empty if the variants have no letters.
std::string LegendText(const proto::Report& report);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_VARIANT_NAME_H_
