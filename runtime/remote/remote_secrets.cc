#include "runtime/remote/remote_secrets.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <pwd.h>
#include <unistd.h>

#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/file.h"
#include "runtime/base/private_file.h"
#include "runtime/base/text_encoding.h"
#include "runtime/remote/url.h"

namespace tethys {
namespace {

// Keeps only the line and column of the first error, not its text, because the text may quote a secret.
class FirstPlace final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string&) override {
    if (text_.empty()) text_ = absl::StrCat(":", line + 1, ":", column + 1);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Adds a '/' to a prefix without a path, so that URLs with a longer host name do not match the prefix.
absl::Status CheckPrefix(proto::RemotePlace& place) {
  TETHYS_ASSIGN_OR_RETURN(const Url url, ParseUrl(place.url_prefix()));
  place.set_url_prefix(url.text());
  return absl::OkStatus();
}

absl::Status CheckPlace(proto::RemotePlace& place) {
  TETHYS_RETURN_IF_ERROR(Annotate(CheckPrefix(place), "url_prefix"));
  if (place.has_password() + place.has_bearer_token() + place.has_s3() > 1) {
    return absl::InvalidArgumentError("has more than one of password, bearer_token and s3: keep one");
  }
  if (place.has_password() && place.password().user().empty()) {
    return absl::InvalidArgumentError("password has no user");
  }
  const proto::S3Keys& s3 = place.s3();
  if (s3.access_key().empty() != s3.secret_key().empty()) {
    return absl::InvalidArgumentError("s3 has only one of access_key and secret_key: give both, or neither");
  }
  if (s3.has_endpoint()) {
    const absl::StatusOr<Url> endpoint = ParseUrl(s3.endpoint());
    if (!endpoint.ok() || !absl::StartsWith(endpoint->scheme, "http") || endpoint->path != "/") {
      return absl::InvalidArgumentError(
          "s3.endpoint must be https://HOST or http://HOST, with or without :PORT");
    }
  }
  return absl::OkStatus();
}

// The user's entry in the user database, or null; the entry's strings lie in `buffer`.
const passwd* UserEntry(passwd& entry, std::array<char, 1 << 14>& buffer) {
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0) return nullptr;
  return found;
}

}  // namespace

absl::StatusOr<proto::RemoteSecrets> ParseRemoteSecrets(const std::string& text, const std::string& path) {
  proto::RemoteSecrets secrets;
  FirstPlace error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &secrets)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, error.text(),
                     ": not understood; write, for example, place { url_prefix: \"https://HOST/\" password { "
                     "user: \"...\" password: \"...\" } }; other fields of a place are bearer_token, s3, "
                     "webhdfs_user and ca_file"));
  }
  for (int i = 0; i < secrets.place_size(); ++i) {
    const absl::Status checked = CheckPlace(*secrets.mutable_place(i));
    if (!checked.ok()) return Annotate(checked, absl::StrCat(path, ": place ", i + 1));
  }
  return secrets;
}

absl::StatusOr<proto::RemoteSecrets> ReadRemoteSecrets(const std::string& path) {
  TETHYS_RETURN_IF_ERROR(OpenPrivateFile(path, "the secrets").status());
  TETHYS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostSecretBytes));
  TETHYS_ASSIGN_OR_RETURN(const absl::string_view plain, WithoutByteOrderMark(text, path));
  TETHYS_ASSIGN_OR_RETURN(proto::RemoteSecrets secrets, ParseRemoteSecrets(std::string(plain), path));
  for (proto::RemotePlace& place : *secrets.mutable_place()) {
    if (!place.has_ca_file()) continue;
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    const std::string file = place.ca_file()[0] == '/' ? place.ca_file() : folder + place.ca_file();
    TETHYS_ASSIGN_OR_RETURN(*place.mutable_ca_certificates(), ReadFile(file, kMostSecretBytes));
    place.clear_ca_file();
  }
  return secrets;
}

std::string DefaultSecretsPath() {
  passwd entry;
  std::array<char, 1 << 14> buffer;
  const passwd* user = UserEntry(entry, buffer);
  return absl::StrCat(user == nullptr ? "" : user->pw_dir, "/.config/tethys/secrets");
}

std::string ProcessUser() {
  passwd entry;
  std::array<char, 1 << 14> buffer;
  const passwd* user = UserEntry(entry, buffer);
  return user == nullptr ? absl::StrCat(geteuid()) : user->pw_name;
}

const proto::RemotePlace& PlaceOf(const proto::RemoteSecrets& secrets, absl::string_view url) {
  const proto::RemotePlace* best = &proto::RemotePlace::default_instance();
  for (const proto::RemotePlace& place : secrets.place()) {
    if (absl::StartsWith(url, place.url_prefix()) && place.url_prefix().size() > best->url_prefix().size()) {
      best = &place;
    }
  }
  return *best;
}

HttpCredentials WebCredentials(const proto::RemotePlace& place) {
  return {.user = place.password().user(),
          .password = place.password().password(),
          .bearer_token = place.bearer_token(),
          .region = {}};
}

}  // namespace tethys
