// Calls on files that fail as they do on a bad disk. Whatever is linked with failing_calls.cc calls its
// functions of these names in place of the C library's, and they are the system's as long as no FailingCalls
// lives:
//
//   open mkdir write pwrite posix_fallocate ftruncate fsync fdatasync rename unlink unlinkat
//
// One at a time, and only on the thread that made it.
#ifndef TETHYS_TESTS_TESTING_FAILING_CALLS_H_
#define TETHYS_TESTS_TESTING_FAILING_CALLS_H_

#include <string>
#include <vector>

namespace tethys::testing {

// In place of an error: a write takes half of what it is given, rounded up, or nothing.
inline constexpr int kShortWrite = -1;
inline constexpr int kNoWrite = -2;

struct FailingCall {
  std::string name = {};         // Of the function; empty: any of them.
  int first = 0;                 // The first to fail of the calls that this rule is for, counted from 0.
  std::vector<int> errors = {};  // What it gets and those after it, an errno each or one of the above.
  bool for_good = false;         // All calls after that get the last error.
};

class FailingCalls {
 public:
  explicit FailingCalls(FailingCall rule);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  // How many calls have failed.
  int failed() const { return failed_; }

  // A call is about to be made: 0, or the error that it gets.
  int Next(const char* name);

 private:
  const FailingCall rule_;
  int seen_ = 0;
  int failed_ = 0;
};

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_FAILING_CALLS_H_
