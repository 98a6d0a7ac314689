// A GPT-2 of any size and tokens for it, for measurements of steps.
#ifndef CASTOR_BENCHMARKS_SYNTHETIC_H_
#define CASTOR_BENCHMARKS_SYNTHETIC_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "models/gpt2/gpt2.h"
#include "runtime/train/micro_batch.h"

namespace castor {

// Takes the argument `name` with its number, as SyntheticRun::TakeArgument
// does.
inline bool TakeNumber(const char* name, int argc, char** argv, int* at,
                       int64_t* number) {
  if (std::strcmp(argv[*at], name) != 0 || *at + 1 >= argc) return false;
  *number = std::atoll(argv[++*at]);
  return true;
}

// The same for a text.
inline bool TakeText(const char* name, int argc, char** argv, int* at,
                     std::string* text) {
  if (std::strcmp(argv[*at], name) != 0 || *at + 1 >= argc) return false;
  *text = argv[++*at];
  return true;
}

// Takes the argument `name`, which has no value.
inline bool TakeFlag(const char* name, char** argv, const int* at, bool* flag) {
  if (std::strcmp(argv[*at], name) != 0) return false;
  *flag = true;
  return true;
}

// Takes the argument `name` with its number, which is greater than 0.
inline bool TakePositive(const char* name, int argc, char** argv, int* at,
                         double* number) {
  if (std::strcmp(argv[*at], name) != 0 || *at + 1 >= argc) return false;
  const double value = std::atof(argv[*at + 1]);
  if (!(value > 0)) return false;
  ++*at;
  *number = value;
  return true;
}

// Goes through the arguments: `take(at)` takes the one at *at, and moves to the
// last of its words. False: there is one that it does not take, which was
// reported.
template <class Take>
bool TakeArguments(const char* program, int argc, char** argv,
                   const Take& take) {
  for (int at = 1; at < argc; ++at) {
    if (take(&at)) continue;
    std::fprintf(stderr, "%s: unknown argument %s\n", program, argv[at]);
    return false;
  }
  return true;
}

struct SyntheticRun {
  int64_t layers, width, vocabulary, batch, length;
  int64_t heads = 0;  // 0: of 64 elements each
  double dropout = 0;

  models::Gpt2Config Model() const {
    models::Gpt2Config config;
    config.n_layer = layers;
    config.n_head = heads > 0 ? heads : width / 64;
    config.n_embd = width;
    config.n_positions = length;
    config.vocab_size = vocabulary;
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = dropout;
    return config;
  }

  StepShape Shape() const { return {.batch = batch, .length = length}; }

  // Takes one of the arguments --layers, --width, --vocabulary, --batch and
  // --length with its number, of which argv[*at] is the name, and moves *at to
  // the number. False: it is none of these.
  bool TakeArgument(int argc, char** argv, int* at) {
    return TakeNumber("--layers", argc, argv, at, &layers) ||
           TakeNumber("--width", argc, argv, at, &width) ||
           TakeNumber("--vocabulary", argc, argv, at, &vocabulary) ||
           TakeNumber("--batch", argc, argv, at, &batch) ||
           TakeNumber("--length", argc, argv, at, &length);
  }

  // Returns the same batch for the same `index`.
  MicroBatch Batch(int64_t index) const {
    MicroBatch made;
    for (int64_t i = 0; i < batch * length; ++i) {
      const auto token = [&](int64_t a, int64_t b) {
        return static_cast<int32_t>((i * a + index * b) % vocabulary);
      };
      made.tokens.push_back(token(7919, 104729));
      made.targets.push_back(token(6101, 7561));
    }
    return made;
  }
};

}  // namespace castor

#endif  // CASTOR_BENCHMARKS_SYNTHETIC_H_
