#include "deploy/schedulers/manifest.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/chief_paths.h"

namespace tethys {
namespace {

// A label of a domain name has at most 63 characters, of which a pod's name needs some for "-" and an index.
constexpr size_t kMaxName = 52;
constexpr size_t kMaxClaim = 253;
constexpr size_t kMaxImage = 1000;

bool HasOnly(absl::string_view text, absl::string_view others) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || absl::StrContains(others, c);
  });
}

bool EndsPlain(absl::string_view text) {
  return !text.empty() && absl::ascii_isalnum(text.front()) && absl::ascii_isalnum(text.back());
}

bool IsClaim(absl::string_view text) {
  return EndsPlain(text) && text.size() <= kMaxClaim && HasOnly(text, "-.");
}

absl::Status CheckClaim(absl::string_view flag, const std::string& claim) {
  if (claim.empty() || IsClaim(claim)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", claim,
                                                 ": a volume claim has a name of lower-case letters, digits, "
                                                 "hyphens and points"));
}

}  // namespace

const std::vector<ManifestKind>& ManifestKinds() {
  static const std::vector<ManifestKind>& kinds =
      *new std::vector<ManifestKind>{{"kubernetes", true, KubernetesManifest},
                                     {"slurm", false, SlurmScript},
                                     {"tfjob", true, TfJobManifest}};
  return kinds;
}

std::string ManifestKindNames() {
  return absl::StrJoin(ManifestKinds(), "|",
                       [](std::string* out, const ManifestKind& kind) { absl::StrAppend(out, kind.name); });
}

std::string ManifestName(absl::string_view job_name) {
  std::string name = absl::AsciiStrToLower(job_name);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !absl::ascii_isalnum(c); }, '-');
  name.erase(0, name.find_first_not_of('-'));
  if (name.empty() || !absl::ascii_isalpha(name[0])) name.insert(0, "job-");
  name.resize(std::min(name.size(), kMaxName));
  name.erase(name.find_last_not_of('-') + 1);
  return name;
}

absl::Status CheckManifest(const ManifestRequest& request) {
  const std::string& name = request.name;
  if (!EndsPlain(name) || !absl::ascii_isalpha(name[0]) || name.size() > kMaxName || !HasOnly(name, "-")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--name=", name, ": a job has a name of at most ", kMaxName,
                     " lower-case letters, digits and hyphens, which begins with a letter"));
  }
  const std::string& image = request.image;
  if (!image.empty() &&
      (image.size() > kMaxImage || !EndsPlain(image) || !HasOnly(absl::AsciiStrToLower(image), "-._/:@"))) {
    return absl::InvalidArgumentError(
        absl::StrCat("--image=", image, ": an image is written as REGISTRY/NAME:TAG"));
  }
  TETHYS_RETURN_IF_ERROR(CheckClaim("data", request.data_claim));
  return CheckClaim("results", request.results_claim);
}

absl::StatusOr<std::string> DataFolder(const proto::Data& data) {
  absl::optional<std::string> common;
  std::string relative;
  proto::Data copy = data;
  ReplacePaths(copy, [&](const std::string& path, bool) {
    const absl::optional<ChiefPath> of_chief = ChiefPathOf(path, /*pattern=*/true);
    if (!of_chief.has_value() && IsUrlPath(path)) return std::vector<std::string>{path};
    const std::string local = of_chief.has_value() ? of_chief->path : path;
    if (!absl::StartsWith(local, "/")) relative = local;
    // The part of a path before its first pattern, up to its last slash.
    std::string folder = local.substr(0, local.find_first_of("*?["));
    folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/') + 1);
    if (!common.has_value()) common = folder;
    const size_t same = static_cast<size_t>(
        std::mismatch(common->begin(), common->end(), folder.begin(), folder.end()).first - common->begin());
    common->resize(common->substr(0, same).rfind('/') + 1);
    return std::vector<std::string>{path};
  });
  if (!common.has_value()) return "";
  if (!relative.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: the path ", relative, " is relative: processes in pods need absolute paths"));
  }
  if (*common == "/") {
    return absl::InvalidArgumentError(
        "data: the files have only the folder / in common, at which no volume can be mounted: put them below "
        "one folder");
  }
  common->pop_back();
  return *common;
}

}  // namespace tethys
