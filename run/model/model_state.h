// The values of a model's parameters and optimizer states: where they come
// from, and how they leave. Everything goes piece by piece, chunk by chunk; a
// whole model never exists in one place.
#ifndef CASTOR_RUN_MODEL_MODEL_STATE_H_
#define CASTOR_RUN_MODEL_MODEL_STATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/thread_pool.h"
#include "device/comm/communicator.h"
#include "memory/exec/chunk_store.h"
#include "run/model/parameter.h"

namespace castor {

// A source of values: a generator, a pretrained model, a checkpoint.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  // Elements [begin, end) of the parameter's values (kMaster), of one of its
  // states, or of the values of its margins, as fp32. Frozen parameters are
  // asked for kMaster alone.
  virtual absl::Status Read(const Parameter& parameter, StatePart part,
                            int64_t begin, int64_t end, float* out) = 0;
};

// Initial values from counters (kernels/init/init.h); states are 0.
class InitialValues final : public ParameterSource {
 public:
  explicit InitialValues(uint64_t seed) : seed_(seed) {}
  absl::Status Read(const Parameter& parameter, StatePart part, int64_t begin,
                    int64_t end, float* out) override;

 private:
  const uint64_t seed_;
  ThreadPool pool_{AvailableProcessors()};
};

// Writes `values` as elements [at, at + size) of a shard: into its master, if
// it has states, rounded to nearest, and rounded from there into its home. `at`
// is a multiple of kStateTile.
absl::Status PutValues(const ExecContext& context, const ChunkLayout& layout,
                       absl::Span<const float> values, int64_t at,
                       std::byte* home, const StateView& states);

using Parameters = std::vector<std::unique_ptr<Parameter>>;

// Fills every chunk's home, and states where they live, each of this rank's
// shard, and the values of margins. Blocks. No payload may be resident.
absl::Status FillChunks(const Parameters& parameters, ChunkStore& store,
                        ParameterSource& source);

// A parameter's elements [begin, end), of itself; none: begin >= end.
struct ParameterRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// The elements of the parameter that lie in rank `rank`'s shard of its chunk.
// They are one range, for a parameter lies whole in one chunk, and a shard is
// an even cut of that.
ParameterRange ShardOf(const Parameter& parameter, const ChunkLayout& layout,
                       int rank);

// The elements of a part that rank `rank` visits and saves: of a parameter and
// its state slots its own shard; of the values of margins, of which every rank
// has all, rank 0 has everything and the others nothing.
ParameterRange OwnedBy(int rank, const Parameter& parameter, StatePart part,
                       const ChunkLayout& layout);

// The elements of a part of a trainable parameter.
int64_t ElementsOf(const Parameter& parameter, StatePart part,
                   const ChunkLayout& layout);

// The parts that are kept of a parameter, in the order of VisitModelState.
std::vector<StatePart> PartsOf(const Parameter& parameter,
                               const StateLayout& states);

// Returns the parameters in the order of their names, which is that of
// VisitModelState.
std::vector<const Parameter*> ByName(const Parameters& parameters);

// Calls `take` with consecutive pieces of each parameter's values or states:
// parameters in the order of their names, for each kMaster, then (trainable
// ones, if `with_states`) their state slots and the values of their margins.
// With several ranks only what OwnedBy says. Values are widened to fp32: a
// frozen parameter's, which are its payload, and those of states of another
// format. Blocks; nothing may be changing the parameters.
absl::Status VisitModelState(
    const Parameters& parameters, ChunkStore& store, bool with_states,
    absl::FunctionRef<absl::Status(const Parameter& parameter, StatePart part,
                                   int64_t begin,
                                   absl::Span<const float> values)>
        take);

// "NAME (master) holds nan": a value of a parameter or of its states.
std::string DescribeValue(const Parameter& parameter, StatePart part,
                          float value, const ChunkLayout& layout);

// The first value in this rank's shards, parameters' or states', that is not
// finite, described; "" if all are, or where they cannot be read.
std::string FindNotFinite(const Parameters& parameters, ChunkStore& store);

// SHA-256 over all parameters in the order of their names, little-endian fp32,
// in lower-case hexadecimal. Null on one rank; with several, all call it, and
// each gets that of the whole model: the sum goes from owner to owner, 112
// bytes at a time, the values stay where they are.
absl::StatusOr<std::string> ParametersSha256(const Parameters& parameters,
                                             ChunkStore& store,
                                             Communicator* communicator);

}  // namespace castor

#endif  // CASTOR_RUN_MODEL_MODEL_STATE_H_
