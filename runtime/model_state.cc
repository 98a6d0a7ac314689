#include "runtime/model_state.h"

#include <algorithm>
#include <cstring>

#include "base/philox.h"
#include "base/status_macros.h"
#include "kernels/elementwise.h"
#include "kernels/init.h"
#include "runtime/io/sha256.h"

namespace castor {
namespace {

// Elements handled at a time: 1 MiB of floats.
constexpr int64_t kPiece = 1 << 18;

// A parameter's elements [begin, end), of itself, that lie in this rank's
// shard.
struct Range {
  int64_t begin, end;
};
Range OwnRange(const Parameter& parameter, const ChunkLayout& layout) {
  const int64_t shard = layout.shard_begin(parameter.chunk);
  const int64_t shard_end = shard + layout.shard_elements(parameter.chunk);
  return {std::max<int64_t>(0, shard - parameter.offset),
          std::min(parameter.elements(), shard_end - parameter.offset)};
}

// One trainable or frozen parameter's elements within the own shard of a
// chunk's home and states.
absl::Status FillParameter(const Parameter& parameter,
                           const ChunkLayout& layout, ParameterSource& source,
                           std::byte* home,
                           const OptimizerView& states,
                           const ExecContext& context,
                           std::vector<float>& piece) {
  const DType dtype = layout.dtype;
  const Range own = OwnRange(parameter, layout);
  for (int64_t begin = own.begin; begin < own.end; begin += kPiece) {
    const int64_t end = std::min(begin + kPiece, own.end);
    const int64_t at =
        parameter.offset + begin - layout.shard_begin(parameter.chunk);
    float* values = states.master != nullptr ? states.master + at
                                             : piece.data();
    CASTOR_RETURN_IF_ERROR(
        source.Read(parameter, OptimizerPart::kMaster, begin, end, values));
    CASTOR_RETURN_IF_ERROR(kernels::Cast(context, end - begin,
                                         DType::kFloat32, values, dtype,
                                         home + at * SizeOf(dtype)));
    if (states.master == nullptr) continue;
    CASTOR_RETURN_IF_ERROR(
        source.Read(parameter, OptimizerPart::kM, begin, end, states.m + at));
    CASTOR_RETURN_IF_ERROR(
        source.Read(parameter, OptimizerPart::kV, begin, end, states.v + at));
  }
  return absl::OkStatus();
}

std::vector<const Parameter*> ByName(const Parameters& parameters) {
  std::vector<const Parameter*> sorted;
  for (const auto& parameter : parameters) sorted.push_back(parameter.get());
  std::sort(sorted.begin(), sorted.end(),
            [](const Parameter* a, const Parameter* b) {
              return a->name < b->name;
            });
  return sorted;
}

}  // namespace

absl::Status InitialValues::Read(const Parameter& parameter,
                                 OptimizerPart part, int64_t begin,
                                 int64_t end, float* out) {
  const ExecContext context{&pool_};
  if (part != OptimizerPart::kMaster) {
    return kernels::FillConstant(context, end - begin, 0, out);
  }
  if (parameter.init.stddev == 0) {
    return kernels::FillConstant(context, end - begin, parameter.init.mean,
                                 out);
  }
  const RandomKey key = {
      seed_, HashName(parameter.name.data(), parameter.name.size())};
  return kernels::FillNormal(context, key, begin, end, parameter.init.mean,
                             parameter.init.stddev, out);
}

absl::Status FillChunks(const Parameters& parameters, ChunkStore& store,
                        ParameterSource& source) {
  ThreadPool pool(1);
  const ExecContext context{&pool};
  const ChunkLayout& layout = store.layout();
  std::vector<float> piece(kPiece);
  for (int64_t i = 0; i < layout.num_chunks(); ++i) {
    const ChunkId id(i);
    CASTOR_RETURN_IF_ERROR(store.Fill(
        id,
        [&](std::byte* home, const OptimizerView& states) -> absl::Status {
          // Padding takes part in nothing but the copies; it is 0.
          std::memset(home, 0, layout.shard_bytes(id));
          if (states.master != nullptr) {
            std::memset(states.master, 0, 3 * states.elements * sizeof(float));
          }
          for (ParamId parameter : layout.chunk(id).parameters) {
            CASTOR_RETURN_IF_ERROR(
                FillParameter(*parameters[parameter.value], layout, source,
                              home, states, context, piece));
          }
          return absl::OkStatus();
        }));
  }
  return absl::OkStatus();
}

absl::Status VisitModelState(
    const Parameters& parameters, ChunkStore& store, bool with_states,
    absl::FunctionRef<absl::Status(const Parameter&, OptimizerPart, int64_t,
                                   absl::Span<const float>)>
        take) {
  ThreadPool pool(1);
  const ExecContext context{&pool};
  const DType dtype = store.layout().dtype;
  std::vector<float> values(kPiece);
  std::vector<std::byte> narrow(kPiece * SizeOf(dtype));
  for (const Parameter* parameter : ByName(parameters)) {
    for (const OptimizerPart part :
         {OptimizerPart::kMaster, OptimizerPart::kM, OptimizerPart::kV}) {
      const bool state = part != OptimizerPart::kMaster;
      if (state && !(with_states && parameter->trainable)) continue;
      const Range own = OwnRange(*parameter, store.layout());
      for (int64_t begin = own.begin; begin < own.end; begin += kPiece) {
        const int64_t end = std::min(begin + kPiece, own.end);
        const int64_t at = parameter->offset + begin;
        const int64_t size = end - begin;
        if (parameter->trainable) {
          CASTOR_RETURN_IF_ERROR(store.ReadOptimizer(
              parameter->chunk, part, at, at + size, values.data()));
        } else {
          CASTOR_RETURN_IF_ERROR(
              store.ReadHome(parameter->chunk, at, at + size, narrow.data()));
          CASTOR_RETURN_IF_ERROR(kernels::Cast(context, size, dtype,
                                               narrow.data(), DType::kFloat32,
                                               values.data()));
        }
        CASTOR_RETURN_IF_ERROR(take(*parameter, part, begin,
                                    absl::MakeConstSpan(values.data(), size)));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ParametersSha256(const Parameters& parameters,
                                             ChunkStore& store) {
  Sha256 hash;
  CASTOR_RETURN_IF_ERROR(VisitModelState(
      parameters, store, /*with_states=*/false,
      [&](const Parameter&, OptimizerPart, int64_t,
          absl::Span<const float> values) {
        hash.Update(values.data(),
                    static_cast<int64_t>(values.size() * sizeof(float)));
        return absl::OkStatus();
      }));
  return hash.HexDigest();
}

}  // namespace castor
