// Input, in two sections (TakeSection): the file of secrets, and a URL of a job.
#include "absl/strings/match.h"
#include "runtime/remote/remote_secrets.h"
#include "runtime/remote/url.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

void FuzzRemoteSecrets(absl::string_view input) {
  const std::string text(TakeSection(input));
  const absl::StatusOr<proto::RemoteSecrets> secrets = ParseRemoteSecrets(text, "PATH");
  if (!secrets.ok()) RequireRefusal(secrets.status(), "PATH");
  const absl::StatusOr<Url> url = ParseUrl(input);
  if (!url.ok()) return Require(!url.status().message().empty(), "a refusal says why");
  const absl::StatusOr<Url> again = ParseUrl(url->text());
  Require(again.ok() && again->text() == url->text(), "a URL means the same when it is written again");
  Require(url->path[0] == '/' && !url->authority.empty(), "a URL has a host and a path");
  Require(!absl::StrContains(url->authority, "@"), "no user is before the host");
  if (!secrets.ok()) return;
  const proto::RemotePlace& place = PlaceOf(*secrets, url->text());
  Require(absl::StartsWith(url->text(), place.url_prefix()), "a place is that of the URL");
}

}  // namespace tethys::fuzz
