// File calls that fail as on a bad disk. A program linked with failing_calls.cc calls its functions of these
// names in place of the C library's; they make the system calls while no FailingCalls exists:
//
//   open mkdir write pwrite posix_fallocate ftruncate fsync fdatasync rename unlink unlinkat
//
// One FailingCalls at a time, which affects only the thread that made it.
#ifndef TETHYS_TESTS_TESTING_FAILING_CALLS_H_
#define TETHYS_TESTS_TESTING_FAILING_CALLS_H_

#include <string>
#include <vector>

namespace tethys::testing {

// Values in place of an errno: a write takes half of its bytes, rounded up, or none.
inline constexpr int kShortWrite = -1;
inline constexpr int kNoWrite = -2;

struct FailingCall {
  std::string name = {};         // The function's name; empty: any of them.
  int first = 0;                 // The first matching call to fail, counted from 0.
  std::vector<int> errors = {};  // Errors of it and the next calls: an errno or one of the above.
  bool for_good = false;         // All later calls get the last error.
};

class FailingCalls {
 public:
  explicit FailingCalls(FailingCall rule);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  // The number of calls that have failed.
  int failed() const { return failed_; }

  // Called before each call: returns 0, or the call's error.
  int Next(const char* name);

 private:
  const FailingCall rule_;
  int seen_ = 0;
  int failed_ = 0;
};

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_FAILING_CALLS_H_
