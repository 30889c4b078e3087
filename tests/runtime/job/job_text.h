// A valid job file, and functions that change and parse it, for tests of job files.
#ifndef TETHYS_TESTS_RUNTIME_JOB_JOB_TEXT_H_
#define TETHYS_TESTS_RUNTIME_JOB_JOB_TEXT_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "runtime/job/job_file.h"

namespace tethys {

// Tests refer to the numbers of these lines.
inline constexpr char kJob[] =
    "model {\n"                                                            // 1
    "  layer { flatten {} }\n"                                             // 2
    "  layer { dense { units: 128 activation: RELU } }\n"                  // 3
    "  layer { dense { units: 10 } }\n"                                    // 4
    "}\n"                                                                  // 5
    "data {\n"                                                             // 6
    "  idx { train_images: \"images\" train_labels: \"labels\" }\n"        // 7
    "  classes: 10\n"                                                      // 8
    "}\n"                                                                  // 9
    "optimizer {\n"                                                        // 10
    "  sgd { momentum: 0.9 }\n"                                            // 11
    "  learning_rate: 0.05\n"                                              // 12
    "}\n"                                                                  // 13
    "batch_size_per_worker: 128\n"                                         // 14
    "epochs: 5\n"                                                          // 15
    "workers: 3\n"                                                         // 16
    "strategy { parameter_server { servers: 2 bulk_synchronous {} } }\n";  // 17

inline std::string Edited(const std::string& old_text, const std::string& new_text) {
  EXPECT_TRUE(absl::StrContains(kJob, old_text)) << old_text;
  return absl::StrReplaceAll(kJob, {{old_text, new_text}});
}

inline std::string ErrorOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const absl::Status status = ParseJob(text, "my.textproto", overrides).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

inline proto::Job Parsed(const std::string& text, const std::vector<std::string>& overrides = {}) {
  auto job = ParseJob(text, "my.textproto", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *std::move(job) : proto::Job();
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_JOB_JOB_TEXT_H_
