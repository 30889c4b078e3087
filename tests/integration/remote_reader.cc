// Reads a URL from its start to its end, as a reader of a data format does, and prints the number of bytes,
// their CRC-32C and the rate in MB/s. remote_data_test.py runs this program against servers that misbehave,
// and tests/bench/remote_bench.py compares it with curl.
//
//   remote_reader [--rate] FOLDER_OF_LIBRARY URL [SECRETS [QUIET_SECONDS]]
//
// With --rate no checksum is computed, as curl computes none.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "runtime/base/crc32c.h"
#include "runtime/remote/remote_files.h"
#include "runtime/remote/remote_secrets.h"

namespace tethys {
namespace {

// The size of the pieces in which TFRecord files are indexed, in bytes.
constexpr int64_t kPiece = int64_t{1} << 16;

struct Request {
  std::string library_folder, url, secrets;
  int64_t quiet_seconds = 30;
  bool checksum = true;
};

absl::Status Run(const Request& request) {
  proto::RemoteSecrets secrets;
  if (!request.secrets.empty()) {
    TETHYS_ASSIGN_OR_RETURN(secrets, ReadRemoteSecrets(request.secrets));
  }
  const HttpDeadlines deadlines = {.quiet = request.quiet_seconds * kSecond};
  TETHYS_ASSIGN_OR_RETURN(auto transport, LoadHttpTransport(request.library_folder, deadlines));
  RemoteOptions options;
  options.patience.first_pause = std::min<Nanoseconds>(request.quiet_seconds * kSecond, kSecond) / 100;
  options.patience.namenodes = request.quiet_seconds * kSecond;
  const auto files = CreateRemoteFiles(std::move(transport), std::move(secrets), options);
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> urls, files->Expand(request.url));
  const MonotonicClock clock;
  for (const std::string& url : urls) {
    const Nanoseconds begin = clock.Now();
    TETHYS_ASSIGN_OR_RETURN(const auto file, files->Open(url));
    uint32_t crc = 0;
    std::vector<uint8_t> piece;
    for (int64_t at = 0; at < file->size(); at += static_cast<int64_t>(piece.size())) {
      piece.resize(std::min(kPiece, file->size() - at));
      TETHYS_RETURN_IF_ERROR(file->ReadAt(at, absl::MakeSpan(piece)));
      if (request.checksum) crc = Crc32c({reinterpret_cast<const char*>(piece.data()), piece.size()}, crc);
    }
    const double seconds = ToSeconds(clock.Now() - begin);
    std::printf("%s bytes=%lld crc32c=%08x MB/s=%.1f\n", url.c_str(), static_cast<long long>(file->size()),
                crc, static_cast<double>(file->size()) / 1e6 / seconds);
  }
  return absl::OkStatus();
}

int Main(std::vector<std::string> words) {
  Request request;
  request.checksum = words.empty() || words[0] != "--rate";
  if (!request.checksum) words.erase(words.begin());
  const bool number = words.size() < 4 || absl::SimpleAtoi(words[3], &request.quiet_seconds);
  if (words.size() < 2 || words.size() > 4 || !number) {
    std::fprintf(stderr, "usage: remote_reader [--rate] FOLDER_OF_LIBRARY URL [SECRETS [QUIET_SECONDS]]\n");
    return 2;
  }
  request.library_folder = words[0];
  request.url = words[1];
  if (words.size() > 2) request.secrets = words[2];
  const absl::Status status = Run(request);
  if (!status.ok()) std::fprintf(stderr, "%s\n", StatusText(status).c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) {
  return tethys::Main(std::vector<std::string>(argv + 1, argv + std::max(argc, 1)));
}
