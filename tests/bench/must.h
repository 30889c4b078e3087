// If a call that must succeed fails, these functions end the benchmark with the call's error.
#ifndef TETHYS_TESTS_BENCH_MUST_H_
#define TETHYS_TESTS_BENCH_MUST_H_

#include <utility>

#include "runtime/base/status.h"

namespace tethys {

inline void MustBeOk(const absl::Status& status) { TETHYS_CHECK(status.ok(), StatusText(status)); }

template <typename T>
T Must(absl::StatusOr<T> value) {
  MustBeOk(value.status());
  return *std::move(value);
}

}  // namespace tethys

#endif  // TETHYS_TESTS_BENCH_MUST_H_
