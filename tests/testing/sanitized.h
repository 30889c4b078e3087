// TETHYS_SANITIZED is 1 in builds with AddressSanitizer (and UndefinedBehaviorSanitizer) or
// ThreadSanitizer, and 0 in all others.
#ifndef TETHYS_TESTS_TESTING_SANITIZED_H_
#define TETHYS_TESTS_TESTING_SANITIZED_H_

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TETHYS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TETHYS_SANITIZED 1
#endif
#endif
#ifndef TETHYS_SANITIZED
#define TETHYS_SANITIZED 0
#endif

#endif  // TETHYS_TESTS_TESTING_SANITIZED_H_
