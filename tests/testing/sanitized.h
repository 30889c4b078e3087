// TETHYS_ADDRESS_SANITIZED is 1 in builds with AddressSanitizer, which also have UndefinedBehaviorSanitizer
// (cmake/TethysCompiler.cmake). TETHYS_SANITIZED is 1 in these builds and in builds with ThreadSanitizer.
// Otherwise the macros are 0.
#ifndef TETHYS_TESTS_TESTING_SANITIZED_H_
#define TETHYS_TESTS_TESTING_SANITIZED_H_

#ifndef __has_feature  // Only Clang defines __has_feature.
#define __has_feature(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define TETHYS_ADDRESS_SANITIZED 1
#else
#define TETHYS_ADDRESS_SANITIZED 0
#endif

#if TETHYS_ADDRESS_SANITIZED || defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define TETHYS_SANITIZED 1
#else
#define TETHYS_SANITIZED 0
#endif

#endif  // TETHYS_TESTS_TESTING_SANITIZED_H_
