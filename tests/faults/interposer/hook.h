// Replaces functions of the C library: CASTOR_HOOK(int, fsync, (int fd)) { ...
// } defines the function that castor and its libraries call in place of fsync,
// and real_fsync, which is the library's own.
//
// The definition has a C++ name of its own and the C name as its symbol: the
// system's headers declare some functions noexcept, some not.
#ifndef CASTOR_TESTS_FAULTS_INTERPOSER_HOOK_H_
#define CASTOR_TESTS_FAULTS_INTERPOSER_HOOK_H_

#include "tests/faults/interposer/meet.h"
#include "tests/faults/interposer/real.h"

#define CASTOR_HOOK(result, name, parameters)                             \
  static constinit ::castor::faults::Real<result parameters> real_##name( \
      #name);                                                             \
  extern "C" __attribute__((visibility("default")))                       \
  result hook_##name parameters __asm__(#name);                           \
  extern "C" result hook_##name parameters

// A second name of a hook, for files beyond 2 GiB where they are the same.
#define CASTOR_HOOK_ALIAS(result, name, other, parameters)         \
  extern "C" __attribute__((visibility("default"), alias(#other))) \
  result hook_##name parameters __asm__(#name)

#endif  // CASTOR_TESTS_FAULTS_INTERPOSER_HOOK_H_
