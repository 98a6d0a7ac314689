// CASTOR_ADDRESS_SANITIZER and CASTOR_THREAD_SANITIZER are 1 if the code is
// compiled for that sanitizer, else 0. GCC and Clang name these differently.
#ifndef CASTOR_BASE_SANITIZERS_H_
#define CASTOR_BASE_SANITIZERS_H_

#define CASTOR_ADDRESS_SANITIZER 0
#define CASTOR_THREAD_SANITIZER 0

#if defined(__has_feature)  // Clang
#if __has_feature(address_sanitizer)
#undef CASTOR_ADDRESS_SANITIZER
#define CASTOR_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#undef CASTOR_THREAD_SANITIZER
#define CASTOR_THREAD_SANITIZER 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__)  // GCC
#undef CASTOR_ADDRESS_SANITIZER
#define CASTOR_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#undef CASTOR_THREAD_SANITIZER
#define CASTOR_THREAD_SANITIZER 1
#endif

namespace castor {

// Returns how many of the `usual` cases of a test run here. A sanitizer makes
// each take ten to twenty times as long, and a fault that it looks for shows in
// each of them.
constexpr int SanitizedCases(int usual) {
  return CASTOR_ADDRESS_SANITIZER || CASTOR_THREAD_SANITIZER ? (usual + 3) / 4
                                                             : usual;
}

}  // namespace castor

#endif  // CASTOR_BASE_SANITIZERS_H_
