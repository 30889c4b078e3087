// While a NoFreeDescriptors exists, this process can open at most `but` further descriptors: a call that
// would open another descriptor fails with EMFILE. Descriptors that are open already stay open.
#ifndef TETHYS_TESTS_TESTING_NO_FREE_DESCRIPTORS_H_
#define TETHYS_TESTS_TESTING_NO_FREE_DESCRIPTORS_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace tethys::testing {

class NoFreeDescriptors {
 public:
  // `but`: 0 or 1.
  explicit NoFreeDescriptors(int but = 0) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int lowest_free = open("/dev/null", O_RDONLY | O_CLOEXEC);
    EXPECT_GE(lowest_free, 0);
    close(lowest_free);
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(lowest_free + but);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoFreeDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  NoFreeDescriptors(const NoFreeDescriptors&) = delete;
  NoFreeDescriptors& operator=(const NoFreeDescriptors&) = delete;

 private:
  rlimit before_ = {};
};

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_NO_FREE_DESCRIPTORS_H_
