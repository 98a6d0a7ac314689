// The values of a model's parameters and optimizer states: where they come
// from, and how they leave. Everything goes piece by piece, chunk by chunk; a
// whole model never exists in one place.
#ifndef CASTOR_RUNTIME_MODEL_STATE_H_
#define CASTOR_RUNTIME_MODEL_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/thread_pool.h"
#include "memory/exec/chunk_store.h"
#include "runtime/parameter.h"

namespace castor {

// Where values come from: a generator, a pretrained model, a checkpoint.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  // Elements [begin, end) of the parameter's fp32 values (kMaster) or of an
  // optimizer state. Frozen parameters are asked for kMaster alone.
  virtual absl::Status Read(const Parameter& parameter, OptimizerPart part,
                            int64_t begin, int64_t end, float* out) = 0;
};

// Initial values from counters (kernels/init.h); states are 0.
class InitialValues final : public ParameterSource {
 public:
  explicit InitialValues(uint64_t seed) : seed_(seed) {}
  absl::Status Read(const Parameter& parameter, OptimizerPart part,
                    int64_t begin, int64_t end, float* out) override;

 private:
  const uint64_t seed_;
  ThreadPool pool_{AvailableProcessors()};
};

using Parameters = std::vector<std::unique_ptr<Parameter>>;

// Fills every chunk's home, and states where they live, each of this rank's
// shard. Blocks. No payload may
// be resident.
absl::Status FillChunks(const Parameters& parameters, ChunkStore& store,
                        ParameterSource& source);

// Calls `take` with consecutive pieces of each parameter's values or states:
// parameters in the order of their names, for each kMaster, then (trainable
// ones, if `with_states`) kM, kV. With several ranks only those of this rank's
// shards. A frozen parameter's values are its payload, widened. Blocks; nothing
// may be changing the parameters.
absl::Status VisitModelState(
    const Parameters& parameters, ChunkStore& store, bool with_states,
    absl::FunctionRef<absl::Status(const Parameter& parameter,
                                   OptimizerPart part, int64_t begin,
                                   absl::Span<const float> values)>
        take);

// SHA-256 over all parameters (with several ranks: this one's) in the order of
// their names, little-endian fp32, in lower-case hexadecimal.
absl::StatusOr<std::string> ParametersSha256(const Parameters& parameters,
                                             ChunkStore& store);

}  // namespace castor

#endif  // CASTOR_RUNTIME_MODEL_STATE_H_
