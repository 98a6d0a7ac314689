// A GPT-2 of any size and tokens for it, for measurements of steps.
#ifndef CASTOR_BENCHMARKS_SYNTHETIC_H_
#define CASTOR_BENCHMARKS_SYNTHETIC_H_

#include <cstdint>

#include "models/gpt2/gpt2_config.h"
#include "runtime/train/micro_batch.h"

namespace castor {

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

  // The same for the same `index`.
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
