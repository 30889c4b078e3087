// Objects of S3 and of servers that speak its protocol. The file of secrets gives keys, region and, for
// servers other than Amazon's, the endpoint. The transport signs the requests (s3_signature.h).
#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "runtime/remote/http_words.h"
#include "runtime/remote/remote_object.h"
#include "runtime/remote/remote_secrets.h"
#include "runtime/remote/s3_list.h"

namespace tethys {
namespace {

// Limit on an answer, in bytes. An answer has at most 1,000 keys of 1,024 bytes.
constexpr int64_t kMostPageBytes = int64_t{1} << 24;
constexpr int kMostPages = 1000;
// The header with the hash of an empty body. S3 requires this header in every signed request.
constexpr char kEmptyHash[] =
    "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// The URL of a bucket, and the credentials and certificates for requests to the bucket.
struct Bucket {
  std::string base;  // The URL before a key; ends in "/".
  HttpCredentials credentials;
  std::string ca_certificates;
  std::vector<std::string> headers;
};

Bucket BucketOf(const HttpClient& client, const Url& url) {
  const proto::RemotePlace& place = PlaceOf(client.secrets(), url.text());
  const proto::S3Keys& s3 = place.s3();
  const std::string region = s3.region().empty() ? "us-east-1" : s3.region();
  Bucket bucket = {.base = {},
                   .credentials = {.user = s3.access_key(),
                                   .password = s3.secret_key(),
                                   .bearer_token = {},
                                   .region = s3.access_key().empty() ? "" : region},
                   .ca_certificates = place.ca_certificates(),
                   .headers = {}};
  if (!s3.access_key().empty()) bucket.headers.emplace_back(kEmptyHash);
  if (!s3.session_token().empty()) {
    bucket.headers.push_back(absl::StrCat("x-amz-security-token: ", s3.session_token()));
  }
  // The certificate for *.s3.REGION.amazonaws.com is not valid for a bucket with dots in its name, so such a
  // bucket is named in the path instead of the host name.
  const bool in_path = s3.has_endpoint() || absl::StrContains(url.authority, ".");
  const std::string amazon = absl::StrCat("s3.", region, ".amazonaws.com/");
  if (s3.has_endpoint()) {
    bucket.base = absl::StrCat(absl::StripSuffix(s3.endpoint(), "/"), "/", url.authority, "/");
  } else {
    bucket.base = in_path ? absl::StrCat("https://", amazon, url.authority, "/")
                          : absl::StrCat("https://", url.authority, ".", amazon);
  }
  return bucket;
}

absl::StatusOr<HttpCall> CallFor(const Bucket& bucket, const std::string& name, const std::string& rest) {
  HttpCall call = {.name = name,
                   .url = {},
                   .headers = bucket.headers,
                   .credentials = &bucket.credentials,
                   .ca_certificates = &bucket.ca_certificates};
  TETHYS_ASSIGN_OR_RETURN(call.url, ParseUrl(bucket.base + rest));
  return call;
}

// Decodes %XX and '+'. False: a '%' without two digits.
bool PercentDecode(absl::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const absl::string_view digits = text.substr(i + 1, 2);
    uint32_t byte = 0;
    // SimpleHexAtoi alone would also take signs, blanks and "0x".
    if (digits.size() != 2 || !absl::ascii_isxdigit(static_cast<unsigned char>(digits[0])) ||
        !absl::ascii_isxdigit(static_cast<unsigned char>(digits[1])) || !absl::SimpleHexAtoi(digits, &byte)) {
      return false;
    }
    out += static_cast<char>(byte);
    i += 2;
  }
  return true;
}

// The text of the next element `name` in `xml`; `xml` then begins after the element. Elements of this name
// have no attributes and no elements inside. False: there is no such element.
bool TakeElement(absl::string_view name, absl::string_view& xml, absl::string_view& text) {
  const std::string open = absl::StrCat("<", name, ">"), close = absl::StrCat("</", name, ">");
  const size_t begin = xml.find(open);
  if (begin == absl::string_view::npos) return false;
  const size_t end = xml.find(close, begin);
  if (end == absl::string_view::npos) return false;
  text = xml.substr(begin + open.size(), end - begin - open.size());
  xml.remove_prefix(end + close.size());
  return true;
}

// Replaces the five entities of XML. False: the text has another entity, or an element.
bool DecodeText(absl::string_view text, std::string& out) {
  static constexpr std::pair<absl::string_view, char> kEntities[] = {
      {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
  while (!text.empty()) {
    if (text[0] == '<' || text[0] == '>') return false;
    if (text[0] != '&') {
      out += text[0];
      text.remove_prefix(1);
      continue;
    }
    const auto* entity = std::find_if(std::begin(kEntities), std::end(kEntities),
                                      [&](const auto& known) { return absl::StartsWith(text, known.first); });
    if (entity == std::end(kEntities)) return false;
    out += entity->second;
    text.remove_prefix(entity->first.size());
  }
  return true;
}

bool HasSpecialCharacters(absl::string_view text) { return text.find_first_of("*?[") != text.npos; }

}  // namespace

absl::StatusOr<S3Page> ParseS3Page(absl::string_view xml) {
  const absl::Status bad = absl::InvalidArgumentError("not an answer to ListObjectsV2");
  const size_t root = xml.find("<ListBucketResult");
  if (root == absl::string_view::npos ||
      !absl::EndsWith(absl::StripTrailingAsciiWhitespace(xml), "</ListBucketResult>") ||
      absl::StrContains(xml, "<!")) {
    return bad;  // S3 never sends comments, CDATA or document types.
  }
  S3Page page;
  absl::string_view rest = xml, text;
  if (TakeElement("NextContinuationToken", rest, text) && !DecodeText(text, page.next)) return bad;
  rest = xml;
  for (absl::string_view contents; TakeElement("Contents", rest, contents);) {
    std::string encoded, key;
    if (!TakeElement("Key", contents, text) || !DecodeText(text, encoded) || !PercentDecode(encoded, key)) {
      return bad;
    }
    page.keys.push_back(std::move(key));
  }
  return page;
}

absl::StatusOr<std::unique_ptr<RemoteObject>> OpenS3Object(const HttpClient& client, const Url& url) {
  const auto bucket = std::make_shared<const Bucket>(BucketOf(client, url));
  TETHYS_ASSIGN_OR_RETURN(HttpCall call,
                          CallFor(*bucket, url.text(), PercentEncode(url.path.substr(1), "/")));
  return OpenByRanges(client, std::move(call), bucket);
}

absl::StatusOr<std::vector<std::string>> ListS3(const HttpClient& client, const Url& pattern) {
  const std::string name = pattern.text();
  if (!HasSpecialCharacters(pattern.path)) return std::vector<std::string>{name};
  const std::string wanted = pattern.path.substr(1);
  const std::string prefix = wanted.substr(0, wanted.find_first_of("*?["));
  const Bucket bucket = BucketOf(client, pattern);
  std::vector<std::string> urls;
  std::string next;
  for (int page = 0; page < kMostPages; ++page) {
    // Parameters in alphabetic order, as the signature requires.
    const std::string query =
        absl::StrCat(next.empty() ? "" : absl::StrCat("continuation-token=", PercentEncode(next), "&"),
                     "encoding-type=url&list-type=2&prefix=", PercentEncode(prefix));
    TETHYS_ASSIGN_OR_RETURN(HttpCall call, CallFor(bucket, name, absl::StrCat("?", query)));
    call.most_bytes = kMostPageBytes;
    TETHYS_ASSIGN_OR_RETURN(const HttpReply reply, client.Try(call));
    if (!reply.success()) return RefusalStatus(reply.answer, name, reply.url.authority);
    const absl::StatusOr<S3Page> keys = ParseS3Page(reply.answer.body);
    if (!keys.ok() || reply.answer.body_is_longer) {
      return absl::DataLossError(absl::StrCat(name, ": the answer of ", reply.url.authority, " is ",
                                              keys.ok() ? "too long" : keys.status().message()));
    }
    for (const std::string& key : keys->keys) {
      if (fnmatch(wanted.c_str(), key.c_str(), FNM_PERIOD | FNM_PATHNAME) != 0) continue;
      urls.push_back(absl::StrCat("s3://", pattern.authority, "/", key));
    }
    next = keys->next;
    if (next.empty()) break;
  }
  if (!next.empty()) {
    return absl::ResourceExhaustedError(absl::StrCat(name, ": more than ", kMostPages,
                                                     " pages of keys begin with ", prefix,
                                                     ": put more of the name before the first * or ?"));
  }
  if (urls.empty()) return absl::NotFoundError(absl::StrCat("no object matches ", name));
  std::sort(urls.begin(), urls.end());
  return urls;
}

}  // namespace tethys
