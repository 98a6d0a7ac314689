// The sizes and switches by which the modules of Llama and its relatives
// differ.
#ifndef CASTOR_MODELS_DECODER_DECODER_SIZES_H_
#define CASTOR_MODELS_DECODER_DECODER_SIZES_H_

#include <cstdint>
#include <vector>

#include "models/rope/rope.h"
#include "runtime/ops/activation.h"

namespace castor::models {

struct DecoderSizes {
  int64_t vocabulary = 0;  // V
  int64_t channels = 0;    // C
  int64_t inner = 0;       // I, the MLP's width
  int64_t heads = 0;       // H
  int64_t kv_heads = 0;    // K, of which H is a multiple
  int64_t head_size = 0;   // D, even; H D may be another number than C
  // For each layer: position i sees those after i - window, up to itself; 0:
  // all up to itself.
  std::vector<int64_t> windows;
  Rope rope;
  ops::Activation activation = ops::Activation::kSilu;
  bool qkv_bias = false;     // of the maps to queries, keys and values
  bool output_bias = false;  // of the map from the heads' values
  bool mlp_bias = false;
  bool head_norms = false;  // queries and keys are normed, each head for itself
  bool tied = false;        // the head is the token embedding
  float norm_epsilon = 1e-6f;
  float stddev = 0.02f;  // of initial weights
  float attention_dropout = 0;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_DECODER_DECODER_SIZES_H_
