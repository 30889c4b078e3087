// The answer of an S3 server to ListObjectsV2 with encoding-type=url: a page of keys. Pure; any thread.
#ifndef TETHYS_RUNTIME_REMOTE_S3_LIST_H_
#define TETHYS_RUNTIME_REMOTE_S3_LIST_H_

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace tethys {

struct S3Page {
  std::vector<std::string> keys;  // Decoded keys.
  std::string next;               // The decoded token of the next page; empty: this page is the last.
};

// InvalidArgument: the text is no such answer.
absl::StatusOr<S3Page> ParseS3Page(absl::string_view xml);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_S3_LIST_H_
