// File functions that fail as on a bad disk. failing_calls.cc replaces these functions of the C library in
// every program that is linked with failing_calls.cc. While no FailingCalls exists, they simply make the
// system calls:
//
//   open mkdir write pwrite posix_fallocate ftruncate fsync fdatasync rename unlink unlinkat
//
// A thread may have one FailingCalls at a time, which affects only this thread.
#ifndef TETHYS_TESTS_TESTING_FAILING_CALLS_H_
#define TETHYS_TESTS_TESTING_FAILING_CALLS_H_

#include <string>
#include <vector>

namespace tethys::testing {

// Values in place of an errno: a write takes half of its bytes, rounded up, or none of them.
inline constexpr int kShortWrite = -1;
inline constexpr int kNoWrite = -2;

struct FailingCall {
  std::string name = {};         // The name of the function that fails; empty: any of the functions.
  int first = 0;                 // The number, from 0, of the first matching call that fails.
  std::vector<int> errors = {};  // The errors from that call on: each an errno, kShortWrite or kNoWrite.
  bool for_good = false;         // If true, all later calls get the last of the errors as well.
};

class FailingCalls {
 public:
  explicit FailingCalls(FailingCall rule);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  // The number of calls that have failed.
  int failed() const { return failed_; }

  // Called by each of the replaced functions: returns the error with which it fails, or 0.
  int Next(const char* name);

 private:
  const FailingCall rule_;
  int seen_ = 0;
  int failed_ = 0;
};

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_FAILING_CALLS_H_
