// Counts heap allocations, for tests that expect none. Link allocation_counter.cc, which replaces operator
// new and delete, into the test.
#ifndef TETHYS_TESTS_TESTING_ALLOCATION_COUNTER_H_
#define TETHYS_TESTS_TESTING_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace tethys::testing {

// Allocations made by the calling thread so far, by any form of operator new.
int64_t ThreadAllocations();

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_ALLOCATION_COUNTER_H_
