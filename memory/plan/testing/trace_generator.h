// Synthetic traces for tests and benchmarks: GPT-2's shape at any size, and
// random traces.
#ifndef CASTOR_MEMORY_PLAN_TESTING_TRACE_GENERATOR_H_
#define CASTOR_MEMORY_PLAN_TESTING_TRACE_GENERATOR_H_

#include <cstdint>

#include "memory/plan/plan.h"
#include "tracer/step_trace.h"

namespace castor {

// The shape of a GPT-2: L layers, C channels, V tokens in the vocabulary, B x T
// tokens in a micro batch. Only block inputs are kept: backward runs each block
// again.
struct GptTraceOptions {
  int64_t layers = 12;         // L
  int64_t channels = 768;      // C
  int64_t vocabulary = 50257;  // V
  int64_t batch = 4;           // B
  int64_t sequence = 1024;     // T
  int64_t micro_batches = 1;
  int64_t bytes_per_element = 2;  // of parameters and activations
  int64_t chunk_elements = 4 << 20;
  bool tied_embeddings = true;
  bool chunks_of_one_layer = false;  // no chunk has parameters of two layers
  // Device and host speed. The host's update moves 28 bytes per element.
  double flops_per_s = 1e14;
  double device_bytes_per_s = 2e12;
  double host_bytes_per_s = 1e11;
};

// Returns the trace of a step. Parameters fill chunks in the order of first
// use; one that is larger than a chunk gets its own.
StepTrace GptTrace(const GptTraceOptions& options);

// Returns a bus on which the payloads that a step without any caching moves in
// its busier direction take `share` of the step's compute time.
BusModel BusForShare(const StepTrace& trace, double share);

struct ArbitraryTraceOptions {
  int64_t chunks = 5;
  int64_t operators = 10;  // of forward; backward has as many
  int64_t micro_batches = 1;
  bool training = true;
  bool equal_sizes = false;   // one unit each, non-model bytes in units too
  int64_t unit_bytes = 1024;  // a multiple of kBlockAlignment
  double frozen_share = 0.2;
  // Chunks of activations beside the others: each is made in every micro batch
  // by an operator of forward and read by one of backward.
  int64_t activations = 0;
};

// Returns a random trace that passes CheckTrace: chunks used in no order,
// writes anywhere in backward, reduces anywhere after the last write of a micro
// batch, updates in any order, operators of length 0. The same seed gives the
// same trace.
StepTrace ArbitraryTrace(const ArbitraryTraceOptions& options, uint64_t seed);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_TESTING_TRACE_GENERATOR_H_
